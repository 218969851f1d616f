"""The Trainer as it is, restarted in its pods at each new size."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from elastic_runtime import contract, restart
from tests.frameworks import tiny
from tests.harness.local_job import FOREVER, Job
from tests.harness.restarted_job import steps_in, trains_on
from tests.paths import TREE
from tests.unit.docs.pages import blocks_of

pytestmark = pytest.mark.processes
SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "transformers_restart.py").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    job.command = ["--restart", "--", "train.py", str(FOREVER), "0.1"]
    job.env |= {"PYTHONWARNINGS": "ignore"}
    yield job
    job.kill()


def test_a_planned_resize_repeats_no_step_and_changes_no_loss(job: Job) -> None:
    job.env[contract.SIZES_ENV] = "1,8"
    job.start(0, 1)
    trains_on(job, world=2, beyond=3, timeout_s=180)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.parked == (1,))
    trains_on(job, world=1, beyond=3, timeout_s=180)
    job.stop()
    lines = steps_in(job.directory)
    last = lines[-1]["step"]
    assert [line["step"] for line in lines] == [*range(1, last + 1)]
    alone = job.directory / "alone"
    alone.mkdir()
    command = [sys.executable, "../train.py", str(last), "0"]
    subprocess.run(command, cwd=alone, env=job.env, check=True)
    expected = [line["loss"] for line in steps_in(alone)]
    assert [line["loss"] for line in lines] == pytest.approx(expected, rel=1e-3)


# Of a machine without a GPU.
@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(restart, "_signals", None)
    before = signal.getsignal(signal.SIGTERM)
    loop, trainer = blocks_of("docs/torchrun.md", "python")
    saved, shares = list[int](), list[int]()
    names: dict[str, Any] = {"step": 0, "steps": 250, "train_one_step": shares.append}
    try:
        exec(loop.text, names | {"save": saved.append})  # noqa: S102
        assert saved == [100, 200]
        assert {*shares} == {16}
        given = {"model": tiny.model(), "dataset": tiny.Tokens(64), "os": os}
        given |= {"Trainer": Trainer, "TrainingArguments": TrainingArguments}
        exec(trainer.text, given | {"get_last_checkpoint": get_last_checkpoint})  # noqa: S102
        assert get_last_checkpoint("out")
    finally:
        signal.signal(signal.SIGTERM, before)
