"""What the tables and examples of docs/protocol must say, by the code: `python tests/support/protocol_pages.py`.

A table or block that follows a mark, such as `<!-- fields: Query -->`, is made here, apart from the last cell of a row,
its meaning, which people write. The command puts into the pages what the code says, and keeps the meanings.
"""

import re

import msgspec
from msgspec import inspect

from curator_node.admission import MOST_HELD_BYTES
from curator_node.policy import Policy
from learner_node.carriers import journal
from protocol import codec, envelopes, identity, limits, messages, plans, rationals, schema
from protocol.kinds import QUERY_KINDS, counts, holdout, model, sample, secure_counts, statistic
from protocol.ledger import checkpoints, entries, exports
from protocol.messages import MESSAGE_TYPES
from protocol.partitions import PARTITION_KINDS
from protocol.refusals import EXPLANATIONS, RETRIABLE, RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.secure_sum import group
from protocol.secure_sum.graph import COMPLETE_UP_TO
from protocol.secure_sum.participant import SEALED_SHARES
from protocol.secure_sum.shamir import SHARE
from protocol.transitions import TRANSITIONS
from protocol_examples import EXAMPLES
from trees import ROOT

PAGES = ROOT / "docs" / "protocol"
POLICY = Policy(name="example", cap=1)
BODIES = {
    "counts": (counts.CountsBody, counts.CountsRelease),
    "secure_counts": (*secure_counts.BODIES, *secure_counts.RELEASES),
    "holdout": (holdout.HoldoutBody, holdout.HoldoutRelease),
    "sample": (sample.SampleBody, sample.SampleRelease),
    "model": (model.ModelBody, model.ModelRelease),
    "statistic": (statistic.StatisticBody, statistic.StatisticRelease),
}
"""Query kind -> the structs of its bodies and releases."""
ROOTS = (
    *(envelopes.Envelope, messages.Message, *MESSAGE_TYPES.values(), messages.Receipt),
    *(identity.IdentityCard, entries.Entry, entries.StatefulEntry, entries.LostEntry, exports.LedgerExport),
    *(plans.Head, checkpoints.Equivocation, entries.Position, secure_counts.Note, journal.Record),
    *(kind.planned for kind in QUERY_KINDS.values()),
    *(kind.limits for kind in QUERY_KINDS.values()),
    *(struct for structs in BODIES.values() for struct in structs),
)
"""Everything on the wire is reached from these."""
LIMITS_OF_KINDS = {kind.limits.__name__ for kind in QUERY_KINDS.values()}
PATTERNS = {rationals.AMOUNT_PATTERN: "amount", rf"{rationals.AMOUNT_PATTERN}|^\Z": "amount or empty text"}
MISSING = "?"


def _structs(kind):
    """All structs that a type reaches, itself among them."""
    found, open_ = {}, [kind]
    while open_:
        item = open_.pop()
        if isinstance(item, inspect.StructType):
            if item.cls.__name__ in found:
                continue
            found[item.cls.__name__] = item
            open_ += [field.type for field in item.fields]
        for name in ("types", "item_types"):
            open_ += getattr(item, name, ())
        open_ += [getattr(item, name) for name in ("item_type", "value_type") if hasattr(item, name)]
    return found


STRUCTS = {name: item for root in ROOTS for name, item in _structs(inspect.type_info(root)).items()}
"""Every struct on the wire, by the name of its class."""


def number(value):
    """A number as the pages write it: 1,000, 2^40, 2^32 - 1, 1e-100."""
    if isinstance(value, float) or not isinstance(value, int):
        return str(value)
    for shift, text in ((0, ""), (1, " - 1")):
        power = abs(value) + shift
        if power >= 2**17 and power & (power - 1) == 0:
            return f"{'-' if value < 0 else ''}2^{power.bit_length() - 1}{text}"
    return f"{value:,}"


def extent(least, most, unit=""):
    """A range as the pages write it."""
    if least == most and least is not None:
        return f"{number(least)}{unit}"
    if most is None:
        return f"at least {number(least)}{unit}" if least else ""
    return f"{number(least)} to {number(most)}{unit}" if least is not None else f"at most {number(most)}{unit}"


