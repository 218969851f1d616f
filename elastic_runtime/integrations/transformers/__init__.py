"""`from elastic_runtime.integrations.transformers import ElasticTrainer`, or RestartCallback.

The imports wait for the first use (PEP 562): the package has modules that need no framework.
"""

import importlib
from typing import TYPE_CHECKING, Any

from elastic_runtime.training.failure_report import report_early_failures

__all__ = ["ElasticTrainer", "RestartCallback"]

if TYPE_CHECKING:
    from elastic_runtime.integrations.transformers.restart_callback import RestartCallback
    from elastic_runtime.integrations.transformers.trainer import ElasticTrainer
else:
    _MODULE_OF = {"ElasticTrainer": "trainer", "RestartCallback": "restart_callback"}

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "ElasticTrainer":
            # The script may fail before it has a session; one for torchrun never has one.
            report_early_failures()
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
