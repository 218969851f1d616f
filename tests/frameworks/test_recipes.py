"""Every recipe in examples/recipes trains alike while its job grows, shrinks and loses a worker.

`make test-integrations` runs this, in an environment that has the frameworks.
"""

import json
import random
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime import restore
from tests.harness.forked_job import ForkedJob, forks_of
from tests.harness.local_job import check_exactly_once
from tests.paths import TREE

RECIPES = TREE / "examples" / "recipes"
FRAMEWORKS = ("transformers", "peft")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not all(find_spec(package) for package in FRAMEWORKS), reason="run make test-integrations"
    ),
]
FORKS = forks_of(
    "elastic_runtime.integrations.transformers.trainer",
    "peft",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.gpt_oss.modeling_gpt_oss",
)
STEPS = 30
# With doubles, a difference after all steps is a lost sample, and not a sum in another order.
# A micro-batch takes at least so long, so that there is time to resize.
SCRIPT = """
import os, runpy, sys, time
import torch
torch.set_num_threads(1)
torch.set_default_dtype(getattr(torch, os.environ.get("DTYPE", "float64")))
from elastic_runtime.training.step import Step
backward = Step.backward

def slow_backward(*args, **named):
    time.sleep(float(os.environ.get("PACE_S", "0")))
    return backward(*args, **named)

Step.backward = slow_backward
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
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


# --- fine_tune ------------------------------------------------------------------------------------
def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def questions(count: int) -> Iterator[dict[str, Any]]:
    """In all forms of a sample."""
    for number in range(count):
        question, answer = f"{number} + 1 = ", str(number + 1)
        asked = {"role": "user", "content": question}
        yield [
            {"text": question + answer},
            {"prompt": question, "completion": answer},
            {"messages": [asked, {"role": "assistant", "content": answer}]},
        ][number % 3]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("llama-full", "llama"),
        ("llama-lora", "llama"),
        ("qwen-full", "qwen3"),
        ("qwen-lora", "qwen3"),
        ("gpt-oss-full", "gpt_oss"),
        ("gpt-oss-lora", "gpt_oss"),
    ],
)
def test_a_model_is_fine_tuned(tmp_path: Path, name: str, family: str) -> None:
    changes = {
        "model": f"random:{family}",
        "data": write_lines(tmp_path / "train.jsonl", list(questions(50))),
        "evaluation": write_lines(tmp_path / "evaluation.jsonl", list(questions(5))),
        "evaluate_every": 10,
        "max_tokens": 24,
        "batch": 8,
        "micro_batch": 2,
        "learning_rate": 1e-2,
        "bf16": False,
    }
    is_full = name.endswith("full")
    job = check_recipe(tmp_path, "fine_tune", name, changes, may_repeat=is_full)
    written = {path.name for path in (job.directory / "out" / "model").iterdir()}
    weights = "model.safetensors" if is_full else "adapter_model.safetensors"
    assert {weights, "tokenizer.json"} <= written


# --- the others -----------------------------------------------------------------------------------
def test_a_model_is_pretrained(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(2):
        rows = [{"text": f"{number} times {i} is {number * i}. " * 3} for i in range(40)]
        write_lines(data / f"{number}.jsonl", rows)
    changes = {
        "data": str(data),
        "tokenizer": "bytes",
        "end": "",
        "context": 32,
        "batch": 8,
        "micro_batch": 2,
        "learning_rate": 1e-2,
        "bf16": False,
        "model": {"width": 32, "depth": 2, "heads": 4, "kv_heads": 2, "hidden": 64},
    }
    check_recipe(tmp_path, "pretrain", "pretrain", changes, may_repeat=True)


def write_images(directory: Path, counts: dict[str, int]) -> str:
    """Of two classes, bright and dark, with noise."""
    from PIL import Image

    # Not a secret.
    numbers = random.Random(0)  # noqa: S311
    for folder, count in counts.items():
        for name, brightness in (("bright", 150), ("dark", 100)):
            (directory / folder / name).mkdir(parents=True)
            for number in range(count):
                pixels = bytes(brightness + numbers.randrange(-99, 99) for _ in range(8 * 8 * 3))
                image = Image.frombytes("RGB", (8, 8), pixels)
                image.save(directory / folder / name / f"{number}.png")
    return str(directory)


def test_an_image_classifier_stops_when_it_gets_no_better(tmp_path: Path) -> None:
    changes = {
        "data": write_images(tmp_path / "images", {"train": 20, "validation": 5}),
        "model": "small",
        "pixels": 8,
        "batch": 16,
        "micro_batch": 4,
        "learning_rate": 1e-2,
        "steps": 1000,
        "evaluate_every": 5,
        "patience": 3,
        "loader_workers": 0,
    }
    job = check_recipe(tmp_path, "classify_images", "classify-images", changes)
    best = restore.best(job.directory / "out" / "session")
    assert best
    assert len(losses_of(job)) == best.step + 5 * 3 + 1 < 1000


def test_a_model_learns_from_rewards_for_its_own_answers(tmp_path: Path) -> None:
    rows = [{"prompt": f"{number} + 1 = ", "answer": number + 1} for number in range(8, 30)]
    changes = {
        "model": "random:llama",
        "data": write_lines(tmp_path / "prompts.jsonl", rows),
        "batch": 8,
        "micro_batch": 2,
        "group": 8,
        "max_new_tokens": 4,
        "learning_rate": 1e-2,
        "bf16": False,
        "lora": None,
    }
    job = check_recipe(tmp_path, "on_policy", "on-policy", changes)
    lines = (tmp_path / "alone" / "alone.txt").read_text().splitlines()
    rewards = [float(line.rpartition(" ")[2]) for line in lines if "mean reward" in line]
    assert len(rewards) == STEPS
    assert sum(rewards[-5:]) > 1.5 * sum(rewards[:5])
    assert (job.directory / "out" / "model" / "model.safetensors").exists()
