"""A table of proposals that wait for the steward's decision."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "held",
        sa.Column("request", sa.LargeBinary(32), primary_key=True),
        sa.Column("learner", sa.LargeBinary(32), nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_held_learner", "held", ["learner"])
