"""Recipes of examples/recipes as jobs that tests disturb, with values of small models."""

import importlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.harness.forked_job import ForkedJob, forks_of
from tests.harness.local_job import check_exactly_once
from tests.paths import TREE

RECIPES = TREE / "examples" / "recipes"
FORKS = forks_of(
    "elastic_runtime.integrations.transformers.trainer",
    "peft",
    "datasets",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.gpt_oss.modeling_gpt_oss",
)
STEPS = 30
# With doubles, a difference after all steps is a lost sample, and not a sum in another order.
# Until there is a file `hurry`, each step takes longer than the one before: so the job does not end
# before it has been disturbed, however slow the machine is.
SCRIPT = """
import os, runpy, sys, time
import torch
torch.set_num_threads(1)
torch.set_default_dtype(getattr(torch, os.environ.get("DTYPE", "float64")))
from elastic_runtime.training.step import Step
backward = Step.backward

def slow_backward(step, *args, **named):
    if not os.path.exists("hurry"):
        time.sleep(min(3.0, float(os.environ.get("PACE_S", "0")) * 1.25**step.number))
    return backward(step, *args, **named)

Step.backward = slow_backward
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Of a micro-batch of the first step.
PACE_S = "0.03"
PRECISION = {"float64": 1e-6, "float32": 1e-4}


def write_toml(path: Path, table: dict[str, Any]) -> None:
    """JSON's values are TOML's too, but for tables."""
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines = [f"{k} = {json.dumps(v)}" for k, v in table.items() if k not in tables]
    for name, inner in tables.items():
        lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in inner.items())]
    path.write_text("\n".join(lines))


def recipe_job(directory: Path, recipe: str, name: str, changes: dict[str, Any]) -> ForkedJob:
    """Of a values file, with the values of a small model. None: without this value."""
    directory.mkdir()
    table = tomllib.loads((RECIPES / "values" / f"{name}.toml").read_text())
    table |= {"output": "out", "steps": STEPS, "journal": True, "save_every": 10, "warmup": 3}
    table |= changes | {"job": None}
    given = {key: value for key, value in table.items() if value is not None}
    write_toml(directory / "values.toml", given)
    (directory / "log").symlink_to("out/journal")
    arguments = (str(RECIPES / f"{recipe}.py"), "values.toml")
    job = ForkedJob(FORKS, directory, SCRIPT, arguments=arguments)
    # torch has no grouped product of doubles, by which it computes experts.
    job.env["DTYPE"] = "float32" if name.startswith("gpt-oss") else "float64"
    return job


def disturb(job: ForkedJob) -> None:
    """It begins with one worker, grows, loses a worker, shrinks, and trains to its end."""
    job.env["PACE_S"] = PACE_S
    try:
        job.start(0)
        job.trains(1, beyond=1)
        job.start(1)
        before = job.trains(2, beyond=1)
        job.kill_rank(0)
        job.resumes(before, 2)
        job.resize(1)
        job.until(lambda status: status.ceded(1))
        (job.directory / "hurry").touch()
        assert job.pods[0].wait(120) == 0, job.output()
    finally:
        job.kill()
    assert {line["size"] for line in job.lines("steps-*")} == {1, 2}


def losses_of(job: ForkedJob) -> list[float]:
    by_step = {line["step"]: line["loss"] for line in job.lines("steps-*")}
    return [by_step[step] for step in sorted(by_step)]


def check_recipe(
    directory: Path,
    recipe: str,
    name: str,
    changes: dict[str, Any],
    *,
    may_repeat: bool = False,
) -> ForkedJob:
    """Its losses are those of a job that nothing has disturbed, and every sample counts once.

    `may_repeat`: the model is sharded, so a lost worker costs the steps since the last checkpoint.
    """
    alone = recipe_job(directory / "alone", recipe, name, changes)
    alone.run_alone()
    job = recipe_job(directory / "job", recipe, name, changes)
    disturb(job)
    expected = losses_of(alone)
    assert expected[-1] != expected[0]
    assert losses_of(job) == pytest.approx(expected, rel=PRECISION[job.env["DTYPE"]])
    if not may_repeat:
        check_exactly_once(
            job, lambda _: losses_of(job), changes["batch"] // changes["micro_batch"]
        )
    return job


def module(name: str) -> Any:
    """A module beside the recipes, as these import it."""
    sys.path.insert(0, str(RECIPES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(RECIPES))
