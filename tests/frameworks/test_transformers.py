"""ElasticTrainer does what Trainer does, in a job of one."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")
pytest.importorskip("peft", reason="run make test-integrations")

from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
MEASURED = ("loss", "grad_norm", "learning_rate", "epoch", "eval_loss", "train_loss", "step")


def measured(logs: list[dict[str, float]]) -> list[dict[str, float]]:
    """Without times."""
    return [{key: line[key] for key in MEASURED if key in line} for line in logs]


def run(trainer_class: Any, directory: Path, recorder: tiny.Recorder, **changes: Any) -> Any:
    trainer = trainer_class(
        tiny.model(),
        tiny.arguments(directory, **changes),
        train_dataset=tiny.Tokens(),
        eval_dataset=tiny.Tokens(11, seed=1),
        callbacks=[recorder],
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="tokens of the whole batch"),
        pytest.param({"bf16": True}, id="bfloat16"),
        pytest.param({"max_grad_norm": 0.0, "logging_steps": 3}, id="not clipped"),
        pytest.param({"eval_strategy": "steps", "eval_steps": 2}, id="evaluation by steps"),
        pytest.param(
            {"eval_strategy": "epoch", "logging_strategy": "epoch", "save_strategy": "epoch"},
            id="by epochs",
        ),
        pytest.param({"max_steps": 5, "eval_strategy": "epoch"}, id="ends within an epoch"),
        pytest.param({"label_smoothing_factor": 0.1}, id="label smoothing"),
    ],
)
def test_logs_and_callbacks_are_those_of_trainer(tmp_path: Path, changes: dict[str, Any]) -> None:
    ordinary = tiny.Recorder()
    elastic = tiny.Recorder()
    expected = run(tiny.OrdinaryTrainer, tmp_path / "ordinary", ordinary, **changes)
    trained = run(ElasticTrainer, tmp_path / "elastic", elastic, **changes)
    assert len(elastic.logs) == len(ordinary.logs)
    # bfloat16 rounds gradients that are divided by the number of tokens, there sooner than here.
    precision = 1e-2 if "bf16" in changes else 1e-5
    for line, other in zip(measured(elastic.logs), measured(ordinary.logs), strict=True):
        assert line == pytest.approx(other, rel=precision)
    assert elastic.events == ordinary.events
    own = dict(trained.model.named_parameters())
    for name, parameter in expected.model.named_parameters():
        torch.testing.assert_close(own[name], parameter, rtol=precision, atol=precision)
