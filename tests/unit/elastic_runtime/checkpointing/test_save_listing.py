"""The list of checkpoints."""

import json
from pathlib import Path

from elastic_runtime.checkpointing import best_mark, save_listing
from elastic_runtime.checkpointing.best_mark import BestMark
from elastic_runtime.checkpointing.save_format import MANIFEST
from tests.builders.saves import save, small_state


def test_checkpoints_are_listed_with_the_best(tmp_path: Path) -> None:
    for step in (3, 4):
        save(tmp_path, step, small_state(step))
    best_mark.write(tmp_path, BestMark(3, 0.25))
    listed = save_listing.saves(tmp_path)
    assert [(entry.step, entry.best_value) for entry in listed] == [(4, None), (3, 0.25)]
    _, newest, best = save_listing.table(listed, tmp_path).splitlines()
    assert "step-000000004" in newest
    assert "best" not in newest
    assert best.endswith("step-000000003  best: 0.25")
    assert json.loads(save_listing.as_json(listed))[1]["bestValue"] == 0.25
    assert listed[0].size_bytes


def test_a_checkpoint_without_a_manifest_is_listed(tmp_path: Path) -> None:
    (save(tmp_path, 3, small_state(3)).path / MANIFEST).write_bytes(b"[]")
    [listed] = save_listing.saves(tmp_path)
    assert listed.size_bytes is None
    assert " ? " in save_listing.table([listed], tmp_path)


def test_there_may_be_none(tmp_path: Path) -> None:
    assert save_listing.table(save_listing.saves(tmp_path), tmp_path) == (
        f"there is no checkpoint in {tmp_path}"
    )
