"""What `deploy/local/setup.sh` makes of .venv, which the pods of the local cluster mount."""

from importlib.util import cache_from_source
from pathlib import Path

import torch


def test_every_module_of_torch_is_bytecode() -> None:
    """A pod may not write, so that each of its ranks would compile what is not."""
    modules = [str(module) for module in Path(torch.__file__).parent.rglob("*.py")]
    missing = [module for module in modules if not Path(cache_from_source(module)).exists()]
    assert not missing, "remove .venv/cede-stamp, and run make again"
