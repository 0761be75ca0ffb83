"""What a plan of several analyses takes: Table 1 of 20 attributes, two curves and a regression, 4 curators of 10,000.

Processor seconds of one process that is learner and all curators: quote, asking, reading. docs/learner/analyses.md has
them.
"""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import polars as pl

from benchmarks.common import Result, at_most
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_node.analyses.asking import analyse
from learner_node.analyses.parts import read_parts
from learner_node.analyses.quoting import Prospect, quote_analyses
from learner_node.study.budget import Budget
from learner_node.study.federation import Federation
from learner_node.study.pooling import SECURE, SUM, Pooling
from protocol.envelopes import SigningKey
from protocol.limits import Limits
from protocol.schema import Attribute, CategoricalAttribute, NumericAttribute, Schema, TimeToEvent
from simulations.carriers.direct import direct_federation
from simulations.carriers.sites import with_members

SITES, RECORDS = 4, 10_000
LIMIT = 20.0
NUMBERS, CATEGORIES = 12, 8
ATTRIBUTES: tuple[Attribute, ...] = (
    *(NumericAttribute(f"n{index}", 0.0, 100.0) for index in range(NUMBERS)),
    *(CategoricalAttribute(f"c{index}", ("a", "b", "c", "d")) for index in range(CATEGORIES)),
)
SCHEMA = Schema(
    ATTRIBUTES,
    "died",
    ("no", "yes"),
    outcomes=(NumericAttribute("days", 0.0, 2000.0), CategoricalAttribute("exit", ("alive", "dead"))),
    time_to_event=TimeToEvent("days", "exit", "alive", bins=10, horizon=1000.0),
)
PARTS = read_parts(
    [
        {"kind": "table_one", "name": "table 1", "group": "died", "attributes": [a.name for a in ATTRIBUTES]},
        {"kind": "survival", "name": "first curve", "group": "c0"},
        {"kind": "survival", "name": "second curve", "group": "c1"},
        {
            "kind": "regression",
            "name": "regression",
            "model": "logistic",
            "outcome": "died",
            "event": "yes",
            "covariates": [{"variable": f"c{index}"} for index in range(CATEGORIES)],
        },
    ],
    where="benchmark",
)


def run() -> list[Result]:
    """See the module."""
    quote = _processor(
        lambda: quote_analyses(PARTS, Prospect(SCHEMA, (RECORDS,) * SITES, 1, Pooling(SUM)), Fraction(1))
    )
    results = [at_most("quote of the plan", quote, LIMIT, "s of processor")]
    for name, pooling in (("own noise", Pooling(SUM)), ("secure", Pooling(SECURE))):
        federation = _federation(pooling)
        taken = _processor(lambda: analyse(federation, PARTS, Budget(1), pooling=pooling).to_builtins())  # noqa: B023 - called at once
        results.append(at_most(f"the plan asked and read, {name}", taken, LIMIT, "s of processor"))
    return results


def _processor(task: Callable[[], object]) -> float:
    begun = time.process_time()
    task()
    return time.process_time() - begun


def _federation(pooling: Pooling) -> Federation:
    rng = np.random.default_rng(1)
    learner = SigningKey.generate()
    keys = [SigningKey.generate() for _ in range(SITES)]
    members = tuple(key.public.hex() for key in keys) if pooling.secure else ()
    kinds: dict[str, dict[str, object]] = {"counts": {}, "secure_counts": {}} if pooling.secure else {"counts": {}}
    steward = SchemaFile(
        label=SCHEMA.label,
        classes=SCHEMA.classes,
        attributes=SCHEMA.attributes,
        outcomes=SCHEMA.outcomes,
        time_to_event=SCHEMA.time_to_event,
        round_size=RECORDS,
    )
    sites = {}
    for number, key in enumerate(keys):
        policy = Policy(
            name=f"site {number}",
            cap=1,
            learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=1),),
            limits=with_members(Limits(kinds=kinds), members),
            simulation=True,
        )
        sites[policy.name] = temporary_site(_records(rng), steward, policy, key=key)
    return direct_federation(sites, learner)


def _records(rng: np.random.Generator) -> pl.DataFrame:
    columns: dict[str, object] = {f"n{index}": rng.uniform(0, 100, RECORDS) for index in range(NUMBERS)}
    codes = rng.integers(0, 4, (CATEGORIES, RECORDS))
    columns |= {f"c{index}": np.array(list("abcd"))[row] for index, row in enumerate(codes)}
    risk = 1 / (1 + np.exp(1.5 - 0.3 * codes[0]))
    days = rng.exponential(900 / (1 + codes[0]), RECORDS)
    ends = rng.uniform(0, 1500, RECORDS)
    return pl.DataFrame(
        columns
        | {
            "died": np.where(rng.random(RECORDS) < risk, "yes", "no"),
            "days": np.minimum(days, ends),
            "exit": np.where(days <= ends, "dead", "alive"),
        }
    )
