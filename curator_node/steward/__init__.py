"""The work of a steward at a site: to set it up, enrol learners, check it, approve studies, and watch it."""
