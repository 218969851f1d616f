"""What a script chose, as the saver that follows from it."""

from pathlib import Path
from typing import Any

import pytest

from elastic_runtime.training.options import CheckpointOptions


def report(**figures: Any) -> None: ...


def test_a_saver_has_the_shared_directory_and_interval(tmp_path: Path) -> None:
    saver = CheckpointOptions(tmp_path, 5, None, 0).make_saver(report)
    assert (saver.directory, saver.every) == (tmp_path, 5)


@pytest.mark.parametrize(("has_shared", "has_local"), [(True, True), (True, False), (False, True)])
def test_local_saves_are_made_only_beside_shared_ones(
    tmp_path: Path, has_shared: bool, has_local: bool
) -> None:
    shared = tmp_path / "shared" if has_shared else None
    local = tmp_path / "local" if has_local else None
    saver = CheckpointOptions(shared, 0, local, 1).make_saver(report)
    assert (saver._local is not None) is (has_shared and has_local)
