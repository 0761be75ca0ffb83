"""What an evaluator asks of a claim, and how a package answers: each row with its status and how it is shown.

Two lists. The first follows the pyramid of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees"
(2025), from the ground up, as an upper block is worth no more than the blocks below it. The second follows the
requirements for secure processing environments of the European Health Data Space that TEHDAS2 consulted on (milestone
7.4, appendix B), by identifier, as far as they concern software. All questions are in our words.

Answers are made from the package's own evidence where it has any. A row that software cannot answer is outside. No
certification is claimed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from expril.audit.package.evidence import SIMULATED, CuratorSpent, Replay
from expril.audit.results import AuditResult
from expril.report.numbers import count

MET, PART, NOT_MET, OUTSIDE = "met", "in part", "not met", "outside"
"""What may be said of a row. `OUTSIDE`: it is for people and organisations."""


class Row(NamedTuple):
    """One question, and its answer."""

    block: str  # under which it stands
    question: str  # what is asked
    status: str  # MET, PART, NOT_MET or OUTSIDE
    answer: str  # how it is met, or why not
    proof: str  # the command or the document that shows it; "" if it is outside
    identifier: str = ""  # of the requirement; "" where the source has none


@dataclass(frozen=True)
class PackageFacts:
    """What answers take from a package: all of it recomputed from the evidence, or counted in its audit."""

    curators: int
    learners: int  # that spent something
    epsilon: str  # of one unit, exact
    answers: int  # charged releases: of all ledgers, or of all signed messages where there is no ledger
    ledgers: int
    entries: int  # of all ledgers
    snapshots: int  # of records, as the ledgers name them
    simulated: bool  # whether a run was a simulation
    kinds: int  # kinds of releases that the audit attacked
    controls: int  # mechanisms broken on purpose that it caught

    @classmethod
    def of(cls, proof: Replay, curators: Sequence[CuratorSpent], epsilon: str, audit: AuditResult) -> "PackageFacts":
        """The facts of a package whose claim is `epsilon`."""
        ledgers = [ledger.audit for ledger in proof.result.ledgers]
        proofs = [item.proof for run in proof.result.runs for item in run.transcripts if item.proof is not None]
        return cls(
            curators=len(curators),
            learners=len({name for curator in curators for name in curator.learners}),
            epsilon=epsilon,
            answers=sum(len(ledger.replayed.charges) for ledger in ledgers) or sum(item.releases for item in proofs),
            ledgers=len(ledgers),
            entries=sum(ledger.entries for ledger in ledgers),
            snapshots=len({version for ledger in ledgers for _, version in ledger.replayed.data}),
            simulated=any(SIMULATED in curator.note for curator in curators),
            kinds=len(audit.kinds),
            controls=sum(control.caught for control in audit.controls),
        )

    @property
    def spent(self) -> str:
        """What was answered and spent, in words."""
        return (
            f"{count(self.answers, 'answer')} of {count(self.curators, 'curator')} to {count(self.learners, 'learner')}"
            f" cost one unit an epsilon of {self.epsilon}"
        )

    @property
    def log(self) -> str:
        """Which ledgers are in the package, in words."""
        if not self.ledgers:
            return "no ledger is in this package: its signed messages alone were replayed"
        return f"{self.entries:,} entries of {count(self.ledgers, 'ledger')} were replayed"


COLLECTION, ACCESS, TRUST, SIDE = "Data collection exposure", "Access control", "Trust model", "Side channels"
ALGORITHMS, UTILITY, BIAS = "Algorithms and correctness", "Utility", "Bias"
UNIT, PARAMETERS = "Unit of privacy", "Privacy parameters"
PYRAMID = (COLLECTION, ACCESS, TRUST, SIDE, ALGORITHMS, UTILITY, BIAS, UNIT, PARAMETERS)
"""The blocks of the pyramid, from the ground up."""
_GUARANTEE = "docs/explanation/privacy-guarantee.md"
_CHECK, _MECHANISM = "expril audit check-package", "expril audit mechanism all"


def pyramid_rows(facts: PackageFacts) -> tuple[Row, ...]:
    """Answer NIST SP 800-226 for a package."""
    return (
        Row(
            COLLECTION,
            "Are only records collected that are needed?",
            OUTSIDE,
            "Each curator decides what it collects. The software adds no collection, and copies no record anywhere.",
            "",
        ),
        Row(
            COLLECTION,
            "Does any record, gradient or exact number leave a curator?",
            MET,
            f"Only integers with noise, refusals and what the steward wrote leave. {_sentence(facts.spent)} "
            "Every release in the evidence can be read.",
            "expril transcript show",
        ),
        Row(
            COLLECTION,
            "Are other releases made from the same records?",
            OUTSIDE,
            "What is published beside this software is not in its ledger, and adds to the loss.",
            "",
        ),
        Row(
            ACCESS,
            "Who may ask?",
            MET,
            f"Only keys that the steward enrolled. Here {count(facts.learners, 'learner')} did.",
            "expril curator learners",
        ),
        Row(
            ACCESS,
            "Can somebody make the curator run code or open a file?",
            MET,
            "No message carries code, a path or a pickle: a curator decodes numbers and names under a strict schema.",
            f"{_GUARANTEE}#the-contract",
        ),
        Row(
            ACCESS,
            "Is a message accepted that was forged, replayed or changed on its way?",
            MET,
            "Every message is signed. A repeat gets the stored answer, and nobody pays twice.",
            _CHECK,
        ),
        Row(
            ACCESS,
            "Who can read the machine that holds the records, its disks and backups?",
            OUTSIDE,
            "That is for the curator's administrator. There is a hardened service unit.",
            "",
        ),
        Row(
            TRUST,
            "Who is trusted with what?",
            MET,
            "Each curator is a central model: it is trusted with its own records and with nobody else's. Learners and "
            "relays may be malicious, and learners may collude.",
            f"{_GUARANTEE}#who-is-trusted-with-what",
        ),
        Row(
            TRUST,
            "What if all learners collude?",
            MET,
            f"One cap binds them together, and the claim of {facts.epsilon} counts all of them as one.",
            _CHECK,
        ),
        Row(
            TRUST,
            "What if a curator's operator puts its ledger back?",
            MET,
            "The curator finds it by its own mark, or from any later receipt, and halts. An auditor finds it from "
            "receipts and witnessed heads.",
            "expril audit run --receipt --witnessed",
        ),
        Row(
            TRUST,
            "Does a bound rest on other curators, or on cryptography?",
            MET,
            "Only that of secure sums does: at most t of the curators may tell the learner what they know. The "
            "registry entry says how much was charged so.",
            f"{_GUARANTEE}#secure-sums",
        ),
        Row(
            TRUST, "Does a curator tell the truth about its records?", OUTSIDE, "Nobody can see that from outside.", ""
        ),
        Row(
            SIDE,
            "Can floating-point numbers give a record away?",
            MET,
            "Noise is added to integers, by integer sampling. The float of a scale is rounded up, so that there is "
            "more noise and never less.",
            _MECHANISM,
        ),
        Row(
            SIDE,
            "Does the computation on one record depend on others by rounding?",
            MET,
            "Points, centres and weights lie on a fixed grid, so that sums are exact in any order. The audit plays "
            "against a curator that rounds.",
            _MECHANISM,
        ),
        Row(
            SIDE,
            "Do errors, refusals or logs depend on a record?",
            MET,
            "A refusal is decided by request, policy and ledger before a record is looked at.",
            f"{_GUARANTEE}#the-contract",
        ),
        Row(
            SIDE,
            "Does the size of a reply depend on a record?",
            MET,
            "It is known before anything is charged.",
            f"{_GUARANTEE}#the-contract",
        ),
        Row(
            SIDE,
            "Does time depend on a record?",
            PART,
            "It does, a little: it is measured, and not covered by epsilon.",
            f"{_GUARANTEE}#time",
        ),
        Row(
            SIDE,
            "Is noise ever drawn twice for one question, or used twice?",
            MET,
            "An answer is stored with its charge, and a repeat gets the stored bytes. The audit plays against curators "
            "that draw twice.",
            _MECHANISM,
        ),
        Row(
            ALGORITHMS,
            "Is there a proof?",
            MET,
            "There is one for each kind of release, and one that their losses add up to no more than was charged.",
            f"{_GUARANTEE}#proof",
        ),
        Row(
            ALGORITHMS,
            "Is the sensitivity right, for every kind and partition?",
            MET,
            f"The audit searched neighbouring records for {count(facts.kinds, 'kind')} of releases, and enumerated "
            "the loss.",
            _MECHANISM,
        ),
        Row(
            ALGORITHMS,
            "Has the noise the law that is claimed?",
            MET,
            "It is tested against the law, with a stated false-alarm rate and power.",
            _MECHANISM,
        ),
        Row(
            ALGORITHMS,
            "Is the noise drawn by a library that others review?",
            PART,
            "By default it is drawn by this software: proven in docs/explanation/exact-noise.md, enumerated and tested "
            "here. A policy may name OpenDP instead, which others review.",
            _MECHANISM,
        ),
        Row(
            ALGORITHMS,
            "Is spending added up exactly, and can it pass the cap?",
            MET,
            f"It is added in exact rationals, and a charge that would pass the cap is refused; {facts.log}.",
            _CHECK,
        ),
        Row(
            ALGORITHMS,
            "Does the bound hold when questions depend on earlier answers?",
            MET,
            "The caps bound a privacy filter for pure epsilon, which allows it.",
            f"{_GUARANTEE}#proof",
        ),
        Row(
            ALGORITHMS,
            "Does a new version of the records refill the budget?",
            MET,
            f"Never: the ledgers here name {count(facts.snapshots, 'snapshot')} of records, under one sum."
            if facts.ledgers
            else "Never.",
            _CHECK,
        ),
        Row(
            ALGORITHMS,
            "Was it attacked?",
            MET,
            f"{count(facts.kinds, 'kind')} of releases were, and {count(facts.controls, 'mechanism')} broken on "
            "purpose were caught. An attack that fails is no proof.",
            "expril audit all",
        ),
        Row(
            UTILITY,
            "Does a user learn how far to trust the result?",
            MET,
            "Every result has intervals for sampling and noise. How often they hold is a study.",
            "docs/learner/uncertainty.md",
        ),
        Row(
            UTILITY,
            "Is what remains fit for the intended use?",
            OUTSIDE,
            "That is for who uses it. The registry entry says what it is for.",
            "",
        ),
        Row(
            BIAS,
            "Is the noise without bias?",
            MET,
            "Its law is symmetric about the exact count, and nothing is clipped before it leaves.",
            _MECHANISM,
        ),
        Row(
            BIAS,
            "Are small groups served worse?",
            PART,
            "The same noise weighs more on a small group. Intervals say so.",
            "docs/learner/uncertainty.md",
        ),
        Row(
            BIAS,
            "Do the records speak for the people to whom the result is applied?",
            OUTSIDE,
            "The software cannot know.",
            "",
        ),
        Row(
            UNIT,
            "What is protected?",
            MET,
            "A record, or all records of one person where the steward names the column: adding or removing one. What "
            "else is known of a person who is there costs twice the epsilon or less.",
            f"{_GUARANTEE}#terms",
        ),
        Row(
            UNIT,
            "Is a person with many records bounded?",
            MET,
            "At most c records of a unit are kept, chosen by a keyed hash of that unit alone. The audit plays against "
            "a curator that forgets c.",
            _MECHANISM,
        ),
        Row(UNIT, "Can the unit change under a ledger?", MET, "A ledger names its unit and takes no other.", _CHECK),
        Row(
            UNIT,
            "May one person be under two names, or at two curators?",
            OUTSIDE,
            "The entry says what its author knows. Where people may be at several curators, epsilons are added up.",
            "",
        ),
        Row(
            PARAMETERS,
            "What are epsilon and delta?",
            MET,
            f"Epsilon is {facts.epsilon} and delta is 0, recomputed from the evidence in this package.",
            _CHECK,
        ),
        Row(
            PARAMETERS,
            "Can anybody recompute them?",
            MET,
            "With one command, without data, network or trust in us.",
            _CHECK,
        ),
        Row(
            PARAMETERS,
            "Is the epsilon small enough?",
            OUTSIDE,
            "That is a judgement about people, records and use.",
            "",
        ),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


COMPUTING, ENVIRONMENT, OPERATION = "Federated computing", "Health data in the environment", "Operation"
INTERFACE = "Interfaces and sensitive data"
HEALTH_DATA = (COMPUTING, ENVIRONMENT, OPERATION, INTERFACE)
"""The blocks of TEHDAS2's requirements of which some concern software."""


