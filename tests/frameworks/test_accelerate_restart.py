"""A loop with Accelerate, restarted in its pods at each new size."""

from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="run make test-integrations")

from tests.harness.restarted_job import AT_TWO_SIZES, check_framework
from tests.marks import LONG

pytestmark = pytest.mark.processes


@LONG
@AT_TWO_SIZES
def test_resizes_repeat_no_step_and_a_kill_few_and_no_loss_changes(
    tmp_path: Path, large: int, small: int
) -> None:
    check_framework(tmp_path, "accelerate_restart.py", large, small)
