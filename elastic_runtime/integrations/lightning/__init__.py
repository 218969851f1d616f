"""Trains a LightningModule by a session: `from elastic_runtime.integrations.lightning import fit`.

Lightning's Trainer owns its loop and its processes, and here the session does. So `fit` takes the
place of `Trainer.fit`, and calls the hooks of the module and of its callbacks.
"""

from elastic_runtime.integrations.lightning.fitting import fit

__all__ = ["fit"]
