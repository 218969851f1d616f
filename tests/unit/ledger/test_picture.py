"""What the objects of the cluster say, and that what did not change stays the same object."""

from cede.api import names
from cede.api.objects import Json
from ledger.picture import PictureReader, read_holding
from tests.builders.ledger import KIND, NOW, allocation, policy, workload

FINISHED: Json = {"type": names.FINISHED, "status": "True"}


def test_a_policy_says_what_an_accelerator_is_and_how_many_there_are() -> None:
    partitioned = policy(
        16,
        instanceTypes=_types(partitions={"nvidia.com/mig-1g.5gb": 7}),
    )
    picture = PictureReader().read(partitioned, [], [])
    assert picture.kinds == {KIND, ("p5", "nvidia.com/mig-1g.5gb")}
    assert picture.capacity == {KIND: 16}


def _types(**fields: object) -> tuple[object, ...]:
    return ({"name": "p5", "accelerators": 8, **fields},)


def test_an_allocation_says_what_a_team_owns_has_and_lends() -> None:
    allocations = [allocation("a", 8, 6), allocation("b", 0, strategy="DontLend")]
    teams = PictureReader().read(policy(), allocations, []).teams
    assert (teams["a"].owned, teams["a"].available, teams["a"].lends) == (
        {KIND: 8},
        {KIND: 6},
        True,
    )
    assert (teams["b"].owned, teams["b"].available, teams["b"].lends) == ({}, {}, False)


def test_a_workload_says_what_its_job_has() -> None:
    holding = read_holding(workload("gpt", pods=4))
    assert holding
    assert (holding.team, holding.job, holding.uid) == ("research", "gpt", "job-gpt")
    assert (holding.pods, holding.amounts, holding.since) == (4, {KIND: 4}, NOW / 1e6)
    assert holding.priority_class == "training"


def test_a_workload_that_waits_has_nothing_and_one_that_finished_is_none() -> None:
    waiting = read_holding(workload("gpt", waits=True))
    assert waiting
    assert (waiting.team, waiting.pods, waiting.amounts) == ("", 0, {})
    assert read_holding(workload("gpt", conditions=[FINISHED])) is None


def test_what_did_not_change_stays_the_same_object() -> None:
    """So that nobody counts it again."""
    reader = PictureReader()
    gpt, sweep = workload("gpt"), workload("sweep", team="vision")
    before = reader.read(policy(), [allocation("a")], [gpt, sweep])
    changed = workload("gpt", pods=2)
    after = reader.read(policy(), [allocation("a")], [sweep, changed])
    assert after.teams["a"] is before.teams["a"]
    assert after.holdings["vision"] is before.holdings["vision"]
    assert after.holdings["research"] is not before.holdings["research"]
    assert after.holdings["research"][0].pods == 2
    assert reader.read(policy(), [], []).holdings == {}
