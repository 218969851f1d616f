"""What a script chose, as the saver that follows from it."""

from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.checkpointing.checkpoint_directory import checkpoints
from elastic_runtime.checkpointing.save_format import step_of
from elastic_runtime.training.options import CheckpointOptions
from tests.builders.saves import trained_state


def report(**figures: Any) -> None: ...


def test_a_saver_has_the_shared_directory_and_interval(tmp_path: Path) -> None:
    saver = CheckpointOptions(tmp_path, 5, None, 0, 2, 0).make_saver(report)
    assert (saver.directory, saver.every) == (tmp_path, 5)


@pytest.mark.parametrize(("has_shared", "has_local"), [(True, True), (True, False), (False, True)])
def test_local_saves_are_made_only_beside_shared_ones(
    tmp_path: Path, has_shared: bool, has_local: bool
) -> None:
    shared = tmp_path / "shared" if has_shared else None
    local = tmp_path / "local" if has_local else None
    saver = CheckpointOptions(shared, 0, local, 1, 2, 0).make_saver(report)
    assert (saver._local is not None) is (has_shared and has_local)


def test_checkpoints_stay_as_the_script_chose(tmp_path: Path) -> None:
    saver = CheckpointOptions(tmp_path, 1, None, 0, keep=1, keep_every=3).make_saver(report)
    for step in range(1, 8):
        saver.save_and_wait(step, trained_state)
    assert [step_of(path.name) for path in checkpoints(tmp_path)] == [7, 6, 3]
