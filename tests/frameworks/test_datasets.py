"""ElasticTrainer with a `datasets.Dataset`, in one process and in a job that is disturbed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")
pytest.importorskip("datasets", reason="run make test-integrations")

from datasets import Dataset, DatasetDict, IterableDataset

from elastic_runtime.data import samples_digest
from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny
from tests.frameworks.tiny import make, measured
from tests.harness.forked_job import ForkedJob
from tests.harness.local_job import check_exactly_once
from tests.harness.recipes import FORKS, SCRIPT, disturb, losses_of
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
TRAINING = TREE / "tests" / "frameworks" / "scripts" / "datasets_job.py"
MICRO_BATCHES = 4


# --- in one process -------------------------------------------------------------------------------
def numbered(count: int) -> Dataset:
    """With a column that no model takes."""
    tokens = tiny.Tokens(count)
    samples = [tokens[number] for number in range(count)]
    return Dataset.from_dict(
        {
            "input_ids": [sample["input_ids"].tolist() for sample in samples],
            "labels": [sample["labels"].tolist() for sample in samples],
            "text": [str(number) for number in range(count)],
        }
    )


@pytest.mark.parametrize("format_name", [None, "torch"])
def test_logs_are_those_of_trainer(format_name: str | None, tmp_path: Path) -> None:
    logs = []
    for trainer_class in (tiny.OrdinaryTrainer, ElasticTrainer):
        given = {
            "train_dataset": numbered(32).with_format(format_name),
            "eval_dataset": DatasetDict(a=numbered(5), b=numbered(3).with_format(format_name)),
        }
        trainer = make(
            tmp_path,
            trainer_class=trainer_class,
            named=given,
            max_steps=3,
            eval_strategy="steps",
            eval_steps=3,
        )
        trainer.train()
        logs.append(measured(trainer.state.log_history))
    for line, other in zip(*logs, strict=True):
        assert line == pytest.approx(other, rel=1e-5)


def test_a_dataset_that_is_read_in_sequence_is_refused(tmp_path: Path) -> None:
    stream = numbered(8).to_iterable_dataset()
    assert isinstance(stream, IterableDataset)
    with pytest.raises(ValueError, match=r"train_dataset is a IterableDataset.*streaming=True"):
        make(tmp_path, named={"train_dataset": stream})
    with pytest.raises(ValueError, match=r"eval_dataset is a IterableDataset.*streaming=True"):
        make(tmp_path, named={"eval_dataset": stream})


def test_all_parts_of_a_dataset_at_once_are_refused(tmp_path: Path) -> None:
    parts = DatasetDict(train=numbered(8), test=numbered(4))
    with pytest.raises(ValueError, match=r"DatasetDict of train, test: .*data\['train'\]"):
        make(tmp_path, named={"train_dataset": parts})


def test_a_split_without_a_seed_has_other_samples_each_time() -> None:
    data = numbered(40)
    seeded, again = (data.train_test_split(0.2, seed=1)["train"] for _ in range(2))
    assert samples_digest.compute(seeded) == samples_digest.compute(again) != 0
    # As a transform of the samples does not count, one that draws random numbers is no difference.
    drawing = again.with_transform(lambda rows: {"n": torch.rand(len(rows["text"]))})
    assert samples_digest.compute(drawing) == samples_digest.compute(seeded)
    other = data.train_test_split(0.2)["train"]
    assert samples_digest.compute(other) not in (0, samples_digest.compute(seeded))


# --- in a job -------------------------------------------------------------------------------------
def make_job(directory: Path) -> ForkedJob:
    directory.mkdir()
    with open(directory / "data.jsonl", "w") as file:
        for number in range(60):
            # Of different lengths.
            words = (str(7 * number * place % 60) for place in range(1, 5 + number % 6))
            print(json.dumps({"text": " ".join(words), "number": number}), file=file)
    return ForkedJob(FORKS, directory, SCRIPT, arguments=(str(TRAINING),))


def evaluated(job: ForkedJob) -> Any:
    return json.loads((job.directory / "evaluated.json").read_text())


@LONG
def test_a_job_that_is_disturbed_has_the_losses_of_one_that_is_not(tmp_path: Path) -> None:
    alone = make_job(tmp_path / "alone")
    alone.run_alone()
    job = make_job(tmp_path / "job")
    disturb(job)
    assert losses_of(job) == pytest.approx(losses_of(alone), rel=1e-6)
    check_exactly_once(job, lambda _: losses_of(job), MICRO_BATCHES)
    assert len(evaluated(job)) == 3
    assert evaluated(job) == pytest.approx(evaluated(alone), rel=1e-6)