def words(kind):
    """A type as the pages write it."""
    name = next((name for name in WORDS if isinstance(kind, getattr(inspect, name))), None)
    if name is None:
        raise TypeError(f"no words for {kind}")
    return WORDS[name](kind)


def _joined(*parts):
    return ", ".join(filter(None, parts))


def _union(kind):
    inner = [item for item in kind.types if isinstance(item, inspect.Type) and not isinstance(item, inspect.NoneType)]
    text = " or ".join(dict.fromkeys(words(item) for item in inner))
    return f"{text} or nil" if kind.includes_none else text


def _int(kind):
    least = kind.ge if kind.gt is None else kind.gt + 1
    return _joined("int", extent(least, kind.le if kind.lt is None else kind.lt - 1))


def _text(kind):
    if kind.pattern in PATTERNS:
        return PATTERNS[kind.pattern]
    pattern = f"`{kind.pattern}`" if kind.pattern else ""
    return _joined("text", extent(kind.min_length, kind.max_length, " characters"), pattern)


def _array(kind):
    return _joined(f"array of {_in(kind.item_type)}", extent(kind.min_length, kind.max_length))


def _in(kind):
    text = words(kind)
    return f"({text})" if " " in text and not text.startswith("pair") else text


WORDS = {
    "StructType": lambda kind: f"`{kind.cls.__name__}`",
    "UnionType": _union,
    "IntType": _int,
    "StrType": _text,
    "BytesType": lambda kind: _joined("bytes", extent(kind.min_length, kind.max_length)),
    "FloatType": lambda _: "float",
    "BoolType": lambda _: "bool",
    "VarTupleType": _array,
    "ListType": _array,
    "TupleType": lambda kind: f"pair ({', '.join(_in(item) for item in kind.item_types)})",
    "DictType": lambda kind: f"map of {_in(kind.key_type)} to {_in(kind.value_type)}",
    "LiteralType": lambda kind: " or ".join(f"`{value}`" for value in kind.values),
    "EnumType": lambda _: "text, one of the kinds below",
    "RawType": lambda _: "any value",
    "AnyType": lambda _: "any value",
}
"""Name of a type of msgspec's -> its words."""


def default(field, *, omits):
    """What a decoder takes for a field that is absent; "" if the field must be there."""
    # msgspec says nothing of a default that leaves the field out
    unset = not field.required and field.default is field.default_factory is msgspec.NODEFAULT
    if field.required or not (omits or unset):
        return ""
    if unset:
        return "absent"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is None:
        return "nil"
    if isinstance(value, tuple) and value:
        return "all known ones"
    return {(): "empty array", "": "empty text"}.get(value) or (
        number(value) if isinstance(value, int) else f"`{value}`"
    )


def fields(title):
    """Rows of a struct: field, type, default. "A less B" leaves out the fields that A has of B."""
    name, _, base = title.partition(" less ")
    struct = STRUCTS[name]
    shared = {field.encode_name for field in STRUCTS[base].fields} if base else set()
    by_name = {field.encode_name: field for field in struct.fields}
    order = [field for field in struct.cls.__struct_encode_fields__ if field not in shared]
    rows = [] if struct.tag is None or base else [(f"`{struct.tag_field}`", f"`{struct.tag}`", "")]
    # A card holds limits as a map of any values, so there an absent one is read as its default.
    omits = struct.cls.__struct_config__.omit_defaults or name in LIMITS_OF_KINDS
    rows += [(f"`{item}`", words(by_name[item].type), default(by_name[item], omits=omits)) for item in order]
    return ("field", "type", "default"), rows


def refusals(_title):
    """Codes, whether they may pass, and their sentences."""
    rows = [(f"`{code}`", "may pass" if code in RETRIABLE else "final", EXPLANATIONS[code]) for code in RefusalCode]
    return ("code", "passes", "sentence"), rows


