"""Migrations of a ledger's tables from version to version: alembic's revisions in `versions`, run by `upgrades`."""