def health_data_rows(facts: PackageFacts) -> tuple[Row, ...]:
    """Answer TEHDAS2's requirements for secure processing environments for a package."""
    logs = MET if facts.ledgers else PART

    def row(block: str, identifier: str, question: str, status: str, answer: str, proof: str = "") -> Row:
        return Row(block, question, status, answer, proof, identifier)

    return (
        row(
            COMPUTING,
            "FCR-1",
            "Are common data models supported, such as OMOP?",
            PART,
            "Records may come from OMOP tables by one query. GA4GH's standards are not supported.",
            "docs/steward/omop.md",
        ),
        row(
            COMPUTING, "FCR-2", "Can further data models be deployed?", OUTSIDE, "That is a process of the access body."
        ),
        row(
            COMPUTING,
            "FCR-3",
            "Can the components run that a permit authorises?",
            PART,
            "The questions run that the curator's policy allows, in the kinds that are installed. A learner's own code "
            "never runs, on purpose.",
            "expril curator check",
        ),
        row(COMPUTING, "FCR-4", "Who authorises components?", OUTSIDE, "That is a process of the access body."),
        row(
            COMPUTING,
            "FCR-5",
            "Can a user's application fetch anonymous results and merge them with others'?",
            MET,
            f"{_sentence(facts.spent)} The learner merges signed, noisy answers, or receives one secure sum.",
            "expril transcript show",
        ),
        row(
            COMPUTING,
            "FCR-6",
            "Is the anonymity of results ensured?",
            MET,
            f"By assessed components: {count(facts.kinds, 'kind')} of releases were attacked, and their loss "
            f"enumerated. By automatic refusal: a ledger refuses what would pass the cap. By differential privacy: "
            f'epsilon {facts.epsilon}. By people: approval = "manual" waits for the steward.',
            "expril audit all; expril curator studies",
        ),
        row(
            COMPUTING,
            "FCR-7",
            "Are computerised access permissions approved by a process?",
            PART,
            "A key is enrolled after its fingerprint is compared, with a cap and an end. The permit itself is the "
            "access body's.",
            "expril curator enrol; expril curator learners",
        ),
        row(
            COMPUTING,
            "FCR-8",
            "Is there an open and standardised interface?",
            PART,
            "The interface is open: signed messages over Flower or by files. No standards body has adopted it.",
            "docs/researcher/carriers.md",
        ),
        row(
            COMPUTING,
            "FCR-9",
            "Are privacy methods such as differential privacy supported for federated learning?",
            MET,
            f"No answer leaves without. {_sentence(facts.spent)}",
            _CHECK,
        ),
        row(
            ENVIRONMENT,
            "EHDSR-6",
            "Are logs of access and operations there for verification and audit?",
            logs,
            f"{_sentence(facts.log)} Each entry is signed, and names what was asked and charged.",
            "expril ledger show; expril audit run",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-7",
            "Do logs name the actor?",
            logs,
            f"Each entry names the key that asked. Here {count(facts.learners, 'learner')} did. Whose key it is, the "
            "steward knows.",
            "expril ledger show",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-8",
            "Are logs kept for a year?",
            PART,
            "No command removes an entry, and a missing one is found. To keep the file is for the operator.",
            "expril ledger verify; expril ledger backup",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-9",
            "Are security measures monitored?",
            PART,
            "Each event is a line of JSON, and a halt is told at once. To watch them is for the operator.",
            "expril curator status",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-10",
            "Are the data identified in the permit?",
            PART,
            f"Ledgers name each snapshot of records by its digest. Here they name {count(facts.snapshots, 'snapshot')}."
            " The permit is not read.",
            "expril ledger show",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-11",
            "Does the data holder upload the data?",
            NOT_MET,
            "Records stay with their holder, on purpose: its curator answers in their place.",
            f"{_GUARANTEE}#who-is-trusted-with-what",
        ),
        row(
            ENVIRONMENT,
            "EHDSR-12",
            "Do only non-personal data leave?",
            PART,
            f"Only noisy numbers leave: {facts.spent}. Whether that is anonymous in law is for the access body.",
            _CHECK,
        ),
        row(
            ENVIRONMENT,
            "EHDSR-13",
            "Is what leaves reviewed?",
            PART,
            "Each question is checked against policy and budget before a record is read, and waits for a person where "
            'approval = "manual". The access body\'s own review is outside.',
            "expril curator studies; expril curator approve",
        ),
        row(
            OPERATION,
            "OPR-1",
            "Is access restricted by permit?",
            PART,
            "Only enrolled keys are answered, each within its cap and until its end. The permit is not read.",
            "expril curator learners",
        ),
        row(
            OPERATION,
            "OPR-5",
            "Does access end with the permit?",
            PART,
            "A key may have an end, after which it is a stranger's. To delete records is for their holder.",
            "docs/steward/policy.md#a-key-of-an-enrolled-learner",
        ),
        row(
            OPERATION,
            "OPR-7",
            "Can every operation be traced?",
            logs,
            f"{_sentence(facts.log)} Every charge belongs to one signed request.",
            "expril audit run",
        ),
        row(
            OPERATION,
            "OPR-16",
            "Is each member's every action logged, outputs among them?",
            logs,
            "Each answered request has an entry with the digest of its answer. Reading a card has none, as it tells "
            "nothing of records.",
            "expril ledger show",
        ),
        row(
            OPERATION,
            "OPR-17",
            "Are access logs in secure storage for a year?",
            PART,
            "A changed or missing entry is found, also by a witness elsewhere. The storage is the operator's.",
            "expril audit witness",
        ),
        row(
            OPERATION,
            "OPR-20",
            "Can access be halted promptly?",
            MET,
            "A key that is revoked, or a cap that is lowered, counts from the next request on. To stop the process "
            "stops all, and loses nothing. A doubtful ledger halts by itself.",
            "expril curator revoke",
        ),
        row(
            OPERATION,
            "OPR-21",
            "Can the service be restored after a disaster?",
            MET,
            "A ledger is copied while it serves. A copy that is too old is found, and what was lost is entered as "
            "spent.",
            "expril ledger backup; expril ledger resume",
        ),
        row(
            INTERFACE,
            "SDR-3",
            "Are data protected at rest and on their way?",
            PART,
            "No record travels. Messages go by TLS where the carrier has it, and all are signed. Disks are the "
            "operator's.",
            "docs/researcher/carriers.md",
        ),
        row(
            INTERFACE,
            "SPER-9",
            "Are all interfaces logged?",
            MET,
            "A curator has one interface. Each event is a line of JSON, each charge an entry.",
            "docs/administrator/daemon.md#log",
        ),
        row(
            INTERFACE,
            "TIR-2, TIR-3, TIR-4",
            "Is the interface a web service over HTTPS with JSON?",
            NOT_MET,
            "It is signed MessagePack over Flower's gRPC with TLS, or in files.",
            "docs/researcher/carriers.md",
        ),
        row(
            INTERFACE,
            "TIR-6",
            "Is the interface documented for machines?",
            PART,
            "Vectors for every message are in the source. There is no OpenAPI description.",
            "docs/researcher/carriers.md",
        ),
        row(
            INTERFACE,
            "TIR-7",
            "Is every request authenticated and authorised?",
            MET,
            "By an Ed25519 signature under an enrolled key, and by the policy for its learner.",
            "docs/steward/enrolment.md",
        ),
        row(
            INTERFACE,
            "TIR-9",
            "Is incoming data validated?",
            MET,
            "Strictly: by type, size, depth, range and canonical form, before anything is charged.",
            f"{_GUARANTEE}#the-contract",
        ),
        row(
            INTERFACE,
            "TIR-10",
            "Do errors hide what is sensitive?",
            MET,
            "A refusal is a code and a constant text, and depends on no record.",
            f"{_GUARANTEE}#the-contract",
        ),
        row(
            INTERFACE,
            "TIR-12",
            "Are requests, responses and errors logged?",
            MET,
            "Charges and answers are entries of the ledger, refusals lines of the log.",
            "docs/administrator/daemon.md#log",
        ),
        row(
            INTERFACE,
            "TIR-16",
            "Is the rate limited?",
            MET,
            "Requests, refusals and stray messages a day are, by learner and by study.",
            "docs/steward/policy.md#the-policy-file",
        ),
        row(
            INTERFACE,
            "TIR-17",
            "Are requests and answers checked for consistency?",
            MET,
            "Both sides verify signatures, order, exact costs and receipts.",
            "expril audit run",
        ),
    )
