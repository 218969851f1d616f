"""ElasticTrainer does what Trainer does, in a job of one."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")
pytest.importorskip("peft", reason="run make test-integrations")

from transformers import (
    Seq2SeqTrainer,
)
from transformers import Seq2SeqTrainingArguments as Seq2SeqArguments

from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny
from tests.frameworks.tiny import make, measured

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
STEPS: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 2}


def accuracy(prediction: Any) -> dict[str, float]:
    guessed = prediction.predictions[:, :-1]
    expected = prediction.label_ids[:, 1:]
    counts = expected != tiny.IGNORED
    return {"accuracy": float((guessed == expected)[counts].mean())}


def best_guess(logits: Any, labels: Any) -> torch.Tensor:
    return logits.argmax(-1)


def mean_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> torch.Tensor:
    logits = outputs["logits"][:, :-1].flatten(0, 1)
    targets = labels[:, 1:].flatten()
    total = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    return total / num_items_in_batch


# --- as Trainer -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({}, {}, id="tokens of the whole batch"),
        # Adam, the default, makes a whole step of the rounding of a gradient near zero.
        pytest.param({"bf16": True, "optim": "sgd", "learning_rate": 1.0}, {}, id="bfloat16"),
        pytest.param({"max_grad_norm": 0.0, "logging_steps": 3}, {}, id="not clipped"),
        pytest.param(
            {"eval_strategy": "epoch", "logging_strategy": "epoch", "save_strategy": "epoch"},
            {},
            id="by epochs",
        ),
        pytest.param({"max_steps": 5, "eval_strategy": "epoch"}, {}, id="ends within an epoch"),
        pytest.param({"label_smoothing_factor": 0.1}, {}, id="label smoothing"),
        pytest.param({}, {"compute_loss_func": mean_loss}, id="a loss function"),
        pytest.param({"dataloader_num_workers": 1, "max_steps": 2}, {}, id="loader workers"),
        pytest.param({"gradient_checkpointing": True, "max_steps": 2}, {}, id="checkpointing"),
        pytest.param(
            STEPS,
            {"compute_metrics": accuracy, "preprocess_logits_for_metrics": best_guess},
            id="metrics",
        ),
        pytest.param(
            STEPS | {"eval_on_start": True},
            {"eval_dataset": {"a": tiny.Tokens(3), "b": tiny.Tokens(5)}},
            id="evaluation of several datasets",
        ),
    ],
)
def test_logs_callbacks_and_parameters_are_those_of_trainer(
    tmp_path: Path, changes: dict[str, Any], named: dict[str, Any]
) -> None:
    trained = {}
    recorders = {}
    for trainer_class in (tiny.OrdinaryTrainer, ElasticTrainer):
        recorder = recorders[trainer_class] = tiny.Recorder()
        trainer = trained[trainer_class] = make(
            tmp_path / trainer_class.__name__,
            trainer_class=trainer_class,
            named=named | {"callbacks": [recorder]},
            **changes,
        )
        trainer.train()
    elastic, ordinary = recorders[ElasticTrainer], recorders[tiny.OrdinaryTrainer]
    # bfloat16 rounds gradients that are divided by the number of tokens, there sooner than here.
    precision = 1e-2 if "bf16" in changes else 1e-5
    assert len(elastic.logs) == len(ordinary.logs)
    for line, other in zip(measured(elastic.logs), measured(ordinary.logs), strict=True):
        assert line == pytest.approx(other, rel=precision)
    assert elastic.events == ordinary.events
    own = dict(trained[ElasticTrainer].model.named_parameters())
    for name, parameter in trained[tiny.OrdinaryTrainer].model.named_parameters():
        torch.testing.assert_close(own[name], parameter, rtol=precision, atol=precision)


class Classifier(torch.nn.Module):
    """A plain module, whose loss is a mean over samples and knows no number of items."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer = torch.nn.Embedding(tiny.VOCABULARY, 1)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = self.layer(input_ids).mean((1, 2))
        wanted = (labels.clamp(min=0).sum(1) % 2).float()
        return {"loss": (outputs - wanted).square().mean(), "logits": outputs}


def test_a_model_without_a_number_of_items_gets_the_mean_over_micro_batches(
    tmp_path: Path,
) -> None:
    logs = []
    for trainer_class in (tiny.OrdinaryTrainer, ElasticTrainer):
        trainer = make(tmp_path, trainer_class=trainer_class, trained=Classifier(), **STEPS)
        trainer.train()
        logs.append(measured(trainer.state.log_history))
    for line, other in zip(*logs, strict=True):
        assert line == pytest.approx(other, rel=1e-5)


def test_processes_multiply_the_micro_batches_of_a_step(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"gradient_accumulation_steps": 2, "max_steps": 3}
    several = make(tmp_path / "a", named={"processes": 2}, **changes)
    several.train()
    alone = make(tmp_path / "b", **changes | {"gradient_accumulation_steps": 4})
    alone.train()
    assert several.session.micro_batches == 4
    assert measured(several.state.log_history) == measured(alone.state.log_history)


def test_it_can_be_combined_with_another_class_of_trainer(tmp_path: Path) -> None:
    class ElasticSeq2Seq(ElasticTrainer, Seq2SeqTrainer):
        pass

    args = Seq2SeqArguments(**tiny.settings(tmp_path, max_steps=2))
    trainer = ElasticSeq2Seq(tiny.model(), args, train_dataset=tiny.Tokens())
    trainer.train()
    assert trainer.state.global_step == 2


def test_an_evaluation_before_training_is_trainers_own(tmp_path: Path) -> None:
    trainer = make(tmp_path, max_steps=1)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert 0 < after["eval_loss"] != before["eval_loss"]
    assert trainer.predict(tiny.Tokens(3)).predictions.shape[0] == 3


def test_a_compiled_model_trains(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", max_steps=2)
    plain.train()
    compiled = make(
        tmp_path / "compiled", max_steps=2, torch_compile=True, torch_compile_backend="eager"
    )
    compiled.train()
    for line, other in zip(plain.state.log_history, compiled.state.log_history, strict=True):
        assert measured([line])[0] == pytest.approx(measured([other])[0], rel=1e-5)