LABELS = {
    "envelope": envelopes.LABEL,
    "envelope of a simulation": envelopes.NOT_PRIVATE_LABEL,
    "identity card": identity.LABEL,
    "statement to other curators": "expril/2 statement",
    "succession of keys": "expril/2 succession",
    "fingerprint": "expril/2 fingerprint",
    "request digest": "expril/2 request",
    "secure sum's question": "expril/2 secure counts",
    "secure sum's group": "expril/2 secure sum",
    "secure sum's round": "expril/2 secure sum round",
    "secure sum's seed": "expril/2 secure sum seed",
    "secure sum's derived keys": "expril/2 secure sum, ",
    "ledger's genesis": "expril/2 ledger",
    "ledger's entry": "expril/2 ledger entry",
    "ledger's head": "expril/2 ledger head",
    "kept state": "expril/2 state",
    "sealing of a kept state": "expril/2 kept state",
    "transcript": "expril/2 transcript",
    "run's index": "expril/2 run index",
    "claim package": "expril/2 audit package manifest",
    "learner's study": "expril/2 study",
    "mark": "expril/2 mark 2",
    "older mark": "expril/2 mark",
    "blocks of records": "expril/2 blocks",
    "version of the records": "expril/2 data version",
    "derived secrets": "expril/1 ",
    "public randomness": "expril/1 public randomness ",
}
"""Use -> label; a test finds every label of the code here."""


def labels(_title):
    """Uses and their labels."""
    return ("use", "label"), [(use, f'`"{label}"`') for use, label in LABELS.items()]


ENTRY_FIELDS = {
    "open": "learner, note",
    "start": "note",
    "enrol": "learner, note",
    "data": "note",
    "plug_ins": "note",
    "reserve": "learner, study, amount, request, expires_at, plan, costs, note",
    "charge": "learner, study, sequence, amount, request, note",
    "answered": "learner, study, sequence, request, reply, size, note",
    "close": "learner, study, sequence, amount, request",
    "expire": "learner, study, sequence, amount",
    "evict": "learner, study",
    "approve": "learner, study, amount, request, expires_at, note",
    "decline": "learner, study, amount, request, note",
    "halt": "suspect, note",
    "resume": "learner, amount, own, note",
    "handover": "learner",
}
"""Kind of entry -> the fields that may differ from their defaults."""


def entry_kinds(_title):
    """Kinds of entries and the fields that each uses."""
    rows = [(f"`{kind}`", ", ".join(f"`{name}`" for name in used.split(", "))) for kind, used in ENTRY_FIELDS.items()]
    return ("kind", "fields that it uses"), rows


def release_kinds(_title):
    """Release kinds: numbers a cell, hypothesis, label, steps."""
    three = schema.Schema((schema.NumericAttribute("a", 0, 1),), "b", ("x", "y", "z"))
    wants = {True: "yes", False: "no", None: "may"}
    rows = [
        (
            f"`{name}`",
            "number of classes" if kind.by_class else str(kind.columns(three)),
            wants[kind.wants_hypothesis],
            kind.label,
            "planned" if kind.of_steps is not None else "1",
            "yes" if kind.ranged else "no",
            "yes" if kind.reads_outcomes else "no",
        )
        for name, kind in RELEASE_KINDS.items()
    ]
    return ("release", "numbers a cell", "hypothesis", "label", "steps S", "clip", "outcomes"), rows


