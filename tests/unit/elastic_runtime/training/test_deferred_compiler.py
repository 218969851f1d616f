"""torch's compiler is imported only when it is used, and nobody notices another difference."""

import subprocess
import sys

import pytest

from elastic_runtime.training import deferred_compiler
from tests.marks import LONG
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
assert sys.modules["torch._dynamo"] is torch._dynamo
assert type(torch._dynamo).__name__ == "module"
optimizer.step()
"""
# Every way in which libraries exclude a function, and what they see of the compiler before that.
DISABLED = """
import importlib.util, inspect, sys, torch
names = [torch, torch.compiler, torch._compile, sys.modules["torch.optim.optimizer"]]
before = [dict(vars(module)) for module in names]
import elastic_runtime.session
for module, contents in zip(names, before):
    changed = {name for name in contents if vars(module)[name] is not contents[name]}
    assert not changed, f"{module.__name__} has other {changed}"
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters())
model(torch.ones(2)).sum().backward()
optimizer.step()

def plain(x):
    return x + 1

# torch's own functions are disabled in this way, and may have run before.
disabled_by_torch = torch._disable_dynamo(plain)
disabled_by_torch(1)
placeholder = sys.modules["torch._dynamo"]
assert importlib.util.find_spec("torch._dynamo").name == "torch._dynamo"
inspect.getmodule(model.forward)
assert "torch._dynamo.eval_frame" not in sys.modules, "to look at modules imported the compiler"
USE
assert placeholder.__dict__.keys() < vars(torch._dynamo).keys()
placeholder.mark = 1
assert torch._dynamo.mark == 1
ways = [
    torch.compiler.disable(plain),
    torch.compiler.disable(plain, recursive=False),
    torch.compiler.disable(reason="a reason")(plain),
    torch._dynamo.disable()(plain),
    torch._dynamo.disable(plain, reason="a reason"),
    placeholder.disable(plain),
    disabled_by_torch,
]
for number, way in enumerate(ways):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: way(x * 2) * 3, backend=backend)
    assert compiled(torch.ones(1)).item() == 9.0
    assert len(graphs) == 2, f"way {number} was compiled: {len(graphs)} graphs"
"""

# Counts how often each module's code runs.
COUNT = """
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader

runs = Counter()
execute = SourceFileLoader.exec_module
SourceFileLoader.exec_module = lambda loader, module: (
    runs.update([module.__name__]), execute(loader, module)
)[1]
"""
NOTHING_TWICE = """
import importlib.util
assert importlib.util.find_spec("no_such_module") is None
assert runs["torch._dynamo.eval_frame"] == 1
twice = [name for name, count in runs.items() if count > 1 and name.startswith("torch._dynamo")]
assert not twice, f"these modules ran again: {twice}"
module = sys.modules["torch._dynamo.eval_frame"]
assert module is torch._dynamo.eval_frame
assert vars(module) is torch._dynamo.OptimizedModule.__init__.__globals__
assert type(module.__spec__.loader) is SourceFileLoader
assert not [finder for finder in sys.meta_path if "elastic_runtime" in type(finder).__module__]
assert importlib.reload(torch._dynamo.logging) is torch._dynamo.logging
assert runs["torch._dynamo.logging"] == 2, "a reload ran nothing"
"""


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, cwd=TREE)


@pytest.mark.parametrize("names", ["Session", "Deterministic, Session"])
def test_plain_training_does_not_import_the_compiler(names: str) -> None:
    run(PLAIN_TRAINING.replace("IMPORT", f"from elastic_runtime import {names}"))


def test_the_compiler_is_imported_when_it_is_used() -> None:
    run(PLAIN_TRAINING.replace("IMPORT", "import elastic_runtime.session") + COMPILATION)


@LONG
@pytest.mark.parametrize("use", ["torch.compiler.disable()", "import torch._dynamo.eval_frame"])
def test_what_a_library_excludes_from_compilation_stays_out_of_it(use: str) -> None:
    """Nothing in torch is another object after the import, and `disable` is the real one."""
    run(DISABLED.replace("USE", use))


@LONG
@pytest.mark.parametrize(
    "way",
    [
        "import torch._dynamo.eval_frame",
        "import torch._dynamo.config",
        "import importlib.util; importlib.util.find_spec('torch._dynamo.eval_frame')",
        "hasattr(sys.modules['torch._dynamo'], '__path__')",
    ],
)
def test_no_module_of_the_compiler_runs_twice(way: str) -> None:
    ours = "import elastic_runtime.session, torch"
    run("\n".join([COUNT, ours, way, "import torch._dynamo", NOTHING_TWICE]))


def test_two_threads_may_import_at_once() -> None:
    """Both are about to ask the finder when the first answer removes it."""
    assert deferred_compiler._already_imported not in sys.meta_path
    assert deferred_compiler._already_imported.find_spec("no_such_module", None) is None


def test_sharded_training_may_be_imported_after_the_session() -> None:
    run(
        "import elastic_runtime.session; from torch.distributed.fsdp import fully_shard; "
        "import torch.distributed.tensor"
    )
