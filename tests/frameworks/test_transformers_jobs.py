"""ElasticTrainer in jobs that grow, shrink, lose workers, and are interrupted."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")

from transformers import LlamaForCausalLM

from elastic_runtime import contract
from tests.harness.local_job import FOREVER, Job, check_exactly_once, undisturbed_losses
from tests.paths import TREE

pytestmark = pytest.mark.processes
SCRIPT = (TREE / "tests" / "frameworks" / "scripts" / "transformers_job.py").read_text()
MICRO_BATCHES = 4
FIRST_STEPS = 7
# Several workers round sums in another order than one does, unless the strategy is Deterministic.
ROUNDING = 1e-5
# A micro-batch takes at least so long, so that a job does not train far while workers start.
PACE_S = "0.1"


def make_job(directory: Path, script: str = SCRIPT) -> Job:
    job = Job(directory, script, arguments=(str(FOREVER), PACE_S))
    # Warnings about a machine without a GPU are not of interest.
    job.env |= {"PYTHONWARNINGS": "ignore"}
    return job


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = make_job(tmp_path)
    yield job
    job.kill()


def logged(directory: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """By step and kind of line, without times; the lines of one step and kind are alike."""
    lines: dict[tuple[int, str], dict[str, Any]] = {}
    for path in directory.glob("logs-*.jsonl"):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            kind = next(key for key in ("loss", "eval_loss", "train_loss") if key in line)
            timeless = {k: v for k, v in line.items() if "_per_second" not in k}
            timeless = {k: v for k, v in timeless.items() if "runtime" not in k}
            assert lines.setdefault((line["step"], kind), timeless) == pytest.approx(timeless)
    return lines


def test_a_job_that_is_disturbed_trains_and_logs_as_one_that_is_not(
    job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.start(2)
    before = job.trains(3)
    # Another process becomes the first.
    job.kill_rank(0)
    job.resumes(before, 3)
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST] * 3, job.output()
    # It resumes by itself, and ends.
    last = 5 + max(line["step"] for line in job.lines("steps-*"))
    job.arguments = (str(last), "0")
    job.start(0)
    assert job.pods[0].wait(120) == 0, job.output()
    alone = tmp_path_factory.mktemp("alone")
    undisturbed = partial(undisturbed_losses, alone, SCRIPT, [], least=last)
    assert check_exactly_once(job, undisturbed, MICRO_BATCHES) == last
    expected = logged(alone)
    lines = logged(job.directory)
    assert {kind for _, kind in lines} == {"loss", "eval_loss", "train_loss"}
    for key, line in lines.items():
        assert line == pytest.approx(expected[key], rel=1e-5), key
    # Almost all: the first worker may be lost before it has logged.
    assert len(lines) > len(expected) - 4
    model = LlamaForCausalLM.from_pretrained(job.directory / "final")
    assert model.config.num_hidden_layers == 2
    names = {path.name for path in (job.directory / "out").iterdir()}
    saved = sorted({*range(5, last, 5), last})
    assert names == {"session", *(f"checkpoint-{step}" for step in saved[-2:])}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Job]:
    """A job that begins when it has two workers."""
    job = make_job(tmp_path)
    job.env[contract.SIZES_ENV] = "2,8"
    yield job
    job.kill()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first steps were done in one process."""
    directory = tmp_path_factory.mktemp("alone")
    job = Job(directory, SCRIPT)
    command = [sys.executable, "train.py", str(FIRST_STEPS), "0"]
    subprocess.run(command, cwd=directory, env=job.env | {"STRATEGY": "replicated"}, check=True)
    return directory


def losses_in(directory: Path) -> list[float]:
    """By step; every worker has a line for it."""
    losses = {line["step"]: line["loss"] for line in Job(directory, SCRIPT).lines("steps-*")}
    return [losses[step] for step in sorted(losses)]


def test_early_stopping_ends_the_job_on_all_workers(pair: Job, alone: Path) -> None:
    pair.arguments = (str(FOREVER), "0")
    pair.env |= {"STRATEGY": "replicated", "STOPS_EARLY": "yes"}
    pair.start(0, 1)
    assert [pod.wait(120) for pod in pair.pods.values()] == [0, 0], pair.output()
    losses = losses_in(pair.directory)
    assert losses[:FIRST_STEPS] == pytest.approx(losses_in(alone), rel=ROUNDING)
    evaluations = {
        step: line["eval_loss"]
        for (step, kind), line in logged(pair.directory).items()
        if kind == "eval_loss"
    }
    best = min(evaluations, key=lambda step: evaluations[step])
    assert len(losses) == best + 10 + 1
    final = LlamaForCausalLM.from_pretrained(pair.directory / "final")
    kept = LlamaForCausalLM.from_pretrained(pair.directory / "out" / f"checkpoint-{best}")
    for parameter, other in zip(final.parameters(), kept.parameters(), strict=True):
        torch.testing.assert_close(parameter, other)


def test_a_sharded_model_trains_alike_and_is_written_whole(pair: Job, alone: Path) -> None:
    pair.arguments = (str(FIRST_STEPS), "0")
    pair.env["STRATEGY"] = "sharded"
    pair.start(0, 1)
    assert [pod.wait(120) for pod in pair.pods.values()] == [0, 0], pair.output()
    assert losses_in(pair.directory) == pytest.approx(losses_in(alone), rel=ROUNDING)
    sharded = LlamaForCausalLM.from_pretrained(pair.directory / "final")
    replicated = LlamaForCausalLM.from_pretrained(alone / "final")
    for parameter, other in zip(sharded.parameters(), replicated.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-5)
