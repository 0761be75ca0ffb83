"""What the published numbers are made with: campaigns of runs, peers, tables and pages."""
