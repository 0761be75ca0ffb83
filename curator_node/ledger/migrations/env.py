"""Alembic's environment script: it runs the revisions over the connection that it gets, without an ini file."""

from alembic import context

from curator_node.ledger.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
