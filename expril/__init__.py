"""The command `expril`, a file a role: steward, auditor, learner, researcher; and `expril.load` for Python."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from learner_node.model_files import StudyModel

__all__ = ["load"]


def load(path: "str | Path", learner: str | None = None, repeat: int = 0) -> "StudyModel":
    """The model in a file, or in the folder of a run: `expril.load("runs/wdbc-20261121-191915").predict_proba(table)`.

    Args:
        path: a model file, or a folder with a folder `models` of them.
        learner: of a folder: whose; None where it holds those of one learner only.
        repeat: of a folder: of which repeat.

    Raises:
        ConfigurationError: no such model, or a file that is none or damaged; says which there are.
    """
    from learner_node.model_files import find_model, load_model

    where = Path(path)
    return load_model(find_model(where, learner, repeat) if where.is_dir() else where)
