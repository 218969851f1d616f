"""torch's compiler is imported only when it is used."""

import subprocess
import sys

import pytest

from tests.paths import TREE

pytestmark = pytest.mark.processes

PLAIN_TRAINING = """
import sys, torch
IMPORT
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(2)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
assert "torch._dynamo.eval_frame" not in sys.modules, "plain training imported the compiler"
"""
COMPILATION = """
import torch._dynamo
assert torch._dynamo.config.disable is False
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
assert sys.modules["torch._dynamo"].__file__
optimizer.step()
"""


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, cwd=TREE)


@pytest.mark.parametrize("names", ["Session", "Deterministic, Session"])
def test_plain_training_does_not_import_the_compiler(names: str) -> None:
    run(PLAIN_TRAINING.replace("IMPORT", f"from elastic_runtime import {names}"))


def test_the_compiler_is_imported_when_it_is_used() -> None:
    run(PLAIN_TRAINING.replace("IMPORT", "import elastic_runtime.session") + COMPILATION)


def test_sharded_training_may_be_imported_after_the_session() -> None:
    run(
        "import elastic_runtime.session; from torch.distributed.fsdp import fully_shard; "
        "import torch.distributed.tensor"
    )
