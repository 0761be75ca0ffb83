"""Who falls silent when: the sum over the survivors, or the failure that the issue's numbers say, in every case."""

import copy
import random
from itertools import chain, combinations

import numpy as np
import pytest

from protocol.secure_sum import masks, participant
from protocol.secure_sum.aggregator import STEPS, SumFailedError
from secure_rounds import Curators, hermit, lead, quick_exchange

GROUPS = [
    (sites, colluders, dropouts)
    for sites in range(2, 7)
    for dropouts in range(sites)
    for colluders in range(1, sites)
    if sites > 2 * dropouts + colluders
]


def fails_at(group, counts):
    """The first step, of those that have been, with too few left: from the rules' text alone.

    At most u may be gone when the survivor list is signed, and more than half of holders and colluders together give a
    secret back; holders are all who sent a key card.
    """
    sites, colluders, dropouts = group
    for step, left in zip(STEPS, counts, strict=False):
        enough = left > (counts[0] + colluders) / 2 if step == "opened" else sites - left <= dropouts
        if not enough:
            return step
    return None


def subsets(of):
    return chain.from_iterable(combinations(of, size) for size in range(len(of) + 1))


def outcome(take, answers):
    """(what it gives, None), or (None, the failure)."""
    try:
        return take(answers), None
    except SumFailedError as error:
        return None, error


class Every:
    """Walks all patterns; a step with the same past is taken once, since states are values.

    A pattern says for each participant the step with which it falls silent, or that it never does: 6^n patterns.
    """

    def __init__(self, group):
        self.group, self.covered, self.opened = group, 0, 0
        self.curators = Curators(*group)
        self.exact = {}

    def walk(self):
        everybody = range(self.group[0])
        cards = {index: self.curators.begin(index) for index in everybody}
        self.step(0, everybody, self.curators.aggregator(), cards, self.curators.states, ())
        return self

    def step(self, number, before, machine, answers, states, counts):
        """Give each subset of the answers to a copy of the machine, and go on with who gave them."""
        for stay in subsets(before):
            trial = copy.copy(machine)
            trial.out = {}
            told = (*counts, len(stay))
            failure = fails_at(self.group, told)
            take = (trial.take_cards, trial.take_shares, trial.take_masked, trial.take_agreements)[number]
            relayed, error = outcome(take, {index: answers[index] for index in stay})
            if error is not None:
                assert error.step == failure, (stay, told)
                self.covered += (5 - number) ** len(stay)
                continue
            assert failure is None, (stay, told)
            (self.deal, self.mask, self.agree, self.reveal)[number](stay, trial, relayed, dict(states), told)

    def use(self, states, method, stay, *args):
        self.curators.states = states
        return {index: getattr(self.curators, method)(index, *args) for index in stay}

    def deal(self, stay, machine, cards, states, counts):
        answers = self.use(states, "share", stay, cards)
        self.step(1, stay, machine, answers, self.curators.states, counts)

    def mask(self, stay, machine, dealt, states, counts):
        assert machine.out == {}
        self.curators.states = states
        answers = {index: self.curators.mask(index, *dealt[index]) for index in stay}
        self.step(2, stay, machine, answers, states, counts)

    def agree(self, stay, machine, survivors, states, counts):
        assert survivors == stay
        answers = self.use(states, "agree", stay, survivors)
        self.sums = {}
        self.survivors = survivors
        self.step(3, stay, machine, answers, states, counts)

    def reveal(self, stay, machine, agreements, states, counts):
        shares = self.use(states, "reveal", stay, self.survivors, agreements)
        for last in subsets(stay):
            if last not in self.sums:  # what signatures were relayed changes nothing of what is revealed
                self.sums[last] = self.open(machine, {index: shares[index] for index in last})
            assert self.sums[last] == (fails_at(self.group, (*counts, len(last))) is None), (last, counts)
            self.covered += 1
            self.opened += self.sums[last]

    def open(self, machine, shares):
        opened, error = outcome(machine.take_revealed, shares)
        if error is not None:
            assert error.step == "opened"
            return False
        assert opened.survivors == self.survivors
        assert opened.liars == {}
        np.testing.assert_array_equal(opened.values, self.curators.total(self.survivors))
        return True


@pytest.mark.family(8)
@pytest.mark.parametrize("group", GROUPS)
def test_every_pattern_of_dropouts_gives_the_sum_of_the_survivors_or_the_failure_of_the_rules(group):
    every = Every(group).walk()
    assert every.covered == 6 ** group[0]
    assert every.opened > 0


@pytest.mark.family(1)
@pytest.mark.parametrize(
    ("group", "seed"),
    [((100, 5, 10), 1), ((100, 33, 33), 2), ((150, 5, 15), 3), pytest.param((150, 15, 45), 4, marks=pytest.mark.slow)],
)
def test_random_dropouts_of_many_participants(group, seed, monkeypatch):
    """Complete graph at 100, sparse at 150: as many as tolerated fall silent, some at each step."""
    monkeypatch.setattr(masks, "exchange", quick_exchange)
    draw = random.Random(seed)
    sites, _, dropouts = group
    gone = draw.sample(range(sites), dropouts)
    stays, left = [], list(range(sites))
    for number in range(5):
        left = [index for index in left if index not in gone[number * dropouts // 5 : (number + 1) * dropouts // 5]]
        stays.append(left)
    curators = Curators(*group)
    machine, opened = lead(curators, stays)
    assert opened.survivors == tuple(stays[2])
    assert machine.out == {}
    np.testing.assert_array_equal(opened.values, curators.total(stays[2]))


@pytest.mark.parametrize(("step", "name"), [(1, "shares"), (2, "masked"), (3, "agreed")])
def test_in_a_sparse_round_nobody_is_left_out_of_reach(step, name, monkeypatch):
    """Two of the four neighbours of participant 0 fall silent, of five that a round of twelve tolerates."""
    monkeypatch.setattr(participant, "graph_of", hermit)
    curators = Curators(12, 1, 5)
    few = [index for index in range(12) if index not in (1, 2)]
    stays = [range(12)] * step + [few] * (5 - step)
    if name == "shares":  # in time: the sum goes on without it
        machine, opened = lead(curators, stays)
        assert (machine.out, machine.stranded) == ({}, {0: "too few of its neighbours dealt"})
        assert opened.survivors == tuple(few[1:])
        np.testing.assert_array_equal(opened.values, curators.total(few[1:]))
        return
    with pytest.raises(SumFailedError) as failed:
        lead(curators, stays)
    assert failed.value.step == name
    assert failed.value.out == {0: "too few of its neighbours are left to give its secrets back"}
    assert str(failed.value).endswith("3 holders of participant 0 are left, 4 are needed")


@pytest.mark.family(2)
@pytest.mark.parametrize("group", [(2, 1, 0), (3, 1, 0), (4, 1, 1), (10, 2, 3), (50, 3, 8)])
def test_with_true_signatures(group):
    curators = Curators(*group, true=True)
    _, opened = lead(curators)
    np.testing.assert_array_equal(opened.values, curators.total(range(group[0])))


def test_the_sum_opens_when_more_shares_have_come():
    curators = Curators(4, 1, 1)
    given = {}
    machine, first = lead(curators, spoil=lambda step, answers: given.update(answers) or answers)
    few = {index: given[index] for index in (0, 1)}
    with pytest.raises(SumFailedError, match="'opened': 2 shares of the secret of participant 0 came, 3 are needed"):
        machine.take_revealed(few)
    np.testing.assert_array_equal(machine.take_revealed(given).values, first.values)
