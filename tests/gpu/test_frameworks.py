"""The integrations on a GPU: what frameworks do there and not on a CPU."""

import json
import os
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from elastic_runtime import device
from tests.harness.local_job import Job
from tests.harness.recipes import RECIPES, write_toml

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
DEVICE = device()
needs_transformers = pytest.mark.skipif(
    not find_spec("transformers") or not find_spec("accelerate"),
    reason="pip install transformers accelerate",
)
# Accelerate has no float16 on a CPU, where these tests can be tried.
needs_gpu = pytest.mark.skipif(DEVICE.type == "cpu", reason="float16 needs a GPU")
# Both round in half precision, at gradients of another size: Trainer divides the loss by the number
# of tokens before the backward pass and the session afterwards.
TOLERANCE = 1e-2
# None of its gradients overflows: the two would skip different steps.
SCALE = 2.0**10


# --- transformers ---------------------------------------------------------------------------------
@needs_transformers
@pytest.mark.parametrize("kind", [pytest.param("fp16", marks=needs_gpu), "bf16"])
def test_trainer_in_half_precision_logs_the_same_without_a_session(
    tmp_path: Path, kind: str
) -> None:
    from elastic_runtime.integrations.transformers import ElasticTrainer
    from tests.frameworks import tiny

    trained = {}
    for trainer_class in (tiny.OrdinaryTrainer, ElasticTrainer):
        trainer = trained[trainer_class] = tiny.make(
            tmp_path / trainer_class.__name__,
            trainer_class=trainer_class,
            use_cpu=DEVICE.type == "cpu",
            fp16=kind == "fp16",
            bf16=kind == "bf16",
            # Adam makes a whole step of the rounding of a gradient near zero.
            optim="sgd",
            learning_rate=1.0,
        )
        if kind == "fp16":
            trainer.accelerator.scaler = torch.amp.GradScaler("cuda", init_scale=SCALE)
        trainer.train()
        scaler = trainer.accelerator.scaler
        assert (scaler.get_scale() if scaler else None) == (SCALE if kind == "fp16" else None)
    elastic, ordinary = trained[ElasticTrainer], trained[tiny.OrdinaryTrainer]
    lines = tiny.measured(elastic.state.log_history)
    others = tiny.measured(ordinary.state.log_history)
    assert len(lines) == len(others) > 8
    for line, other in zip(lines, others, strict=True):
        assert line == pytest.approx(other, rel=TOLERANCE)
    own = dict(elastic.model.named_parameters())
    for name, parameter in ordinary.model.named_parameters():
        assert own[name].device == parameter.device == DEVICE
        torch.testing.assert_close(own[name], parameter, rtol=TOLERANCE, atol=TOLERANCE)


# --- Lightning ------------------------------------------------------------------------------------
@pytest.mark.skipif(not find_spec("lightning"), reason="pip install lightning")
@pytest.mark.parametrize(
    "precision", ["32-true", "bf16-mixed", pytest.param("16-mixed", marks=needs_gpu)]
)
def test_a_lightning_module_learns_on_the_gpu(tmp_path: Path, precision: str) -> None:
    from lightning.pytorch import LightningModule
    from torch.utils.data import DataLoader, TensorDataset

    from elastic_runtime.integrations.lightning import fit

    torch.manual_seed(0)
    # (samples, width)
    inputs = torch.randn(96, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))

    class Regression(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(8, 1)
            self.types: set[torch.dtype] = set()

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            assert batch[0].device == self.device == DEVICE
            outputs = self.net(batch[0])
            self.types.add(outputs.dtype)
            return (outputs.float() - batch[1]).square().mean()

        def validation_step(self, batch: list[torch.Tensor]) -> None:
            self.log("loss", self.training_step(batch))

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.1)

    def loss() -> float:
        """Of all samples, in single precision."""
        own_inputs, own_targets = (tensor.to(module.device) for tensor in data.tensors)
        with torch.no_grad():
            return (module.net(own_inputs) - own_targets).square().mean().item()

    module = Regression()
    before = loss()
    session = fit(
        module,
        DataLoader(data, batch_size=4, shuffle=True),
        DataLoader(data, batch_size=96),
        max_steps=48,
        micro_batches=2,
        validate_every=12,
        precision=precision,
        gradient_clip_val=1.0,
        checkpoint=tmp_path / "save",
    )
    assert session.step == 48
    types = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
    assert module.types == {types[precision]}
    assert loss() < 0.3 * before


# --- a recipe -------------------------------------------------------------------------------------
@needs_transformers
@pytest.mark.skipif(not find_spec("peft"), reason="pip install peft")
def test_a_model_is_fine_tuned_by_lora_on_the_gpu(tmp_path: Path) -> None:
    """In bfloat16, with gradient checkpointing, by the recipe as it is."""
    table = tomllib.loads((RECIPES / "values" / "llama-lora.toml").read_text())
    rows = [{"text": f"{number} + 1 = {number + 1}"} for number in range(50)]
    (tmp_path / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    table |= {
        "model": "random:llama",
        "data": "data.jsonl",
        "output": "out",
        "journal": True,
        "max_tokens": 24,
        "batch": 8,
        "micro_batch": 2,
        "learning_rate": 1e-2,
        "steps": 20,
        "warmup": 3,
        "save_every": 10,
    }
    del table["job"]
    write_toml(tmp_path / "values.toml", table)
    job = Job(tmp_path, "")
    (tmp_path / "log").symlink_to("out/journal")
    # Where packages are that were not installed beside Python.
    paths = [job.env["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]
    job.env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONWARNINGS": "ignore"}
    job.command = [str(RECIPES / "fine_tune.py"), "values.toml"]
    try:
        job.start(0)
        assert job.pods[0].wait(120) == 0, job.output()
    finally:
        job.kill()
    losses = {line["step"]: line["loss"] for line in job.lines("steps-*")}
    assert sorted(losses) == list(range(1, 21))
    assert losses[20] < losses[1]
    written = {path.name for path in (tmp_path / "out" / "model").iterdir()}
    assert {"adapter_model.safetensors", "tokenizer.json"} <= written
