"""Makes a new site's folder, once: keys, ledger and mark, and templates of the files that its steward edits."""

import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from curator_node.daemon.node_key import write_node_key
from curator_node.daemon.settings import DAEMON, NODE_KEY, NODE_PUBLIC, read_settings
from curator_node.key_files import read_key, write_key
from curator_node.ledger.places import create_ledger_file, mark_path
from curator_node.policy import read_policy
from curator_node.records.schema_file import SCHEMA, read_schema_file
from curator_node.site import KEY, LEDGER, POLICY, RECORDS, now
from curator_node.steward.enrolment import quoted
from expril.files import read_text_file, write_new
from protocol.errors import ConfigurationError
from protocol.identity import MOST_NAME, check_said

POLICY_TEMPLATE = """\
# Who may ask this curator, and how much. Every key is told in docs/steward/policy.md.
# The daemon notices a change by itself; `expril curator check` says what it would do.

name = {name}

# Most epsilon over all learners together, for ever. It never refills: start low, it can be raised later.
cap = 1

# Take off the "# " to read each proposal before it is accepted. As it stands, what fits your rules is accepted at once.
# approval = "manual"

# What is not written here has these values; each is about one learner, but for the last three.
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
# noise = "exact"               # whose sampler draws it: "exact", our own, or "opendp"; read at start

[limits]
# multiply_adds = 50_000_000_000  # five seconds of one core
message_bytes = 4_000_000         # longest message that is read

[limits.kinds.counts]
# What may be counted; these are all private as claimed.
release_kinds = ["mass", "signed_error", "error_correct", "class_counts", "label_total", "squared_error",
  "error_sums", "outcome_counts"]
cells = 10_000

# Sums with other curators, under the noise of one, are off unless this is written; see docs/steward/policy.md.
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
# What is public about the records. Every key is told in docs/steward/policy.md.
# expril schema draft begins one, in another file, from the names of columns and a data dictionary.
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
# units = "years"
# missing = [999, "unknown"]                   # what else than an empty field means missing
# description = "at admission"

# [[attributes]]
# name = "admitted"                            # a column of dates
# kind = "numeric"
# days_since = 2019-01-01
# lower = 2019-01-01
# upper = 2024-12-31

# [[attributes]]
# name = "smoker"
# kind = "categorical"
# levels = ["never", "former", "current"]
# missing = ["not asked"]
# description = "as the patient says"
"""

DAEMON_TEMPLATE = """\
# How this curator is reached. Every key is told in docs/administrator/daemon.md.

superlink = {superlink}      # "host:port" of the SuperLink
ca = "ca.crt"                # the authority that certifies it; in this folder, from who keeps the SuperLink
health_port = {port}           # of this machine alone: http://127.0.0.1:{port}/health and /status

# waiting_command = ["/usr/bin/logger", "a study waits"]  # run when one waits for you, with its identity

# ledger_env = "EXPRIL_LEDGER" # the environment variable with a database's URL, instead of curator.ledger
# mark = "/var/lib/expril/curator.mark"  # best on another disk than the ledger; needed with a database
"""


def policy_template(name: str) -> str:
    """A policy with low limits and without learners."""
    return POLICY_TEMPLATE.format(name=quoted(name))


def daemon_template(superlink: str, health_port: int) -> str:
    """A daemon file."""
    return DAEMON_TEMPLATE.format(superlink=quoted(superlink), port=health_port)


CA = "ca.crt"
PLACEHOLDER = "superlink.example.org:8000"
RULE = "a site is made once; nothing is overwritten"


class NewSite(NamedTuple):
    """The result of `init_site`."""

    identity: bytes  # the curator's public key
    node: Path  # file of the node's public key
    todo: tuple[str, ...]  # what its steward does next, in sentences


def init_site(
    folder: Path, name: str, *, superlink: str = "", ca: Path | None = None, schema: Path | None = None
) -> NewSite:
    """Make a site's folder, for its owner's eyes only; records and a schema file may be in it already.

    Args:
        folder: made where there is none.
        name: the curator's.
        superlink: "host:port"; empty leaves it to be written later.
        ca: file of the authority that certifies it; copied.
        schema: a schema file; copied. None leaves one that is there, or writes a template.

    Raises:
        ConfigurationError: a file to be made exists, or a given file is wrong; nothing was made.
    """
    mark = mark_path(folder / LEDGER)
    fresh = [folder / name_of_file for name_of_file in (POLICY, KEY, LEDGER, NODE_KEY, NODE_PUBLIC, DAEMON)] + [mark]
    fresh += [folder / CA] if ca else []
    fresh += [folder / SCHEMA] if schema else []
    present = [path for path in fresh if path.exists() or path.is_symlink()]
    if present:
        raise ConfigurationError(f"{', '.join(map(str, present))}: there already; {RULE}")
    check_said("--name", name, least=1, most=MOST_NAME)
    policy = policy_template(name)
    read_policy(policy, where="--name")
    declared = SCHEMA_TEMPLATE if schema is None else read_text_file(schema, "schema file")
    if schema is not None:
        read_schema_file(declared, where=str(schema))
    authority = None if ca is None else _certificate(ca)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the folder {folder}: {error.strerror}; choose another") from None
    write_new(folder / DAEMON, daemon_template(superlink or PLACEHOLDER, _quiet_port()).encode(), rule=RULE)
    try:
        read_settings(folder)
    except ConfigurationError:
        (folder / DAEMON).unlink()
        raise
    if authority is not None:
        write_new(folder / CA, authority, rule=RULE)
    write_new(folder / POLICY, policy.encode(), rule=RULE)
    if not (folder / SCHEMA).exists():
        write_new(folder / SCHEMA, declared.encode(), rule=RULE)
    identity = bytes.fromhex(write_key(folder / KEY))
    write_node_key(folder / NODE_KEY, folder / NODE_PUBLIC)
    create_ledger_file(folder / LEDGER, read_key(folder / KEY), now=now())
    return NewSite(identity, folder / NODE_PUBLIC, _todo(folder, superlink=superlink, ca=ca, schema=schema))


def _todo(folder: Path, *, superlink: str, ca: Path | None, schema: Path | None) -> tuple[str, ...]:
    steps = []
    if schema is None:
        steps.append(
            f"write {folder / SCHEMA}: what is public about the records; expril schema draft begins one in another file"
        )
    if not any((folder / name).is_file() for name in RECORDS):
        steps.append(f"put the records there: {' or '.join(str(folder / name) for name in RECORDS[:2])}")
    if not superlink:
        steps.append(f"write the SuperLink's address into {folder / DAEMON}")
    if ca is None:
        steps.append(f"put the certificate of the SuperLink's authority there: {folder / CA}")
    steps += [
        f"send {folder / NODE_PUBLIC} to who keeps the SuperLink, who lets it in by: flwr supernode register node.pub",
        f"set the cap over all in {folder / POLICY}",
        f"let each learner in by its card: expril curator enrol {folder} CARD --cap 1",
        f"look at what would happen: expril curator check {folder}",
        f"serve: expril curator serve {folder}",
    ]
    return tuple(steps)


def _certificate(ca: Path) -> bytes:
    text = read_text_file(ca, "certificate file", remedy="ask who keeps the SuperLink for it")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise ConfigurationError(f"{ca} is no certificate in PEM format; ask who keeps the SuperLink for it")
    return text.encode()


def _quiet_port() -> int:
    """A free port of the loopback below those of outgoing connections, so that each site has its own."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
