"""What an evaluator asks of a claim of differential privacy, and where the answer is proven.

The rows follow the pyramid of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025), from
the ground up, as an upper block is worth no more than the blocks below it. A row names a test of this repository or a
section of a document. Other rows are outside: software cannot answer them, and the package does not pretend to.
"""

from itertools import groupby
from typing import NamedTuple

from expril.report.document import Document, Section, Text
from expril.report.numbers import count
from expril.report.table import Cell, Column, Table

OUTSIDE = "outside"


class Row(NamedTuple):
    """One question of the checklist, and where it is answered."""

    block: str  # of the pyramid
    question: str  # what an evaluator asks
    answer: str  # one or two sentences
    proof: str  # "tests/...::name", "docs/...#section", or `OUTSIDE`


COLLECTION, ACCESS, TRUST, SIDE = "Data collection exposure", "Access control", "Trust model", "Side channels"
ALGORITHMS, UTILITY, BIAS = "Algorithms and correctness", "Utility", "Bias"
UNIT, PARAMETERS = "Unit of privacy", "Privacy parameters"
BLOCKS = (COLLECTION, ACCESS, TRUST, SIDE, ALGORITHMS, UTILITY, BIAS, UNIT, PARAMETERS)
"""The blocks of the pyramid, from the ground up."""
_GUARANTEE = "docs/privacy-guarantee.md"

