"""ExPriL's learner without its checks of signatures, headers, receipts and amounts: the suite must miss each."""

from expril_under_test import learner
from learner_node.study import session
from protocol.codec import decode
from protocol.envelopes import Envelope
from protocol.messages import Receipt
from protocol.spending import Spending


def believed(data, curator, *, label):
    """Any receipt, whoever signed it."""
    return decode(decode(data, Envelope).payload, Receipt)


def sum_of(self, receipt, charged, total, growth):
    """What ought to be the learner's total, whatever the receipt says."""
    return self._by_learner + growth


class Careless(session.Session):
    """A session that believes what it is told."""

    def _check_header(self, message, request):
        pass


if __name__ == "__main__":
    session.verify = lambda *_, **__: None
    session.open_receipt = believed
    Spending._check = sum_of
    learner.Session = Careless
    learner.serve(learner.answer)
