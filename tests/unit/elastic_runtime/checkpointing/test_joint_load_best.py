"""All ranks load the same best checkpoint, or all get the same error."""

from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing import best_mark, joint_load
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.destination import WholeTensors
from tests.builders.damage import flip_a_bit
from tests.builders.saves import save, small_state, steps_in
from tests.harness.thread_ranks import run_ranks


def save_marked(directory: Path, *, best: int, newest: int = 1) -> None:
    for step in range(1, newest + 1):
        save(directory, step, small_state(step))
    best_mark.write(directory, best_mark.BestMark(best, 1.0))


def errors_of_two(directories: list[Path]) -> list[str]:
    """Of two ranks, each with its own directory."""

    def load(group: Group) -> str:
        with pytest.raises((LookupError, ValueError)) as error:
            joint_load.load_best(directories[group.rank], WholeTensors(), group)
        return str(error.value)

    return run_ranks(2, load)


def test_all_ranks_load_the_one_that_the_leading_rank_sees(tmp_path: Path) -> None:
    """Also while a file server shows one of them another mark."""
    directories = [tmp_path / str(rank) for rank in range(2)]
    for rank, directory in enumerate(directories):
        save_marked(directory, best=rank + 1, newest=2)

    def load(group: Group) -> Any:
        return joint_load.load_best(directories[group.rank], WholeTensors(), group)

    assert [state["step"] for state in run_ranks(2, load)] == [1, 1]


def test_one_that_a_rank_does_not_see_is_the_same_error_on_all(tmp_path: Path) -> None:
    save_marked(tmp_path / "0", best=1)
    first, second = errors_of_two([tmp_path / "0", tmp_path / "1"])
    assert first == second
    assert "cannot read a file that worker 0 can read: [Errno 2] No such file" in first
    # It is not set aside.
    assert steps_in(tmp_path / "0") == [1]


def test_a_damaged_one_is_the_same_error_on_all(tmp_path: Path) -> None:
    save_marked(tmp_path, best=1)
    flip_a_bit(next(tmp_path.glob("step-*")))
    first, second = errors_of_two([tmp_path, tmp_path])
    assert first == second
    assert "is not what was written" in first


def test_without_a_mark_no_rank_loads_one(tmp_path: Path) -> None:
    save(tmp_path, 1, small_state(1))
    loaded = run_ranks(2, lambda group: joint_load.load_best(tmp_path, WholeTensors(), group))
    assert loaded == [None, None]
