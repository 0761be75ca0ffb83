"""What the model of a study adds up, for the report: only additive models do."""

from learner_node.learn import Learned
from learner_node.pooling import POOLED
from learner_node.strategies.additive import AdditiveModel
from simulations.report.clinical_model import Part, PartBin


def parts_of(learned: Learned | None) -> tuple[Part, ...]:
    """The shape functions of the pooled model; empty where there is none, or it is of another kind."""
    models = [] if learned is None else learned.models.get(POOLED, [])
    if not models or not isinstance(models[-1], AdditiveModel):
        return ()
    return tuple(
        Part(
            attribute=shape.attribute,
            numeric=shape.numeric,
            bins=tuple(
                PartBin(
                    label=one.label,
                    share=min(max(one.share, 0.0), 1.0),
                    log_odds=one.log_odds,
                    lower=one.lower,
                    upper=one.upper,
                )
                for one in shape.bins
            ),
        )
        for shape in models[-1].shape_functions
    )
