"""What every method of the query kind `model` says of itself. A method is a tagged struct of its public settings."""

from typing import NamedTuple, Protocol

from protocol.kinds.models.bodies import Body
from protocol.schema import Schema


class Work(NamedTuple):
    """Work in the unit of `protocol.limits`.

    Attributes:
        per_record: of each record.
        once: whatever the number of records, noise not among it.
    """

    per_record: int
    once: int


class Method(Protocol):
    """A way to fit a model. All that its privacy depends on is planned; none of it hangs on a record."""

    @property
    def parts(self) -> int:
        """Parts of a release, each of which one unit moves by at most an equal share of the sensitivity."""

    def complaint(self) -> str:
        """What would have been accepted where the settings do not fit together; "" where they do."""

    def label_complaint(self, schema: Schema) -> str:
        """Which label it needs, where the schema's is another; "" where it fits."""

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Most that one privacy unit moves all exact numbers of one model, in L1; at least 1.

        This is the one place from which cost, scale and answer take it.
        """

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """The same where the unit stays, and nothing but its records' labels changes; 0 where no label is read."""

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """The same where the unit stays, and its records become any others."""

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) for a body that does not fit; reads no record."""

    def length(self, body: Body, schema: Schema) -> int:
        """Numbers that one model releases; `body` need not be checked but for its type."""

    def work(self, body: Body, schema: Schema) -> Work:
        """All its work, of a checked body."""
