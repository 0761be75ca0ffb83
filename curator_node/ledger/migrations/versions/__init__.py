"""One file a version of the tables; a revision is never changed once a ledger may have it."""
