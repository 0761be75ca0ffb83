"""With whom a curator sums: its policy, what its steward is told, and pooled charges in words."""

import msgspec
import pytest

from command_line import run
from curator_fakes import NOW, ROWS, frame_of, key, ledger_over, policy, steward_file, toml
from curator_node.key_files import read_key
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.view import read
from curator_node.policy import read_policy
from curator_node.records.schema_file import SCHEMA
from curator_node.site import KEY, POLICY
from curator_node.steward.approval import summary, waiting_proposals
from curator_node.steward.check import check_site
from curator_node.steward.keyring import rotate
from curator_node.steward.new_site import init_site
from pooled import KIND, Pool, rules_of, site_of
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.secure_counts import SecureCountsLimits
from protocol.limits import Limits
from protocol.refusals import RefusalCode

ONE, OTHER, THIRD = (key(name).public.hex() for name in ("one", "other", "third"))


# policy.toml


def read_members(text):
    read = read_policy(f'name = "ward"\ncap = 1\n[limits.kinds.{KIND}]\n{text}', where="policy.toml")
    return QUERY_KINDS.limits(read.limits, KIND)


def test_a_policy_names_the_members_and_how_few_colluders_a_plan_may_assume():
    limits = read_members(f'members = ["{ONE}", "{OTHER}", "{THIRD}"]\nleast_colluders = 2\ncells = 50')
    assert (limits.members, limits.least_colluders, limits.cells) == ((ONE, OTHER, THIRD), 2, 50)
    assert read_members("") == SecureCountsLimits()
    assert SecureCountsLimits().least_colluders == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'members = ["{ONE}"]', "one curator alone is no secure sum; add the public keys of the others"),
        (f'members = ["{ONE}", "{OTHER}", "{ONE}"]', f"{ONE[:16]} stands there twice; write each curator's key once"),
        (f'members = ["{ONE}", "ward 2"]', r"members\[1\]: 'ward 2' is not 64 lower-case hexadecimal digits"),
        (f'members = ["{ONE}", "{OTHER.upper()}"]', "lower-case hexadecimal digits, as expril keys prints a key"),
        (f'members = ["{ONE}", "{"0" * 64}"]', r"members\[1\]: this is no public key that anybody could hold"),
        (f'members = ["{ONE}", "{OTHER}"]\nleast_colluders = 2', "least_colluders: at most 1 of 2 members"),
        (f'members = ["{ONE}", "{OTHER}"]\nleast_colluders = 0', "at least 1"),
        ('release_kinds = ["paper_ratio"]', "unknown release kind 'paper_ratio'"),
        (f'member = ["{ONE}"]', "unknown key 'member'; did you mean 'members'?"),
    ],
)
def test_a_wrong_list_is_an_error_that_says_what_to_do(text, says):
    with pytest.raises(ConfigurationError, match=f"policy.toml, limits.kinds.secure_counts: .*{says}"):
        read_members(text)


def test_a_curator_that_serves_adopts_another_list():
    pool = Pool(3, propose=False)
    two = tuple(key(name).public.hex() for name in pool.names[:2])
    pool.curators[0].adopt(rules_of(3, members=two))
    refusal = pool.propose(0)
    assert (refusal.code, refusal.field) == (RefusalCode.OVER_LIMIT, "plan.queries[0].participants")
    with pytest.raises(ConfigurationError, match="no secure sum"):
        pool.curators[0].adopt(rules_of(3, members=two[:1]))
    pool.curators[0].adopt(rules_of(3))
    assert pool.curators[0].policy == rules_of(3)


# expril curator check


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ward"
    init_site(path, "basel")
    (path / SCHEMA).write_text(toml(steward_file(round_size=5)))
    frame_of(ROWS).write_parquet(path / "records.parquet")
    return path


