"""One simulation run as one self-contained document: `model` holds its numbers, `document` puts them together."""
