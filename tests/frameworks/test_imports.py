"""Frameworks work beside elastic_runtime, whichever is imported first, and in the worker of a job.

`make test-integrations` runs this, in an environment that has their packages.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.harness.local_job import Job
from tests.marks import in_long
from tests.paths import TREE

IMPORTS = {
    "transformers": "from transformers import LlamaForCausalLM, Trainer, TrainingArguments",
    "accelerate": "from accelerate import Accelerator",
    "lightning": "from lightning import LightningModule, Trainer",
    "diffusers": "from diffusers import DDPMScheduler, UNet2DModel",
    "peft": "from peft import LoraConfig, get_peft_model",
}
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not all(find_spec(package) for package in IMPORTS), reason="run make test-integrations"
    ),
]
OURS = "from elastic_runtime import Session"
# A function that is excluded from compilation stays out of it, however the packages were imported.
CHECK = """
import torch
graphs = []

def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

@torch.compiler.disable(reason="a reason")
def excluded(x):
    return x + 1

assert torch.compile(lambda x: excluded(x * 2) * 3, backend=backend)(torch.ones(1)).item() == 9.0
assert len(graphs) == 2, "the function was compiled"
"""
# Each library sees a process of its own, and trains nothing by itself.
SCRIPT = """
import torch
from elastic_runtime import Session
from accelerate import Accelerator
from lightning import Trainer
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

arguments = TrainingArguments(output_dir="out", use_cpu=True, report_to=[])
assert (arguments.world_size, arguments.process_index) == (1, 0)
assert Accelerator(cpu=True).num_processes == 1
assert Trainer(accelerator="cpu", devices=1, logger=False, barebones=True).world_size == 1
sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
config = LlamaConfig(vocab_size=32, num_attention_heads=2, num_key_value_heads=2, **sizes)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 32, (8, 5))
for step in (session := Session(model, optimizer, samples=8, micro_batches=4)).steps(3):
    for batch in step:
        step.backward(model(tokens[batch.indices], labels=tokens[batch.indices]).loss)
print("trained on", session.world)
"""


def run(script: str) -> None:
    # torch's own notes about a machine without a GPU are not of interest.
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, cwd=TREE)


@pytest.mark.parametrize(
    "package", ["transformers", "lightning", *in_long("accelerate", "diffusers", "peft")]
)
def test_a_framework_can_be_imported_after_us(package: str) -> None:
    run("\n".join([OURS, IMPORTS[package], CHECK]))


def test_frameworks_can_be_imported_before_us() -> None:
    run("\n".join([*IMPORTS.values(), OURS, CHECK]))


def test_a_worker_of_a_job_is_a_process_of_its_own_to_every_framework(tmp_path: Path) -> None:
    job = Job(tmp_path, SCRIPT, smallest=2)
    job.env = os.environ | job.env | {"ACCELERATE_USE_CPU": "true"}
    job.start(0, 1)
    try:
        assert [pod.wait(300) for pod in job.pods.values()] == [0, 0], job.output()
    finally:
        job.kill()
    assert "trained on 2" in job.output()
