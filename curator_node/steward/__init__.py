"""What a steward does at a site: set up, enrol, check, approve, look."""
