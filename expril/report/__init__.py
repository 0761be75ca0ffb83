"""Found numbers as CSV, Markdown, terminal tables and web pages: one description of a table serves all four."""
