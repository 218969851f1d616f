"""What `deploy/local/setup.sh` makes of .venv, which the pods of the local cluster mount."""

from importlib.util import cache_from_source
from pathlib import Path

import torch


def test_every_module_of_torch_is_bytecode() -> None:
    """A pod may not write, so that each of its ranks would compile what is not."""
    modules = Path(torch.__file__).parent.rglob("*.py")
    missing = [module for module in modules if not Path(cache_from_source(str(module))).exists()]
    # some are written for a later Python
    compilable = [module for module in missing if is_compilable(module)]
    assert not compilable, "remove .venv/cede-stamp, and run make again"


def is_compilable(module: Path) -> bool:
    try:
        compile(module.read_bytes(), module, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
