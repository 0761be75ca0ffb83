"""The tables as ExPriL 0.2 made them, without a name for their version."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables; a ledger of 0.2 has them."""
    if "entries" in sa.inspect(op.get_bind()).get_table_names():
        return
    op.create_table(
        "entries",
        sa.Column("entry_index", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "replies",
        sa.Column("request", sa.LargeBinary(32), primary_key=True),
        sa.Column("reply", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "refusals",
        sa.Column("request", sa.LargeBinary(32), primary_key=True),
        sa.Column("learner", sa.LargeBinary(32), nullable=False),
        sa.Column("refusal", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_refusals_learner", "refusals", ["learner"])
