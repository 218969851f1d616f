"""The part of Cede that runs in the pods of an elastic PyTorch job.

A training script uses the names of `__all__`. Each is imported when it is first used (PEP 562),
because the agent, which is the pod's first process, must not import torch.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

_complaint = ""
# Below an older Python nothing else of this package can be parsed; this file can, since 3.6.
if sys.version_info < (3, 11):  # noqa: UP036 - the image's Python may be any
    _version = ".".join(str(part) for part in sys.version_info[:3])
    _complaint = (
        f"elastic_runtime: this is Python {_version} ({sys.executable}), and Python 3.11 to 3.14 "
        f"is needed: use an image that has it, or name its other Python in the command"
    )
elif sys.platform == "win32":
    _complaint = (
        "elastic_runtime: Windows is not supported: use Linux, such as in WSL 2 or a container; on "
        "macOS a job of one trains"
    )
if _complaint:
    # `python -m elastic_runtime` ends with this line; a script or a notebook may go on without us.
    if sys.argv[0] == "-m":
        sys.exit(_complaint)
    raise ImportError(_complaint)

__all__ = ["Deterministic", "Session", "Sharded", "__version__", "device", "restore"]
# Of pyproject.toml. An image may hold these files without the metadata of an installed package.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from elastic_runtime.checkpointing import restore
    from elastic_runtime.session import Session
    from elastic_runtime.strategies.deterministic import Deterministic
    from elastic_runtime.strategies.sharded import Sharded
    from elastic_runtime.training.worker_device import device
else:
    _MODULE_OF = {
        "Deterministic": "elastic_runtime.strategies.deterministic",
        "Session": "elastic_runtime.session",
        "Sharded": "elastic_runtime.strategies.sharded",
        "device": "elastic_runtime.training.worker_device",
        "restore": "elastic_runtime.checkpointing.restore",
    }

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # First: the script may fail long before it creates its session.
        failures = importlib.import_module("elastic_runtime.training.failure_report")
        failures.report_early_failures()
        module = importlib.import_module(_MODULE_OF[name])
        value = module if name == "restore" else getattr(module, name)
        # The next use does not come here.
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