ROWS = (
    Row(
        COLLECTION,
        "Are only records collected that are needed?",
        "Each curator decides what it collects; the software adds no collection, and copies no record anywhere.",
        OUTSIDE,
    ),
    Row(
        COLLECTION,
        "Does any record, gradient or exact number leave a curator?",
        "All that leaves are integers with noise, refusals and what the steward wrote; two sets of records are "
        "compared byte by byte.",
        "tests/curator_node/test_non_interference.py::test_records_show_in_the_noise_alone_over_both_stores",
    ),
    Row(
        COLLECTION,
        "Are other releases made from the same records?",
        "What is published beside this software is not in its ledger, and adds to the loss.",
        OUTSIDE,
    ),
    Row(
        ACCESS,
        "Who may ask?",
        "Only keys that the steward enrolled; a stranger learns no number.",
        "tests/system/test_attacks.py::test_stranger_learns_no_number",
    ),
    Row(
        ACCESS,
        "Can somebody make the curator run code or open a file?",
        "It has no code that would.",
        "tests/system/test_attacks.py::test_curator_opens_no_file_and_runs_no_code_it_was_sent",
    ),
    Row(
        ACCESS,
        "Is a message accepted that was forged, replayed or changed on its way?",
        "Every message is signed; a relay brings nobody a wrong answer and makes nobody pay twice.",
        "tests/system/test_malicious_carrier.py::test_a_relay_brings_nobody_a_wrong_answer_and_makes_nobody_pay_twice",
    ),
    Row(
        ACCESS,
        "Who can read the machine that holds the records, its disks and backups?",
        "That is for the curator's administrator; there is a hardened service unit.",
        OUTSIDE,
    ),
    Row(
        TRUST,
        "Who is trusted with what?",
        "The central model at each curator: it is trusted with its own records and with nobody else's. Learners and "
        "relays may be malicious, learners may collude.",
        f"{_GUARANTEE}#who-is-trusted-with-what",
    ),
    Row(
        TRUST,
        "What if all learners collude?",
        "One cap binds them together.",
        "tests/system/test_attacks.py::test_colluding_learners_meet_the_cap_over_all",
    ),
    Row(
        TRUST,
        "What if a curator's operator puts its ledger back?",
        "The curator finds it by its own mark, or from any later receipt, and halts.",
        "tests/system/test_attacks.py::test_rolled_back_ledger_is_detected_from_a_receipt_and_halts_until_resume",
    ),
    Row(
        TRUST,
        "Does a bound rest on other curators, or on cryptography?",
        "Of secure sums alone, and the registry entry says how much was charged so: at most t of the curators may tell "
        "the learner what they know. With more, the loss is known, and far above the claim. All else rests on neither.",
        f"{_GUARANTEE}#secure-sums",
    ),
    Row(TRUST, "Does a curator tell the truth about its records?", "Nobody can see that from outside.", OUTSIDE),
    Row(
        SIDE,
        "Can floating-point numbers give a record away?",
        "Noise is added to integers, by integer sampling; the float of a scale is rounded so that there is more "
        "noise, never less.",
        "tests/curator_node/test_mechanisms.py::test_float_is_the_smallest_not_below",
    ),
    Row(
        SIDE,
        "Does the computation on one record depend on others by rounding?",
        "Points, centres and weights lie on a fixed grid: sums are exact in any order, batch and thread count.",
        "tests/protocol/test_exactness.py::test_a_record_is_the_same_whatever_rows_surround_it",
    ),
    Row(
        SIDE,
        "Do errors, refusals or logs depend on a record?",
        "None does, for any kind of query.",
        "tests/system/test_attacks.py::test_refusals_of_a_curator_are_the_same_whatever_its_records",
    ),
    Row(
        SIDE,
        "Does the size of a reply depend on a record?",
        "It is known before anything is charged.",
        "tests/curator_node/test_work.py::test_the_bytes_of_a_release_are_known_before_anything_is_charged",
    ),
    Row(
        SIDE,
        "Does time depend on a record?",
        "It does, a little: it is measured, and not covered by epsilon.",
        f"{_GUARANTEE}#time",
    ),
    Row(
        SIDE,
        "Is noise ever drawn twice for one question, or used twice?",
        "An answer is stored with its charge, and a repeat gets the stored bytes.",
        "tests/curator_node/test_answer_once.py::test_a_lost_reply_is_never_drawn_again",
    ),
    Row(
        ALGORITHMS,
        "Is there a proof?",
        "Discrete Laplace noise on integer counts, composed by a filter for pure epsilon.",
        f"{_GUARANTEE}#proof",
    ),
    Row(
        ALGORITHMS,
        "Is the sensitivity right, for every kind and partition?",
        "A unit moves the counts by no more than is charged, for drawn pairs of data sets, and the bound is reached.",
        "tests/curator_node/test_answerers.py::test_a_unit_moves_the_counts_by_no_more_than_is_charged",
    ),
    Row(
        ALGORITHMS,
        "Has the noise the law that is claimed?",
        "Tested against the law, with a stated false-alarm rate and power; the library's own map is checked at every "
        "answer.",
        "tests/curator_node/test_mechanisms.py::test_noise_has_the_claimed_scale_and_centre",
    ),
    Row(
        ALGORITHMS,
        "Is the noise library one that others review?",
        "OpenDP. It is tested here, and not proven.",
        "tests/curator_node/test_mechanisms.py::test_library_s_map_agrees_with_the_exact_cost",
    ),
    Row(
        ALGORITHMS,
        "Is spending added up exactly, and can it pass the cap?",
        "In exact rationals: thirty charges of 1/30 fit a cap of 1, and the next does not.",
        "tests/curator_node/test_ledger.py::test_thirty_charges_of_a_thirtieth_fit_a_cap_of_one_and_the_next_does_not",
    ),
    Row(
        ALGORITHMS,
        "Does the bound hold when questions depend on earlier answers?",
        "No walk of two learners says more than was charged, computed exactly; one walk attains the bound.",
        "tests/curator_node/test_ex_post.py::test_no_walk_says_more_than_was_charged",
    ),
    Row(
        ALGORITHMS,
        "Does a new version of the records refill the budget?",
        "Never.",
        "tests/curator_node/test_site.py::test_a_new_version_never_refills_a_budget",
    ),
    Row(
        ALGORITHMS,
        "Was it attacked?",
        "Yes: the report in this package, with mechanisms that are broken on purpose as controls. An attack that "
        "fails is no proof; it supplements the one above.",
        "docs/audit.md#what-each-side-proves",
    ),
    Row(
        UTILITY,
        "Does a user learn how far to trust the result?",
        "The learner's intervals cover the true accuracy as often as they say.",
        "tests/learner_node/test_estimates.py::test_the_interval_covers_and_the_verdict_has_power",
    ),
    Row(
        UTILITY,
        "Is what remains fit for the intended use?",
        "That is for who uses it; the registry entry says what it is for.",
        OUTSIDE,
    ),
    Row(
        BIAS,
        "Is the noise without bias?",
        "Its law is symmetric about the exact count, and nothing is clipped before it leaves.",
        "tests/curator_node/test_mechanisms.py::test_a_centre_off_by_a_tenth_of_the_scale_is_noticed",
    ),
    Row(
        BIAS,
        "Are small groups served worse?",
        "The same noise weighs more on a small group. Classes that hardly occur still get an honest estimate.",
        "tests/learner_node/test_estimates.py::test_a_class_that_hardly_occurs_has_an_estimate",
    ),
    Row(
        BIAS, "Do the records speak for the people to whom the result is applied?", "The software cannot know.", OUTSIDE
    ),
    Row(
        UNIT,
        "What is protected?",
        "A record, or all records of one person where the steward names the column; adding or removing one. "
        "Of one that is known to be there, all else: twice the epsilon or less (docs/odds.md).",
        f"{_GUARANTEE}#terms",
    ),
    Row(
        UNIT,
        "Is a person with many records bounded?",
        "At most c records of a unit are kept, chosen by a keyed hash of that unit alone.",
        "tests/curator_node/test_answerers.py::test_kept_rows_of_a_unit_depend_on_that_unit_alone",
    ),
    Row(
        UNIT,
        "Can the unit change under a ledger?",
        "A ledger is not carried over to other terms.",
        "tests/system/test_attacks.py::test_a_ledger_is_not_carried_over_to_other_terms",
    ),
    Row(
        UNIT,
        "May one person be under two names, or at two curators?",
        "The entry says what its author knows; where people may be at several curators, epsilons are added up.",
        OUTSIDE,
    ),
    Row(
        PARAMETERS,
        "What are epsilon and delta?",
        "In the registry entry: recomputed from the evidence in this package, exact, delta 0.",
        "docs/audit.md#a-claim-package",
    ),
    Row(
        PARAMETERS,
        "Can anybody recompute them?",
        "With one command, without data, network or trust in us.",
        "tests/audit/test_package.py::test_a_stranger_checks_a_package_without_data_and_without_a_network",
    ),
    Row(PARAMETERS, "Is the epsilon small enough?", "That is a judgement about people, records and use.", OUTSIDE),
)


