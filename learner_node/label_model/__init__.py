"""The label model of the `cells` strategy: noisy label counts of cells in, label probabilities out."""

from learner_node.label_model.gaussian_process import cell_count_rule, fit_label_model
from learner_node.label_model.mixture import LabelModel
from learner_node.label_model.observations import Observation

__all__ = ["LabelModel", "Observation", "cell_count_rule", "fit_label_model"]
