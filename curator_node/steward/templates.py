"""The files that a new site starts with; their steward writes them on."""

import json

POLICY_TEMPLATE = """\
# Who may ask this curator, and how much. Every key is told in docs/policy.md.
# The daemon notices a change by itself; `expril curator check` says what it would do.

name = {name}

# Most epsilon over all learners together, for ever. It never refills: start low, it can be raised later.
cap = 1

# What is not written here has these values; each is about one learner, but for the last three.
# approval = "manual"           # you read each proposal before it is accepted; "automatic" accepts what fits
# approval_seconds = 2_592_000  # how long a proposal waits for you, and an approved one for its learner
# held_studies = 4              # proposals that may wait; expril curator studies, approve, decline
# open_studies = 4              # at once
# studies = 1_000               # ever
# reservation_seconds = 86_400  # how long a study may hold what it reserved
# message_seconds = 3_600       # how far ahead a message's expiry may lie
# least_cost = "1/1000"         # of a plan
# least_query_cost = "1/10000"  # of each of its questions
# requests_per_day = 100_000
# refusals_per_day = 1_000
# refusals_per_study = 100
# stray_messages_per_day = 100_000  # late, repeated or not signed: they count on no learner
# reply_bytes = 1_073_741_824   # of stored replies
# cache_bytes = 268_435_456     # of memory, for questions that come again; read at start

[limits]
# multiply_adds = 50_000_000_000  # five seconds of one core
message_bytes = 4_000_000         # longest message that is read

[limits.kinds.counts]
# What may be counted; these are all private as claimed.
release_kinds = ["mass", "signed_error", "error_correct", "class_counts", "label_total", "squared_error",
  "error_sums"]
cells = 10_000

# Sums with other curators, under the noise of one, are off unless this is written; see docs/policy.md.
# [limits.kinds.secure_counts]
# members = ["64 hexadecimal digits", "..."]  # every curator's public key, this one's among them
# least_colluders = 1

# Nobody may ask until a learner is named: its public key as `expril keys` prints it, checked by telephone.
# [[learners]]
# name = "ada"
# key = "64 hexadecimal digits"
# cap = "1/2"
"""

SCHEMA_TEMPLATE = """\
# What is public about the records. Every key is told in docs/policy.md.
# Write it from knowledge - code book, devices, what a living patient can have - and never from the records.
# Remove the leading "# " of what you keep. As it stands, the curator does not start.

# description = "Stays in two wards, 2019 to 2024; for the steward."

# The column to learn, and its classes: the second is the positive one.
# label = "readmitted"
# classes = ["no", "yes"]

# Whose privacy is protected: the patient, where a patient may have several rows.
# unit = "patient"
# most_records_per_unit = 3

# A round figure from last year's report, never an exact count.
# round_size = 5000

# [[attributes]]
# name = "age"
# kind = "numeric"
# lower = 0
# upper = 120
# description = "age in years"

# [[attributes]]
# name = "smoker"
# kind = "categorical"
# levels = ["never", "former", "current"]
# description = "as the patient says"
"""

DAEMON_TEMPLATE = """\
# How this curator is reached. Every key is told in docs/daemon.md.

superlink = {superlink}      # "host:port" of the SuperLink
ca = "ca.crt"                # the authority that certifies it; in this folder, from who keeps the SuperLink
health_port = {port}           # of this machine alone: http://127.0.0.1:{port}/health and /status

# waiting_command = ["/usr/bin/logger", "a study waits"]  # run when one waits for you, with its identity

# ledger_env = "EXPRIL_LEDGER" # the environment variable with a database's URL, instead of curator.ledger
# mark = "/var/lib/expril/curator.mark"  # best on another disk than the ledger; needed with a database
"""


def policy_template(name: str) -> str:
    """A policy with low limits and without learners."""
    return POLICY_TEMPLATE.format(name=_quoted(name))


def daemon_template(superlink: str, health_port: int) -> str:
    """A daemon file."""
    return DAEMON_TEMPLATE.format(superlink=_quoted(superlink), port=health_port)


def _quoted(text: str) -> str:
    """As a TOML string: JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
