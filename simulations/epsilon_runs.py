"""Where the runs of a folder of several epsilons lie."""

from pathlib import Path

import msgspec

from protocol.errors import ConfigurationError

EPSILONS = "epsilons.json"
"""In such a folder: which."""


def epsilon_folder(epsilon: str) -> str:
    """Name of the folder of the run at an epsilon, in a folder of several."""
    return f"epsilon-{epsilon.replace('/', '-')}"


def epsilon_runs(folder: Path) -> dict[str, Path]:
    """Epsilon -> folder of its run, where a folder is one of several epsilons; else nothing.

    Raises:
        ConfigurationError: its list cannot be read.
    """
    try:
        told = msgspec.json.decode((folder / EPSILONS).read_bytes())
        epsilons = [str(epsilon) for epsilon in told["epsilons"]]
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        raise ConfigurationError(f"{folder / EPSILONS} cannot be read") from None
    return {epsilon: folder / epsilon_folder(epsilon) for epsilon in epsilons}
