"""The tables of a ledger's database."""

import sqlalchemy as sa

METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("entry_index", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
)
REPLIES = sa.Table(
    "replies",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("reply", sa.LargeBinary, nullable=False),
)
REFUSALS = sa.Table(
    "refusals",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("learner", sa.LargeBinary(32), nullable=False, index=True),
    sa.Column("refusal", sa.LargeBinary, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)
HELD = sa.Table(
    "held",
    METADATA,
    sa.Column("request", sa.LargeBinary(32), primary_key=True),
    sa.Column("learner", sa.LargeBinary(32), nullable=False, index=True),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("received_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
)
"""Proposals that wait for their steward's word."""
