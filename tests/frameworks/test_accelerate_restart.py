"""A loop with Accelerate, restarted in its pods at each new size."""

from pathlib import Path

import pytest

pytest.importorskip("accelerate", reason="run make test-integrations")

from tests.harness.restarted_job import check_framework

pytestmark = pytest.mark.processes


def test_resizes_repeat_no_step_and_a_kill_few_and_no_loss_changes(tmp_path: Path) -> None:
    check_framework(tmp_path, "accelerate_restart.py")
