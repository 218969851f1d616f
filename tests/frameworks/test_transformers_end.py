"""How a job of ElasticTrainer ends and starts again, what it keeps, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="run make test-integrations")
pytest.importorskip("peft", reason="run make test-integrations")

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import EarlyStoppingCallback, LlamaForCausalLM, TrainerCallback

from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny
from tests.frameworks.tiny import make, measured

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
STEPS: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 2}


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
        return int(json.loads(trainer._after_step.state_dict()["text"])["state"]["global_step"])

    trainer = make(tmp_path, named={"callbacks": [Watcher()]}, max_steps=3)
    trainer.train()
    assert steps == [(0, 1), (1, 2), (2, 3)]
    assert saved_step() == 3


def test_a_state_that_is_given_back_while_a_step_is_followed_changes_nothing(
    tmp_path: Path,
) -> None:
    """As to the workers of a sharded job that are left when another one is lost meanwhile."""

    class GivesBack(TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            trainer._after_step.load_state_dict(trainer._after_step.state_dict())

    logs = []
    for number, callbacks in enumerate(([], [GivesBack()])):
        trainer = make(
            tmp_path / str(number),
            named={"callbacks": callbacks},
            max_steps=6,
            logging_steps=2,
            **STEPS,
        )
        trainer.train()
        logs.append(measured(trainer.state.log_history))
    assert logs[0] == logs[1]


def test_a_callback_gets_its_own_state_back_among_other_callbacks(tmp_path: Path) -> None:
    trainer = make(
        tmp_path,
        named={"callbacks": [EarlyStoppingCallback(2)]},
        max_steps=2,
        metric_for_best_model="eval_loss",
        **STEPS,
    )
    trainer.train()
    state = trainer._progress.read()
    [[name, attributes]] = [entry for entry in state["callbacks"] if "EarlyStopping" in entry[0]]
    attributes["early_stopping_patience_counter"] = 7
    state["callbacks"] = [["Another", {"strange": 1}], [name, attributes]]
    trainer._progress.write(state)
    callbacks = trainer.callback_handler.callbacks
    [stopping] = [c for c in callbacks if isinstance(c, EarlyStoppingCallback)]
    assert stopping.early_stopping_patience_counter == 7
    assert not any(hasattr(callback, "strange") for callback in callbacks)


def test_only_adapters_train_and_are_saved(tmp_path: Path) -> None:
    base = tiny.model()
    frozen = base.model.embed_tokens.weight.detach().clone()
    adapted = get_peft_model(base, LoraConfig(r=2, task_type="CAUSAL_LM"))
    trainer = make(tmp_path / "out", trained=adapted, max_steps=4, learning_rate=0.1)
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
