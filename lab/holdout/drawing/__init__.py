"""The template of figures that stand alone as SVG files."""
