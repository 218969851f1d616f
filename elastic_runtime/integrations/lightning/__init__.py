"""Trains a LightningModule by a session: `from elastic_runtime.integrations.lightning import fit`.
RestartCallback is for Lightning's own Trainer.

Lightning's Trainer owns its loop and its processes, and here the session does. So `fit` takes the
place of `Trainer.fit`, and calls the hooks of the module and of its callbacks.
"""

import importlib
from typing import TYPE_CHECKING, Any

from elastic_runtime.training.failure_report import report_early_failures

__all__ = ["RestartCallback", "fit"]

if TYPE_CHECKING:
    from elastic_runtime.integrations.lightning.fitting import fit
    from elastic_runtime.integrations.lightning.restart_callback import RestartCallback
else:
    _MODULE_OF = {"RestartCallback": "restart_callback", "fit": "fitting"}

    def __getattr__(name: str) -> Any:
        """The import of Lightning waits for the first use (PEP 562): `fit` does not need it."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "fit":
            # The script may fail before it has a session; one for torchrun never has one.
            report_early_failures()
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
