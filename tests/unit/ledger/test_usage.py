"""Who uses, borrows and lends at one moment; test_accounting.py has every figure over time."""

from ledger.picture import Picture, PictureReader
from ledger.usage import UseReader
from tests.builders.ledger import KIND, allocation, policy, workload

ALLOCATIONS = [allocation("research", 8), allocation("vision", 8)]


def picture(reader: PictureReader, pods: int) -> Picture:
    jobs = [workload("gpt", pods=pods), SWEEP]
    return reader.read(policy(20), ALLOCATIONS, jobs)


SWEEP = workload("sweep", team="vision", pods=2)


def test_what_is_borrowed_is_lent_by_whom_it_is_taken_from() -> None:
    use = UseReader().read(picture(PictureReader(), 14))
    assert use.teams["research"].borrowed == {KIND: 6}
    assert (use.pools[KIND].unallocated_lent, use.lent["vision"]) == (4, {KIND: 2})


def test_a_team_of_which_nothing_has_changed_is_not_counted_again() -> None:
    pictures, uses = PictureReader(), UseReader()
    before = uses.read(picture(pictures, 4))
    after = uses.read(picture(pictures, 6))
    assert after.teams["vision"] is before.teams["vision"]
    assert after.teams["research"].used == {KIND: 6}


def test_another_policy_may_count_other_resources() -> None:
    pictures, uses = PictureReader(), UseReader()
    uses.read(picture(pictures, 4))
    types = ({"name": "other", "accelerators": 8},)
    other = pictures.read(policy(20, instanceTypes=types), ALLOCATIONS, [SWEEP])
    assert uses.read(other).teams["vision"].used == {}