def as_objects() -> list[dict[str, str]]:
    """Return the rows as plain JSON values."""
    return [row._asdict() for row in ROWS]


README = """\
What this is: a claim of differential privacy with all that proves it. To check it takes no data and no network,
and the check says what still rests on somebody's word.

Check it on any machine with ExPriL and its extras "simulations" and "audit":

    expril audit check-package THIS_FOLDER --key KEY

KEY is the packager's public key, from elsewhere than this folder: {key}

deployment.yaml    the entry for a registry of deployments: who, what, epsilon
checklist.html     what an evaluator asks (NIST SP 800-226), and where each answer is proven
audit.html         the attack on every release, for people; audit.json for machines
exact.json         losses of the releases, by enumeration
false-alarms.json  how often the attack accuses correct software, measured
ledger.json        what each curator spent, recomputed; claim.json the claim itself
facts.json         what only people know, in their words
evidence/          signed messages and ledger exports, from which ledger.json is recomputed
manifest.json      hashes of all files; manifest.sig its signature
"""


def checklist_document() -> Document:
    """Make the checklist, with a section for each block of the pyramid. It says where each question is answered."""
    rows = sorted(ROWS, key=lambda row: -BLOCKS.index(row.block))
    outside = sum(row.proof == OUTSIDE for row in ROWS)
    columns: list[Column[Row]] = [
        Column("question", lambda row: row.question, names=True),
        Column("answer", lambda row: row.answer),
        Column("proven by", lambda row: Cell("outside", tone="warn") if row.proof == OUTSIDE else row.proof),
    ]
    reading = (
        "Each block of the pyramid is worth no more than those below it: a small epsilon protects nobody whose records "
        "are on an open disk. tests/…::name is a test, and docs/…#section a text, of the version of ExPriL that the "
        "manifest names. “Outside” is for whoever runs the deployment."
    )
    return Document(
        kind="ExPriL claim package",
        subject="Checklist",
        headline="What an evaluator asks, and where it is proven",
        summary=(
            f"{count(len(ROWS), 'question')} along the pyramid of NIST SP 800-226, from its top down.",
            f"{len(ROWS) - outside} lead to a test or a proof, {outside} are outside of what software can answer.",
        ),
        sections=[
            *(
                Section(block, [Table.of(block, columns, list(group))])
                for block, group in groupby(rows, key=lambda row: row.block)
            ),
            Section("How to read this", [Text(reading)]),
        ],
    )


def readme(key: str) -> str:
    """Return the text of a package's `README.txt`.

    `key`: the packager's public key, hexadecimal.
    """
    return README.format(key=key)
