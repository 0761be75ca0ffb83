"""What a site that gave nothing would get: for each site, the same learner's model of all its other sites.

Curators, keys and ledgers are new, under the same policies and on the same records as in the repeat, so that neither
the budgets nor the evidence of the run are touched. The site's unlabelled records are left out of the learner's source,
too. This is apart from `simulations.repeats`, which runs the studies that a run is about and keeps their evidence.
"""

from collections.abc import Mapping

import msgspec
import polars as pl

from learner_node.study.federation import Carrier
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from learner_node.study.study import NoCuratorError
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from simulations.carriers.sites import CuratorFacts, order_sites
from simulations.carriers.stages import IN_PROCESS, Stage
from simulations.records import sites_of
from simulations.repeats import Repeat, Tick, federate, fit
from simulations.scenario import LearnerScenario, Scenario

ITS_OWN_SOURCE = "the learner's unlabelled records are that site's alone"
_STRIDE, _SEEDS = 7_919, 2**31


def leave_one_out(
    scenario: Scenario,
    repeat: Repeat,
    stage: Stage = IN_PROCESS,
    tick: Tick = lambda step, done, total: None,  # noqa: ARG005
) -> None:
    """Add to each outcome of a finished repeat the models of all sites but one, or why there is none."""
    work = [
        (outcome, site)
        for outcome in repeat.outcomes
        if outcome.learned is not None and outcome.learner.joins(sites_of(outcome.learner, repeat.sites)[0])
        for site in sites_of(outcome.learner, repeat.sites)[0]
    ]
    for number, (outcome, site) in enumerate(work):
        tick("leaving one out", number, len(work))
        names, sources = (
            tuple(name for name in part if name != site) for part in sites_of(outcome.learner, repeat.sites)
        )
        if not sources:
            outcome.others_failures[site] = ITS_OWN_SOURCE
            continue
        learner = msgspec.structs.replace(
            outcome.learner, curators=names, source=sources, validate=None, recalibrate=False
        )
        try:
            learned = _learn(_with(scenario, learner, number), learner, repeat, stage)
            if (model := learned.models[POOLED][-1]) is not None:
                outcome.others[site] = model
        except (NoCuratorError, ConfigurationError) as error:
            outcome.others_failures[site] = str(error)
    tick("leaving one out", len(work), len(work))


def _with(scenario: Scenario, learner: LearnerScenario, number: int) -> Scenario:
    """The scenario for this learner alone; noise from a seed gets another seed."""
    curators = tuple(
        msgspec.structs.replace(
            curator, learner_caps={name: cap for name, cap in curator.learner_caps.items() if name == learner.name}
        )
        for curator in scenario.curators
    )
    seed = scenario.noise_seed
    return msgspec.structs.replace(
        scenario,
        learners=(learner,),
        curators=curators,
        noise_seed=None if seed is None else (seed + _STRIDE * (number + 1)) % _SEEDS,
    )


def _learn(scenario: Scenario, learner: LearnerScenario, repeat: Repeat, stage: Stage) -> Learned:
    """Run the learner's study at new curators of its sites."""
    parts = [repeat.sites[name] for name in learner.curators]
    keys = {learner.name: SigningKey.generate()}
    source = pl.concat([repeat.sites[name].source for name in learner.source]).drop(parts[0].steward.label)
    results: list[Learned] = []

    def ask(curators: Mapping[str, CuratorFacts], carrier: Carrier) -> None:
        federation = federate(learner, curators, keys[learner.name], carrier)
        seed = scenario.seed * 1_000_003 + repeat.number
        results.append(fit(learner, federation, source, seed, lambda step, done, total: None))  # noqa: ARG005

    stage(order_sites(scenario, parts, repeat.number, keys), ask)
    return results[0]
