"""One simulation run as one self-contained web page: `model` holds the numbers, `page` writes the page."""
