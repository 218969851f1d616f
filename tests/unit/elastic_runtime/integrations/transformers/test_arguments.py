"""What ElasticTrainer makes of TrainingArguments; tests/frameworks has the real ones."""

from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from elastic_runtime.integrations.epochs import Epochs
from elastic_runtime.integrations.transformers.arguments import (
    ACCELERATOR_DEFAULTS,
    REFUSED,
    REPLACED_METHODS,
    Plan,
    argument_mistakes,
    trainer_mistakes,
    version_mistakes,
)


class Name(Enum):
    PLATEAU = "reduce_lr_on_plateau"
    LOMO = "lomo"
    LENGTH = "group_by_length"


def arguments(**changes: Any) -> SimpleNamespace:
    settings = {name: accepted[0] for name, (accepted, _) in REFUSED.items()}
    others = {
        "accelerator_config": SimpleNamespace(**ACCELERATOR_DEFAULTS),
        "lr_scheduler_type": "linear",
        "optim": "adamw_torch",
        "load_best_model_at_end": False,
        "fp16": False,
        "device": SimpleNamespace(type="cpu"),
    }
    return SimpleNamespace(**settings | others | changes)


def test_arguments_that_ask_for_nothing_are_accepted() -> None:
    assert not list(argument_mistakes(arguments()))
    assert not list(argument_mistakes(arguments(fsdp=[], deepspeed=None)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"fsdp": ["full_shard"]}, "give ElasticTrainer strategy=", id="fsdp"),
        pytest.param({"deepspeed": "ds.json"}, "give ElasticTrainer strategy=", id="deepspeed"),
        pytest.param({"ddp_timeout": 5}, "ddp_timeout=5: set CEDE_STEP", id="timeout"),
        pytest.param(
            {"train_sampling_strategy": Name.LENGTH},
            "train_sampling_strategy='group_by_length': leave it out",
            id="sampling",
        ),
        pytest.param(
            {"accelerator_config": SimpleNamespace(split_batches=True)},
            "split_batches=True in accelerator_config",
            id="accelerator",
        ),
        pytest.param(
            {"lr_scheduler_type": Name.PLATEAU}, "needs a metric", id="schedule by a metric"
        ),
        pytest.param({"optim": Name.LOMO}, "before the gradients of all workers", id="lomo"),
        pytest.param({"optim": "galore_adamw_layerwise"}, "use another", id="layerwise"),
        pytest.param({"fp16": True}, "this worker has no GPU, and Acc", id="float16 on a CPU"),
    ],
)
def test_another_value_is_refused_with_the_cure(changes: dict[str, Any], expected: str) -> None:
    [mistake] = argument_mistakes(arguments(**changes))
    assert expected in mistake


def test_float16_is_accepted_on_a_gpu() -> None:
    assert not list(argument_mistakes(arguments(fp16=True, device=SimpleNamespace(type="cuda"))))


def test_the_best_of_a_sharded_model_cannot_be_loaded() -> None:
    wants_best = arguments(load_best_model_at_end=True)
    assert not list(argument_mistakes(wants_best))
    [mistake] = argument_mistakes(wants_best, is_sharded=True)
    assert "restore.best" in mistake


class Base:
    pass


for method in REPLACED_METHODS:
    setattr(Base, method, lambda self: None)


def test_a_version_without_a_name_that_is_needed_is_refused_with_the_tested_one() -> None:
    [mistake] = version_mistakes(Base, "9.1")
    assert "transformers 9.1 has no loss_is_scaled_for_ga, " in mistake
    assert "use transformers 5.23.0" in mistake


class IterableDataset:
    def __len__(self) -> int:
        return 1


class Derived(Base):
    def training_step(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("processes", "cls", "dataset", "expected"),
    [
        pytest.param(8, Base, [1], [], id="as it should be"),
        pytest.param(1, Base, None, [], id="no dataset"),
        pytest.param(0, Base, [1], ["processes is 0"], id="no process"),
        pytest.param(True, Base, [1], ["processes is True"], id="a flag"),
        pytest.param(1.5, Base, [1], ["processes is 1.5"], id="no whole number"),
        pytest.param(1, Base, iter([1]), ["only be read in sequence"], id="stream"),
        pytest.param(
            1, Base, {"train": [1], "test": [1]}, ["give one of them, as data['train']"], id="dict"
        ),
        pytest.param(
            1, Base, IterableDataset(), ["is a IterableDataset"], id="stream with a length"
        ),
        pytest.param(1, Derived, [1], ["overrides training_step"], id="a method of the loop"),
    ],
)
def test_mistakes_in_what_the_trainer_is_given_are_named(
    processes: Any, cls: type, dataset: Any, expected: list[str]
) -> None:
    mistakes = list(trainer_mistakes(processes, cls, Base, dataset, None))
    assert len(mistakes) == len(expected)
    assert all(text in mistake for text, mistake in zip(expected, mistakes, strict=True))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        pytest.param([1], [], id="one"),
        pytest.param({"a": [1], "b": [1]}, [], id="several"),
        pytest.param(IterableDataset(), ["eval_dataset is a IterableDataset"], id="stream"),
        pytest.param({"a": [1], "b": iter([1])}, ["eval_dataset['b'] is a list_it"], id="of many"),
    ],
)
def test_data_to_evaluate_has_an_index(dataset: Any, expected: list[str]) -> None:
    mistakes = list(trainer_mistakes(1, Base, Base, [1], dataset))
    assert len(mistakes) == len(expected)
    assert all(text in mistake for text, mistake in zip(expected, mistakes, strict=True))


def plan(samples: int = 32, epochs: float = 2, max_steps: int = -1) -> Plan:
    return Plan(Epochs(samples, 8), epochs, max_steps)


@pytest.mark.parametrize(
    ("chosen", "steps", "whole_epochs"),
    [
        pytest.param(plan(), 8, 2, id="whole epochs"),
        pytest.param(plan(samples=30), 8, 2, id="samples left over"),
        pytest.param(plan(epochs=1.5), 6, 2, id="half an epoch"),
        pytest.param(plan(max_steps=5), 5, 2, id="steps"),
        pytest.param(plan(samples=3, epochs=2), 1, 2, id="an epoch within a step"),
    ],
)
def test_a_plan_has_the_steps_in_which_all_epochs_are_used(
    chosen: Plan, steps: int, whole_epochs: int
) -> None:
    assert chosen.steps == steps
    assert chosen.whole_epochs == whole_epochs
