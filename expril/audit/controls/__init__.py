"""Positive controls: mechanisms that are broken on purpose, and correct ones to count false alarms with.

* `tables`: `CONTROLS` and `CLEAN`, by name
* `control`: what a control is, and the game against one
* `broken`, `thresholds`, `clock`, `pooled`, `fitted`: broken mechanisms
* `clean`: correct ones
* `laws`: their noise

Those that go through a curator's own path are in `expril.audit.kinds`.
"""

from expril.audit.controls.control import Control, result_of
from expril.audit.controls.tables import CLEAN, CONTROLS
from expril.audit.results import ControlResult
from protocol.errors import ConfigurationError

__all__ = ["CLEAN", "CONTROLS", "Control", "audit_control"]


def audit_control(name: str, *, draws: int = 100_000, error_rate: float, seed: int | None = None) -> ControlResult:
    """Play the distinguishing game against a control, as strictly as against a shipped kind.

    Args:
        name: a key of `CONTROLS`, or of `CLEAN`.
        draws: from either input.
        error_rate: chance that the lower bound is above the true epsilon, at most.
        seed: of the control's noise; None for one that nobody knows.

    Raises:
        ConfigurationError: there is no such control.
    """
    control = CONTROLS.get(name) or CLEAN.get(name)
    if control is None:
        raise ConfigurationError(f"there is no control {name}; there are {', '.join((*CONTROLS, *CLEAN))}")
    return result_of(name, control, draws=draws, error_rate=error_rate, seed=seed)
