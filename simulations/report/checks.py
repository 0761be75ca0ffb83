"""What the numbers of a report must be."""

from collections.abc import Iterable

LEAST_SCORE = -1e6
"""R^2 has no lower bound; a page has."""


def check_shares(**shares: float | None) -> None:
    """Refuse what is no share; NaN is none."""
    for name, share in shares.items():
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {share!r}")


def check_scores(**scores: float | None) -> None:
    """Refuse what is no score."""
    for name, score in scores.items():
        if score is not None and not LEAST_SCORE <= score <= 1:
            raise ValueError(f"{name} must lie between {LEAST_SCORE:g} and 1, not {score!r}")


def check_errors(**errors: float | None) -> None:
    """Refuse what is no standard error."""
    for name, error in errors.items():
        if error is not None and not 0 <= error <= -LEAST_SCORE:
            raise ValueError(f"{name} must lie between 0 and {-LEAST_SCORE:g}, not {error!r}")


def check_distinct(what: str, names: Iterable[str]) -> None:
    """Refuse a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} named twice: {name!r}")
        seen.add(name)
