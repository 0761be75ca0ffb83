"""What a malicious learner can work out, against the theorem of docs/secure-sums-graph.md, by linear algebra.

Masks are unknowns. A combination of honest vectors is known where all unknown masks cancel in it. The learner shows
each participant what it likes within the rules; participants whose old cards it relays are not there at all.

Power: with n - u signatures lowered to more than (n + t) / 2, or no check of dealers, or none of signers among holders,
1,500 examples find a leak.
"""

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from at_length import at_length
from protocol.secure_sum.graph import Graph


class Seen:
    """What the learner showed whom in a round of n cards; the first `colluders` collude.

    Attributes:
        graph: of the round.
        absent: whose cards are old; their mask keys are known.
        lists: dealers that each honest participant masked for.
        dealers, survivors: that are opened.
    """

    def __init__(self, draw):
        self.dropouts = draw(st.integers(0, 2))
        self.colluders = draw(st.integers(1, 2))
        self.n = draw(st.integers(2 * self.dropouts + self.colluders + 1, 8))
        joined = ~np.eye(self.n, dtype=bool)
        missing = st.lists(st.sampled_from(list(itertools.combinations(range(self.n), 2))), max_size=self.n)
        for one, other in draw(st.just([]) | missing):
            joined[one, other] = joined[other, one] = False
        self.graph = Graph(self.n, int(joined[:, : self.colluders].sum(axis=1).max()), joined)
        honest = range(self.colluders, self.n)
        self.absent = draw(st.sets(st.sampled_from(honest), max_size=self.dropouts))
        self.honest = [node for node in honest if node not in self.absent]
        two = [self.some(draw) for _ in range(2)]
        self.lists = {node: draw(st.sampled_from(two)) for node in self.honest}
        self.dealers = two[0]
        self.survivors = frozenset(draw(st.sampled_from([self.dealers, self.dealers & self.some(draw)])))

    def some(self, draw):
        """All but as many as tolerated."""
        left_out = draw(st.sets(st.integers(0, self.n - 1), max_size=self.dropouts))
        return frozenset(range(self.n)) - left_out

    def signers(self):
        """Those that sign, colluders with them; None where the rules let nobody open this."""
        for node, dealers in self.lists.items():
            if node in dealers and self.graph.lacking([node], dealers):
                return None  # it would not have masked
        if len(self.survivors) < self.n - self.dropouts or self.graph.lacking(self.survivors, self.survivors):
            return None
        told = {node for node in self.honest if self.lists[node] == self.dealers}
        signers = self.survivors & (told | set(range(self.colluders)))
        if len(signers) < self.n - self.dropouts or self.graph.lacking(self.survivors, signers):
            return None
        return signers

    def unknown_masks(self):
        """(masks, honest participants): how often each unknown mask is added to whose vector."""
        masks = {}
        for place, node in enumerate(self.honest):
            dealers = self.lists[node]
            if node not in dealers:
                continue  # it masked nothing
            if node not in self.survivors:
                masks[node] = [(place, 1)]
            for other in self.graph.neighbours(node):
                known = other < self.colluders or other in self.absent
                opened = {node, other} & (self.dealers - self.survivors)
                if other in dealers and not known and not opened:
                    masks.setdefault((*sorted((node, other)), dealers), []).append((place, 1 if node < other else -1))
        rows = np.zeros((len(masks), len(self.honest)))
        for row, told in zip(rows, masks.values(), strict=True):
            for place, sign in told:
                row[place] += sign
        return rows

    def parts(self):
        """Participants that masked for the opened list and are on it, in the parts that edges connect."""
        left = {node for node in self.honest if self.lists[node] == self.dealers and node in self.survivors}
        while left:
            part, todo = set(), [min(left)]
            while todo:
                node = todo.pop()
                part.add(node)
                todo += [other for other in self.graph.neighbours(node) if other in left - part]
            left -= part
            yield part


def rank(rows):
    return int(np.linalg.matrix_rank(rows)) if rows.size else 0


@given(st.data())
@settings(max_examples=15)
def test_all_that_can_be_worked_out_is_sums_over_whole_parts(data):
    seen = Seen(data.draw)
    signers = seen.signers()
    assume(signers is not None)
    unknown = seen.unknown_masks()
    parts = list(seen.parts())
    weights = np.array([[node in part for node in seen.honest] for part in parts], dtype=float)
    # Whatever cancels all unknown masks is a combination of the parts' sums, and of vectors that were never made.
    unmade = np.array([[node == each for node in seen.honest] for each in seen.honest if each not in seen.lists[each]])
    allowed = np.vstack([weights, unmade.astype(float)]) if unmade.size else weights
    cancelling = len(seen.honest) - rank(unknown)
    _, _, basis = np.linalg.svd(unknown) if unknown.size else (None, None, np.eye(len(seen.honest)))
    nothing_left = basis[len(seen.honest) - cancelling :]
    assert rank(np.vstack([allowed, nothing_left])) == rank(allowed)
    # One part, with enough shares of the noise; or each part is as the second event of the proof says.
    if len(parts) == 1:
        assert len(parts[0]) >= seen.n - seen.colluders - seen.dropouts
    for part in parts if len(parts) > 1 else []:
        for node in part:
            own = len(part & set(seen.graph.holders(node)))
            assert own >= seen.graph.threshold(node) - seen.graph.local_colluders
    if seen.graph.joined.sum() == seen.n * (seen.n - 1):
        assert len(parts) == 1


test_all_that_can_be_worked_out_is_sums_over_whole_parts_at_length = at_length(
    test_all_that_can_be_worked_out_is_sums_over_whole_parts, 150
)
