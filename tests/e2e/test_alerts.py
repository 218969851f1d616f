"""Prometheus' own engine evaluates every alert: each fires when it should, and not before."""

from pathlib import Path

import pytest

from deploy.local.paths import Paths
from tests.harness.prometheus import compile_program, rules_tested_by
from tests.marks import LONG

pytestmark = [
    # only for what it needs to compile
    pytest.mark.cluster,
    LONG,
]


def test_every_alert_fires_as_its_table_says(tmp_path: Path) -> None:
    programs = Paths.of_user().bin
    programs.mkdir(parents=True, exist_ok=True)
    result = rules_tested_by(compile_program("promtool", programs), tmp_path)
    assert result.returncode == 0, result.stderr
