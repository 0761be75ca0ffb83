"""Replies over pipes: read as they come, complete when they are counted, absent where a process has ended."""

from multiprocessing import Pipe

import pytest

from simulations.carriers.cores import PipeCarrier


class FakeWorker:
    """A worker whose process is this test: `pipe` is the learner's end, `far` the curators'."""

    def __init__(self):
        self.pipe, self.far = Pipe()

    def tell(self, request):
        self.pipe.send(request)

    def take(self):
        try:
            return self.pipe.recv()
        except EOFError:
            raise ConnectionError from None


@pytest.fixture
def workers():
    pair = FakeWorker(), FakeWorker()
    yield pair
    for worker in pair:
        worker.pipe.close()
        worker.far.close()


def curators_of(workers):
    return PipeCarrier({b"a": (workers[0], 0), b"b": (workers[0], 1), b"c": (workers[1], 0)})


def test_a_process_gets_all_its_requests_at_once_and_replies_are_read_while_others_are_made(workers):
    replies = curators_of(workers).exchange({b"a": b"1", b"c": b"3", b"b": b"2", b"stranger": b"4"})
    assert [worker.far.recv() for worker in workers] == [[(0, b"1"), (1, b"2")], [(0, b"3")]]
    workers[1].far.send([(0, b"three")])
    arrivals = iter(replies)
    assert next(arrivals) == b"c"
    workers[0].far.send([(1, b"two")])
    assert next(arrivals) == b"b"
    workers[0].far.send([(0, None)])
    assert list(arrivals) == []
    assert dict(replies) == {b"c": b"three", b"b": b"two"}
    assert list(replies) == [b"c", b"b"]


def test_replies_that_nobody_has_read_do_not_reach_the_next_exchange(workers):
    carrier = curators_of(workers)
    first = carrier.exchange({b"a": b"1"})
    workers[0].far.send([(0, b"one")])
    second = carrier.exchange({b"a": b"2"})
    workers[0].far.send([(0, b"two")])
    assert (dict(first), dict(second)) == ({b"a": b"one"}, {b"a": b"two"})
    with pytest.raises(KeyError):
        second[b"b"]


@pytest.mark.parametrize("when", ["before the requests", "between two replies"])
def test_curators_of_a_process_that_has_ended_send_no_reply(workers, when):
    carrier = curators_of(workers)
    if when == "before the requests":
        workers[0].far.close()
    replies = carrier.exchange({b"a": b"1", b"b": b"2", b"c": b"3"})
    if when != "before the requests":
        workers[0].far.send([(1, b"two")])
        workers[0].far.close()
    workers[1].far.send([(0, b"three")])
    assert dict(replies) == {b"c": b"three"} | ({} if when == "before the requests" else {b"b": b"two"})
