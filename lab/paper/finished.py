"""What one run of the reproduction leaves in a store."""

import msgspec


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one run on one data set gave.

    Attributes:
        dataset: key of the data set.
        run: its number, from 0.
        values: name -> number; an infinite one is the text "inf".
        seconds: of computing, its share of the runs that were computed together.
    """

    dataset: str
    run: int
    values: dict[str, float | str]
    seconds: float

    @property
    def key(self) -> tuple[str, int]:
        """Data set and run."""
        return self.dataset, self.run

    def value(self, name: str) -> float:
        """A number by name."""
        return float(self.values[name])
