"""Vectors as data: see README.md and schema.json beside this file."""
