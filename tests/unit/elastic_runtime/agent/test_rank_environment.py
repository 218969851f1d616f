"""A rank gets what torchrun would give it."""

import importlib.util
import re
from pathlib import Path

import pytest

from elastic_runtime.agent.rank_environment import (
    accumulation_environment,
    is_loss,
    rank_environment,
    with_defaults,
    without,
)
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


def test_no_variable_is_missing_that_torchrun_sets() -> None:
    """By the source of the torch that is installed."""
    torch = importlib.util.find_spec("torch")
    assert torch
    assert torch.origin
    agent = Path(torch.origin).parent / "distributed/elastic/agent/server/local_elastic_agent.py"
    [names] = re.findall(r"worker_env = \{(.*?)\n            \}", agent.read_text(), re.DOTALL)
    expected = set(re.findall(r'^\s*"([A-Z_]+)":', names, re.MULTILINE))
    assert {"RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID"} <= expected
    env = rank_environment(RECORD, position=0, local_rank=0, ranks=2, job="gpt", starts=0)
    assert expected <= with_defaults(env, 2).keys()


def test_the_users_own_values_replace_torchruns_defaults() -> None:
    assert with_defaults({}, 1) == {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert with_defaults({}, 8)["OMP_NUM_THREADS"] == "1"
    own = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "OMP_NUM_THREADS": "4"}
    assert with_defaults(own, 8) == own


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


def test_a_job_that_names_its_micro_batches_is_told_the_share_of_each_rank() -> None:
    assert accumulation_environment({}, 4) == {}
    assert accumulation_environment({"CEDE_MICRO_BATCHES": "16"}, 4) == {
        "CEDE_ACCUMULATION_STEPS": "4"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [("many", "is 'many': write a number"), ("0", "cannot be shared"), ("6", "6 micro-batches")],
)
def test_micro_batches_that_cannot_be_shared_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accumulation_environment({"CEDE_MICRO_BATCHES": text}, 4)
