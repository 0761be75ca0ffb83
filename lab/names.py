"""Lists of names from a command line."""

import re
from collections.abc import Collection

from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest


def typable(name: str) -> str:
    """A name as a command line takes it: "readmission, c = 2" is "readmission-c-2"."""
    return re.sub(r"[^\w.:/+-]+", "-", name).strip("-")


def parse_names(text: str, known: Collection[str], what: str) -> tuple[str, ...]:
    """Comma-separated names in any case, each once, or all of them for "all".

    Each of the known names may be typed as `typable` has it; `what` one is called in errors: "data set".

    Raises ConfigurationError: an unknown name, or none.
    """
    if text.strip().lower() == "all":
        return tuple(known)
    typed = list(map(typable, known))
    by_lower = {key.lower(): name for name in known for key in (name, typable(name))}
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        if part.lower() not in by_lower:
            raise ConfigurationError(f"unknown {what} {part!r}{suggest(part, typed)}; there are {', '.join(typed)}")
        found.append(by_lower[part.lower()])
    if not found:
        raise ConfigurationError(f"name at least one {what}: {', '.join(typed)}, or all")
    return tuple(dict.fromkeys(found))