def findings_on_members(folder, *members, least=1):
    kinds = {"counts": {}, KIND: {"members": list(members), "least_colluders": least}}
    (folder / POLICY).write_text(toml(policy(limits=Limits(kinds=kinds))))
    report = check_site(folder)
    return [
        (finding.level, finding.text)
        for finding in report.findings
        if "secure sum" in finding.text or "members" in finding.text
    ]


def test_the_check_says_with_whom_a_curator_sums(folder):
    public = read_key(folder / KEY).public.hex()
    (fine,) = findings_on_members(folder, ONE, public, OTHER, least=2)
    assert fine[0] == "fine"
    assert f"secure sums with 2 other curators ({ONE[:16]}, {OTHER[:16]}), of whom a plan assumes at least 2" in fine[1]
    (lacking, _) = findings_on_members(folder, ONE, OTHER)
    assert lacking[0] == "look"
    assert f"lacks this curator's own key {public}, so no secure sum with it is accepted; add it" in lacking[1]
    (empty,) = findings_on_members(folder)
    assert empty[0] == "look"
    assert "is empty, so no secure sum is accepted" in empty[1]
    (folder / POLICY).write_text(toml(policy()))
    assert not [finding for finding in check_site(folder).findings if "secure" in finding.text]


def test_the_check_finds_a_former_key_beside_the_present_one(folder):
    """One curator would pass for two: a plan that assumes one colluder would assume half of it."""
    former = read_key(folder / KEY).public.hex()
    public = rotate(folder, now=NOW, overlap=86_400).hex()
    (look, _) = findings_on_members(folder, former, public, ONE)
    assert look[0] == "look"
    assert f"holds a former key of this curator beside its own ({former[:16]}): one would pass for two" in look[1]


# in words


def test_a_steward_who_approves_reads_on_what_the_cost_rests():
    rules = msgspec.structs.replace(rules_of(4), approval="manual", approval_seconds=1000)
    pool = Pool(4, 1, 1, rules=rules, propose=False)
    assert pool.propose(0).code == RefusalCode.AWAITING_APPROVAL
    ledger = ledger_over(pool.stores[0], pool.names[0])
    (proposal,) = waiting_proposals(ledger, rules, NOW)
    page = dict(summary(proposal, ledger, rules, steward_file(), QUERY_KINDS))
    assert page["provided"] == (
        "summed with 3 other sites under the noise of one. The cost holds while at most 1 of them tell the learner all "
        "they know, while no ledger is put back before the sum is done (another site's counts as one of those; this "
        "one's leaves its own records a share of the noise alone), and while the cryptography is not broken"
    )
    assert "provided" not in dict(summary(plain_proposal(rules), ledger, rules, steward_file(), QUERY_KINDS))


def plain_proposal(rules):
    from curator_fakes import Learner, open_curator
    from curator_node.ledger.store import MemoryStore

    store = MemoryStore()
    Learner(open_curator(store, rules=rules)).propose()
    (proposal,) = waiting_proposals(ledger_over(store), rules, NOW)
    return proposal


def test_the_ledger_is_shown_in_words(tmp_path):
    pool = Pool(4, 1, 1, propose=False)
    file = tmp_path / "site.ledger"
    create_ledger_file(file, key(pool.names[0]), now=NOW)
    ledger = open_ledger_file(file, key(pool.names[0]))
    pool.curators[0] = site_of(pool.names[0], None, pool.rules, ledger=ledger)
    pool.accepted = [pool.propose(index) for index in range(4)]
    pool.run()
    ledger.close()
    output = " ".join(run("ledger", "show", file).output.split())
    for words in ("a secure sum over 4 sites (n)", "2 shares (h)", "helped to open the sum over 4 of 4 sites"):
        assert words in output
    notes = [entry["note"] for entry in read(file).as_object()["entries"] if entry["kind"] == "charge"]
    assert notes[2] == '{"colluders": 1, "dropouts": 1, "shares": 2, "sites": 4}', "for machines as it is written"
