"""Documents of numbers as web pages, Markdown, terminal tables, CSV and SVG files, all from one description."""
