"""The label model of all strategies but the paper's: noisy label counts of cells in, label probabilities out."""

from learner_node.models.label_model.expectation_propagation import CellPosterior
from learner_node.models.label_model.gaussian_process import (
    MOST_CELLS,
    LabelModel,
    cell_count_rule,
    fit_label_model,
    fit_with_cell_posterior,
    most_cells,
)
from learner_node.models.label_model.observations import Observation

__all__ = [
    "MOST_CELLS",
    "CellPosterior",
    "LabelModel",
    "Observation",
    "cell_count_rule",
    "fit_label_model",
    "fit_with_cell_posterior",
    "most_cells",
]