LIMITS = {
    "envelope": (codec.MOST_ENVELOPE_BYTES, "bytes"),
    "request, unless the card says otherwise": (limits.Limits().message_bytes, "bytes"),
    "work, unless the card says otherwise": (limits.Limits().multiply_adds, "multiply-adds"),
    "queries of a plan": (plans.MOST_QUERIES, "queries"),
    "turns of a plan": (plans.MOST_TURNS, "turns"),
    "purpose": (messages.MOST_PURPOSE, "characters"),
    "receipt's position": (messages.SEALED_BYTES, "bytes"),
    "numerator and denominator on the wire": (rationals.MOST, "each"),
    "round size where a card declares none": (limits.ASSUMED_ROUND_SIZE, "records"),
    "identity card": (identity.MOST_BYTES, "bytes"),
    "text that holds an identity card": (identity.MOST_TEXT, "characters"),
    "card's date of issue ahead of the reader's clock": (identity.SLACK, "seconds"),
    "ledger export": (exports.MOST, "bytes"),
    "entries of an export's block": (exports.BLOCK, "entries"),
    "participants of a secure sum": (group.MOST_PARTICIPANTS, "curators"),
    "participants of which every two are neighbours": (COMPLETE_UP_TO, "curators"),
    "sealed shares of one holder": (SEALED_SHARES, "bytes"),
    "share of a secret": (SHARE, "bytes"),
    "request's expiry ahead, unless the policy says otherwise": (POLICY.message_seconds, "seconds"),
    "reservation, unless the policy says otherwise": (POLICY.reservation_seconds, "seconds"),
    "wait for the steward, unless the policy says otherwise": (POLICY.approval_seconds, "seconds"),
    "held proposal": (MOST_HELD_BYTES, "bytes"),
}
"""What is bounded -> (most, unit)."""


def most(_title):
    """Limits."""
    return ("what", "at most"), [(what, f"{number(value)} {unit}") for what, (value, unit) in LIMITS.items()]


def kinds(_title):
    """Query kinds and what of them a card and a curator need to know."""
    rows = []
    for name, kind in QUERY_KINDS.items():
        turns = {"secure_counts": "5", "holdout": "planned"}.get(name, "1")
        rows.append((f"`{name}`", turns, "yes" if kind.by_default else "no", f"{kind.state_bytes:,}"))
    return ("kind", "turns", "allowed by default", "most bytes of state"), rows


def transitions(_title):
    """States of a study, events, and the state after each."""
    rows = [
        (f"`{state}`", f"`{event}`", f"`{after}`")
        for state, steps in TRANSITIONS.items()
        for event, after in steps.items()
    ]
    return ("state", "event", "state after"), rows


def partitions(_title):
    """Names of partitions and their structs."""
    return ("type", "structure"), [(f"`{name}`", f"`{kind.__name__}`") for name, kind in PARTITION_KINDS.items()]


def estimators(_title):
    """Names of estimators and numbers of attributes."""
    table = statistic.ESTIMATORS
    return ("estimator", "attributes"), [(f"`{name}`", extent(item.fewest, item.most)) for name, item in table.items()]


TABLES = {
    "fields": fields,
    "refusals": refusals,
    "labels": labels,
    "entry kinds": entry_kinds,
    "release kinds": release_kinds,
    "limits": most,
    "kinds": kinds,
    "transitions": transitions,
    "partitions": partitions,
    "estimators": estimators,
}
_MARK = re.compile(r"<!-- ([a-z ]+?)(?:: (.+?))? -->\n\n((?:\|.*\n)+|```[a-z]*\n(?:(?!```).*\n)*```\n)")


def rewritten(text):
    """A page's text with what the code says in its tables and examples; meanings stay."""
    return _MARK.sub(lambda match: _block(match[1], match[2] or "", match[3]), text)


def _block(what, title, old):
    mark = f"<!-- {what}{': ' if title else ''}{title} -->\n\n"
    if what == "example":
        return f"{mark}```text\n{EXAMPLES[title]}\n```\n"
    head, rows = TABLES[what](title)
    meanings = {}
    for line in old.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip().strip("|").split(" |")]
        meanings.setdefault(_key(cells[0], cells[1] if what == "transitions" else ""), cells[-1].lstrip("| "))
    lines = [" | ".join((*head, "meaning")), "|".join("---" for _ in range(len(head) + 1))]
    for row in rows:
        meaning = meanings.get(_key(row[0], row[1] if what == "transitions" else ""), MISSING)
        lines.append(" | ".join((*row, meaning or MISSING)))
    return mark + "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


def _key(*cells):
    return tuple(cell.strip().strip("|").strip() for cell in cells)


def marks(text):
    """(what, title) of every mark that a table or block follows."""
    return [(match[1], match[2] or "") for match in _MARK.finditer(text)]


def pages():
    """Path -> text of every page."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(rewritten(text), encoding="utf-8")
