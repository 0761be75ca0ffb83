"""What the user of a scenario should look at once more, before anything is asked."""

from collections.abc import Mapping
from fractions import Fraction

from curator_node.records.dataset import complaints_about
from learner_node.study.doubts import doubts_about
from protocol.rationals import parse_rational, written
from protocol.record_frames import encode_and_count_moved
from simulations.records import Records, SiteRecords, require_classes, site_doubts, sites_of, split_records
from simulations.report.folding import some_of
from simulations.scenario import Scenario


def doubts_of(scenario: Scenario, records: Records) -> list[str]:
    """What is worth a warning, in sentences; the scenario can be run as it is.

    Raises:
        ConfigurationError: as `split_records`, `sites_of` and `require_classes`.
    """
    for learner in scenario.learners:
        require_classes(learner, records.steward)
    doubts = []
    if scenario.data.path is not None:
        doubts += complaints_about(*encode_and_count_moved(records.dataset.frame, records.steward.schema))
    doubts += site_doubts(scenario, records)
    sites = split_records(scenario, records, 0)
    for learner in scenario.learners:
        asked, held = sites_of(learner, sites)
        told = doubts_about(
            learner.options,
            records=sum(sites[name].source.height for name in held),
            curators=len(asked),
            pooling=learner.pool,
        )
        doubts += [f"learner {learner.name!r}: {doubt}" for doubt in told]
    return doubts + _refusals(scenario, sites)


def _refusals(scenario: Scenario, sites: Mapping[str, SiteRecords]) -> list[str]:
    """Plans that cost more than the caps leave, as each learner finds them after those before it."""
    doubts = []
    spent = dict.fromkeys(sites, Fraction(0))
    for learner in scenario.learners:
        asked, _ = sites_of(learner, sites)
        own = dict.fromkeys(asked, Fraction(0))
        for what, told in (("plan", learner.epsilon), ("validation", learner.validate)):
            cost = Fraction(0) if told is None else parse_rational(told)
            left = {}
            for name in asked:
                curator = scenario.curator(name)
                caps = parse_rational(curator.cap) - spent[name], parse_rational(curator.cap_of(learner.name))
                left[name] = min(caps[0], caps[1] - own[name])
            short = [name for name in asked if cost > left[name]]
            if short:
                amounts = sorted({left[name] for name in short})
                least = "as little as " * (len(amounts) > 1) + (written(amounts[0]) if amounts[0] else "0")
                doubts.append(
                    f"learner {learner.name!r}: its {what} costs {written(cost)}, more than is left at "
                    f"{some_of(short)} ({least}), which will refuse it; raise cap and, where it is set, learner_cap "
                    "in [[curators]], or ask for less"
                )
            asked = [] if short and learner.all_or_none else [name for name in asked if name not in short]
            for name in asked:
                spent[name] += cost
                own[name] += cost
    return doubts
