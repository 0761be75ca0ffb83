"""The steward's files that may change while a daemon serves: noticed by name, time, size and place, read as a whole."""

from pathlib import Path

from curator_node.policy import Policy
from curator_node.site import POLICY, policy_of


class PolicyFiles:
    """Of one site's folder.

    Args:
        folder: the site's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._stamp()

    def changed(self) -> bool:
        """Whether a file has changed, come or gone since the last look; a file that is being changed counts, too."""
        seen, self._seen = self._seen, self._stamp()
        return seen != self._seen

    def read(self) -> Policy:
        """The policy as it stands there now.

        Raises:
            ConfigurationError: a file is absent or wrong.
        """
        self._seen = self._stamp()
        return policy_of(self._folder)

    def _stamp(self) -> tuple[tuple[str, int, int, int], ...]:
        found = []
        for path in sorted([self._folder / POLICY, *(self._folder / "learners").glob("*.toml")]):
            try:
                told = path.stat()
            except OSError:
                continue
            found.append((path.name, told.st_mtime_ns, told.st_size, told.st_ino))
        return tuple(found)
