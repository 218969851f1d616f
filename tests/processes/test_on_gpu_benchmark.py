"""The benchmark of a step on a GPU, tried on the CPU: `python -m tests.bench.runtime.on_gpu`."""

import pytest

from tests.bench.runtime import on_gpu
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]


def test_every_side_is_measured_in_every_round() -> None:
    report = on_gpu.in_turns("cpu", on_gpu.SIZES["cpu"]["tiny"])
    rows = on_gpu.rows("tiny", report["seconds"])
    assert {len(row.ours) for row in rows} == {on_gpu.ROUNDS}
    assert {len(row.theirs) for row in rows} == {on_gpu.ROUNDS}
    assert all(value > 0 for row in rows for value in (*row.ours, *row.theirs))
