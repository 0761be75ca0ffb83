"""How a ledger's tables came from version to version: alembic's revisions in `versions`, run by `upgrading`."""
