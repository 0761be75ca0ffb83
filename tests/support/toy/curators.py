"""A curator that answers counts and toys."""

from curator_fakes import NOW, ZeroNoise, dataset, key, ledger_over, policy
from curator_node.kinds import ANSWERERS
from curator_node.site import assemble_site
from protocol.limits import Limits
from toy.answerer import TOY_ANSWERER

TABLE = {**ANSWERERS, "toy": TOY_ANSWERER}
ROWS = tuple((f"p{n}", 20.0 + n, 0.0, "f", "no") for n in range(60))
"""Ages 20 to 79: 50 of them are above 29.5."""
RULES = policy(cap=10, limits=Limits(kinds={"counts": {}, "toy": {}}))


def toy_curator(store=None, *, name="basel", noise=None, rules=RULES, answerers=TABLE, ledger=None):
    """Calling it again with the same store is a restart."""
    return assemble_site(
        dataset(ROWS),
        rules,
        key=key(name),
        ledger=ledger or ledger_over(store, name),
        clock=lambda: NOW,
        noise=noise or ZeroNoise(),
        answerers=answerers,
    ).curator
