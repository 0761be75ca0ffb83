"""The laboratory that makes the published numbers: campaigns of runs, peers, tables and pages."""
