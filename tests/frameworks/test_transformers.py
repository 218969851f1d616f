"""ElasticTrainer does what Trainer does, in a job of one."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")
pytest.importorskip("peft", reason="run make test-integrations")

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    EarlyStoppingCallback,
    LlamaForCausalLM,
    Seq2SeqTrainer,
    TrainerCallback,
)
from transformers import Seq2SeqTrainingArguments as Seq2SeqArguments

from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
MEASURED = ("loss", "grad_norm", "learning_rate", "epoch", "train_loss", "step")
STEPS: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 2}


def measured(logs: list[dict[str, float]]) -> list[dict[str, float]]:
    """Without times."""
    return [dict(filter(is_measured, line.items())) for line in logs]


def is_measured(item: tuple[str, float]) -> bool:
    key, _ = item
    is_time = "runtime" in key or "per_second" in key
    return key in MEASURED or (key.startswith("eval_") and not is_time)


def make(
    directory: Path,
    *,
    trainer_class: Any = ElasticTrainer,
    model: Any = None,
    named: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    """`named`: further arguments of the trainer. `changes`: of TrainingArguments."""
    given = {
        "train_dataset": tiny.Tokens(),
        "eval_dataset": tiny.Tokens(11, seed=1),
    }
    return trainer_class(
        model or tiny.model(), tiny.arguments(directory, **changes), **given | (named or {})
    )


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
        pytest.param({"bf16": True}, {}, id="bfloat16"),
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
        trainer = make(tmp_path, trainer_class=trainer_class, model=Classifier(), **STEPS)
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


# --- the end --------------------------------------------------------------------------------------
def test_early_stopping_ends_the_job_and_loads_the_best_state(tmp_path: Path) -> None:
    """The loss of the evaluation grows from some step on, for its labels are other ones."""
    trainer = make(
        tmp_path,
        named={"callbacks": [EarlyStoppingCallback(2)]},
        num_train_epochs=20,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        lr_scheduler_type="constant",
        **STEPS,
    )
    trainer.train()
    losses = {
        line["step"]: line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line
    }
    best = min(losses, key=lambda step: losses[step])
    # The step in which the stop is known to all is the last one.
    assert trainer.state.global_step == best + 4 + 1 < 80
    assert trainer.state.best_global_step == best
    assert trainer.evaluate()["eval_loss"] == pytest.approx(losses[best], rel=1e-6)
    kept = LlamaForCausalLM.from_pretrained(trainer.state.best_model_checkpoint)
    for own, other in zip(trainer.model.parameters(), kept.parameters(), strict=True):
        torch.testing.assert_close(own, other)


def test_a_job_that_is_started_again_continues_with_its_logs(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "lr_scheduler_type": "constant",
        "logging_steps": 2,
        "save_strategy": "steps",
    }
    whole = make(tmp_path / "whole", max_steps=7, **changes)
    whole.train()
    for steps in (3, 7):
        trainer = make(tmp_path / "parts", max_steps=steps, **changes)
        trainer.train(resume_from_checkpoint=True)
    expected = measured(whole.state.log_history)
    parts = measured(trainer.state.log_history)
    # The first run ended with a line of its own.
    assert [line for line in parts if line["step"] != 3] == expected
    assert math.isclose(parts[-1]["train_loss"], expected[-1]["train_loss"], rel_tol=1e-6)


def test_what_follows_a_step_is_in_the_state_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """A worker that joins while others evaluate does all of it again."""
    steps = []

    class Watcher(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            steps.append((saved_step(), state.global_step))

    def saved_step() -> int:
        return int(json.loads(trainer._progress.state_dict()["trainer"])["state"]["global_step"])

    trainer = make(tmp_path, named={"callbacks": [Watcher()]}, max_steps=3)
    trainer.train()
    assert steps == [(0, 1), (1, 2), (2, 3)]
    assert saved_step() == 3


def test_only_adapters_train_and_are_saved(tmp_path: Path) -> None:
    base = tiny.model()
    frozen = base.model.embed_tokens.weight.detach().clone()
    adapted = get_peft_model(base, LoraConfig(r=2, task_type="CAUSAL_LM"))
    trainer = make(tmp_path / "out", model=adapted, max_steps=4, learning_rate=0.1)
    trainer.train()
    trainer.save_model(str(tmp_path / "final"))
    assert torch.equal(base.model.embed_tokens.weight, frozen)
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert losses[-1] < losses[0]
    assert (tmp_path / "final" / "adapter_model.safetensors").exists()
    loaded = PeftModel.from_pretrained(tiny.model(), tmp_path / "final")
    tokens = tiny.Tokens(2)[0]["input_ids"][None]
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens).logits, trainer.model.eval()(tokens).logits)


# --- mistakes -------------------------------------------------------------------------------------
def test_a_checkpoint_of_another_directory_is_refused(tmp_path: Path) -> None:
    trainer = make(tmp_path / "out", max_steps=1)
    with pytest.raises(ValueError, match="which is not in output_dir"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "other" / "checkpoint-1"))


def test_every_argument_without_a_meaning_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="TrainingArguments has") as error:
        make(tmp_path, ddp_timeout=5, dataloader_drop_last=True, auto_find_batch_size=True)
    for name in ("ddp_timeout=5", "dataloader_drop_last=True", "auto_find_batch_size=True"):
        assert name in str(error.value)


def test_overriding_what_the_session_does_is_refused(tmp_path: Path) -> None:
    class Mine(ElasticTrainer):
        def training_step(self, *args: Any, **named: Any) -> Any:
            raise AssertionError

    with pytest.raises(ValueError, match=r"Mine overrides training_step.*override compute_loss"):
        make(tmp_path, trainer_class=Mine)


def test_a_callback_cannot_end_an_epoch_early(tmp_path: Path) -> None:
    class Impatient(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            control.should_epoch_stop = True

    trainer = make(tmp_path, named={"callbacks": [Impatient()]})
    with pytest.raises(ValueError, match="a callback set should_epoch_stop"):
        trainer.train()
