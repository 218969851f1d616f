"""A rank gets what torchrun would give it."""

from elastic_runtime.agent.rank_environment import is_loss, rank_environment, without
from elastic_runtime.messages import Record

RECORD = Record(4, (0, 2, 3), ("a", "b", "c"), store="10.0.0.7:4242")


def test_ranks_are_numbered_through_the_members_and_their_processes() -> None:
    env = rank_environment(RECORD, position=1, local_rank=1, ranks=2, job="gpt", starts=5)
    assert env["RANK"] == env["ROLE_RANK"] == "3"
    assert env["WORLD_SIZE"] == env["ROLE_WORLD_SIZE"] == "6"
    assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == ("1", "2")
    assert (env["GROUP_RANK"], env["GROUP_WORLD_SIZE"]) == ("1", "3")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.7", "4242")
    assert env["TORCHELASTIC_RESTART_COUNT"] == "5"


def test_the_address_may_be_ipv6() -> None:
    record = Record(1, (0,), ("a",), store="fd00::7:4242")
    env = rank_environment(record, position=0, local_rank=0, ranks=1, job="gpt", starts=0)
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("fd00::7", "4242")


def test_a_member_that_is_missing_or_was_restarted_is_a_loss() -> None:
    assert not is_loss(RECORD, Record(5, (0, 1, 2, 3), ("a", "d", "b", "c")))
    assert is_loss(RECORD, Record(5, (0, 2), ("a", "b")))
    assert is_loss(RECORD, Record(5, (0, 2, 3), ("a", "b", "d")))
    assert not is_loss(Record(), RECORD)


def test_only_values_that_are_the_defaults_are_removed() -> None:
    assert without({"A": "1", "B": "2", "C": "3"}, {"A": "1", "B": "7"}) == {"B": "2", "C": "3"}
