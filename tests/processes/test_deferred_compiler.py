"""torch's compiler stays away from plain training, and comes when it is asked for."""

import subprocess
import sys

import pytest

from tests.paths import TREE

pytestmark = pytest.mark.processes

SCRIPT = """
import sys, torch
import elastic_runtime.session
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(2)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
assert "torch._dynamo.eval_frame" not in sys.modules, "plain training brought the compiler"
import torch._dynamo
assert torch._dynamo.config.disable is False
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
assert sys.modules["torch._dynamo"].__file__
optimizer.step()
"""


def test_the_compiler_comes_only_when_asked_for() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, cwd=TREE)


def test_sharded_training_may_be_imported_after_the_session() -> None:
    script = (
        "import elastic_runtime.session; from torch.distributed.fsdp import fully_shard; "
        "import torch.distributed.tensor"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=TREE)
