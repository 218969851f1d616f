"""The names that a training script imports, and what importing the package costs the agent."""

import subprocess
import sys

import pytest

import elastic_runtime
from elastic_runtime.checkpointing import restore
from elastic_runtime.session import Session
from elastic_runtime.strategies.deterministic import Deterministic
from elastic_runtime.strategies.sharded import Sharded
from elastic_runtime.training.worker_device import device
from tests.laws.sources import PROJECT, tracked
from tests.paths import TREE


@pytest.mark.parametrize("module", ["elastic_runtime", "elastic_runtime.agent.agent"])
def test_importing_the_agent_imports_no_torch(module: str) -> None:
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=TREE, check=True)


def test_public_names_are_those_of_their_modules() -> None:
    assert elastic_runtime.Session is Session
    assert elastic_runtime.Sharded is Sharded
    assert elastic_runtime.Deterministic is Deterministic
    assert elastic_runtime.device is device
    assert elastic_runtime.restore is restore


def test_public_names_are_listed() -> None:
    names = ["Deterministic", "Session", "Sharded", "__version__", "device", "restore"]
    assert elastic_runtime.__all__ == names
    assert set(elastic_runtime.__all__) <= set(dir(elastic_runtime))


def test_version_is_that_of_the_package() -> None:
    assert elastic_runtime.__version__ == PROJECT["project"]["version"]


def test_type_checkers_may_read_the_package() -> None:
    """PEP 561: the file must be beside the modules, and hatch takes what git keeps."""
    assert "elastic_runtime/py.typed" in tracked()


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'elastic_runtime' has no attribute 'Tree'"):
        elastic_runtime.Tree  # type: ignore[attr-defined]  # noqa: B018
