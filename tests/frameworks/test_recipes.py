"""Every recipe in examples/recipes trains alike while its job grows, shrinks and loses a worker.

`make test-integrations` runs this, in an environment that has the frameworks.
"""

import json
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime import restore
from tests.harness.forked_job import ForkedJob
from tests.harness.recipes import (
    FORKS,
    RECIPES,
    SCRIPT,
    STEPS,
    check_recipe,
    losses_of,
    recipe_job,
)
from tests.marks import in_long

FRAMEWORKS = ("transformers", "peft")
RECIPE_OF = {
    "pretrain": "pretrain",
    "classify-images": "classify_images",
    "on-policy": "on_policy",
}
FAMILIES = {"llama": "llama", "qwen": "qwen3", "gpt-oss": "gpt_oss"}
VALUES = sorted(path.stem for path in (RECIPES / "values").iterdir())
pytestmark = pytest.mark.processes
needs_frameworks = pytest.mark.skipif(
    not all(find_spec(package) for package in FRAMEWORKS), reason="run make test-integrations"
)
needs_images = pytest.mark.skipif(not find_spec("PIL"), reason="pip install pillow")


# --- fine_tune ------------------------------------------------------------------------------------
def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def questions(count: int) -> Iterator[dict[str, Any]]:
    """In all forms of a sample."""
    for number in range(count):
        question, answer = f"{number} + 1 = ", str(number + 1)
        asked = {"role": "user", "content": question}
        forms: list[dict[str, Any]] = [
            {"text": question + answer},
            {"prompt": question, "completion": answer},
            {"messages": [asked, {"role": "assistant", "content": answer}]},
        ]
        yield forms[number % 3]


def fine_tuning(directory: Path, family: str) -> dict[str, Any]:
    return {
        "model": f"random:{family}",
        "data": write_lines(directory / "train.jsonl", list(questions(50))),
        "evaluation": write_lines(directory / "evaluation.jsonl", list(questions(5))),
        "evaluate_every": 10,
        "max_tokens": 24,
        "batch": 8,
        "micro_batch": 2,
        "learning_rate": 1e-2,
        "bf16": False,
    }


@needs_frameworks
@pytest.mark.parametrize(
    "name",
    [
        "llama-full",
        "gpt-oss-lora",
        *in_long("llama-lora", "qwen-full", "qwen-lora", "gpt-oss-full"),
    ],
)
def test_a_model_is_fine_tuned(tmp_path: Path, name: str) -> None:
    family, _, kind = name.rpartition("-")
    is_full = kind == "full"
    changes = fine_tuning(tmp_path, FAMILIES[family])
    job = check_recipe(tmp_path, "fine_tune", name, changes, may_repeat=is_full)
    written = {path.name for path in (job.directory / "out" / "model").iterdir()}
    weights = "model.safetensors" if is_full else "adapter_model.safetensors"
    assert {weights, "tokenizer.json"} <= written


@needs_frameworks
def test_models_train_in_bfloat16_and_are_loaded_from_directories(tmp_path: Path) -> None:
    few = {"steps": 2, "bf16": True}
    llama = fine_tuning(tmp_path, "llama") | few
    full = recipe_job(tmp_path / "full", "fine_tune", "llama-full", llama)
    gpt_oss = fine_tuning(tmp_path, "gpt_oss") | few
    experts = recipe_job(tmp_path / "experts", "fine_tune", "gpt-oss-lora", gpt_oss)
    answers = answering(tmp_path) | few | {"model": str(full.directory / "out" / "model")}
    policy = recipe_job(tmp_path / "policy", "on_policy", "on-policy", answers)
    documents = pretraining(tmp_path) | few
    pretrained = recipe_job(tmp_path / "pretrained", "pretrain", "pretrain", documents)
    for job in (full, experts, policy, pretrained):
        job.env["DTYPE"] = "float32"
        job.run_alone()
        assert len(losses_of(job)) == 2


@needs_frameworks
def test_weights_in_four_bits_are_unpacked(tmp_path: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(RECIPES)!r})
from language_models import unpacked
from transformers import GptOssConfig
for name, packing in (("packed", {{"quant_method": "mxfp4"}}), ("plain", None)):
    settings = {{"quantization_config": packing}} if packing else {{}}
    GptOssConfig(**settings).save_pretrained(name)
assert unpacked("plain") == {{}}
print(unpacked("packed")["quantization_config"].dequantize)
"""
    assert "True" in ForkedJob(FORKS, tmp_path, script).run_alone()


# --- every file of values -------------------------------------------------------------------------
@needs_frameworks
@pytest.mark.parametrize("name", VALUES)
def test_a_recipe_reads_its_values(tmp_path: Path, name: str) -> None:
    """Without its data it says so in one line, and nothing else is wrong."""
    recipe = RECIPE_OF.get(name, "fine_tune")
    arguments = (str(RECIPES / f"{recipe}.py"), str(RECIPES / "values" / f"{name}.toml"))
    job = ForkedJob(FORKS, tmp_path, SCRIPT, arguments=arguments)
    [line] = job.run_alone(exit_code=1).splitlines()
    assert f"{name}.toml: data is '/shared/" in line
    assert "unknown" not in line
    assert "missing" not in line


# --- the others -----------------------------------------------------------------------------------
def pretraining(directory: Path) -> dict[str, Any]:
    data = directory / "data"
    data.mkdir()
    for number in range(2):
        rows = [{"text": f"{number} times {i} is {number * i}. " * 3} for i in range(40)]
        write_lines(data / f"{number}.jsonl", rows)
    return {
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


def test_a_model_is_pretrained(tmp_path: Path) -> None:
    check_recipe(tmp_path, "pretrain", "pretrain", pretraining(tmp_path), may_repeat=True)


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


@needs_images
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


def answering(directory: Path) -> dict[str, Any]:
    rows = [{"prompt": f"{number} + 1 = ", "answer": number + 1} for number in range(8, 30)]
    return {
        "model": "random:llama",
        "data": write_lines(directory / "prompts.jsonl", rows),
        "batch": 8,
        "micro_batch": 2,
        "group": 8,
        "max_new_tokens": 4,
        "learning_rate": 1e-2,
        "bf16": False,
    }


@needs_frameworks
def test_a_model_learns_from_rewards_for_its_own_answers(tmp_path: Path) -> None:
    changes = answering(tmp_path) | {"lora": None}
    job = check_recipe(tmp_path, "on_policy", "on-policy", changes)
    lines = (tmp_path / "alone" / "alone.txt").read_text().splitlines()
    rewards = [float(line.rpartition(" ")[2]) for line in lines if "mean reward" in line]
    assert len(rewards) == STEPS
    assert sum(rewards[-5:]) > 1.5 * sum(rewards[:5])
    assert (job.directory / "out" / "model" / "model.safetensors").exists()
