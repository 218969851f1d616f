"""For Lightning's Trainer as it is, under `python -m elastic_runtime --restart`."""

import math
import os
import shutil
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.data import _set_sampler_epoch
from lightning.pytorch import Callback

from elastic_runtime.restart import accumulation_steps, progress, stop_requested, watch_signal


class RestartCallback(Callback):
    """When the job gets another size, all ranks save after the same step, and the process ends.

    `directory`: where it saves; the ModelCheckpoint of the script saves there too. `micro_batches`:
    of one step over all ranks; it sets the Trainer's `accumulate_grad_batches`. It is the last one
    in `callbacks`, so that the others have finished the step.

    The script resumes by `trainer.fit(..., ckpt_path=callback.newest)`, in the middle of an epoch
    too: the batches of the epoch that are done are read and skipped.
    """

    def __init__(self, directory: str | os.PathLike[str], micro_batches: int) -> None:
        self.directory = Path(directory)
        self.accumulation = accumulation_steps(micro_batches)
        self._step = 0
        self._batches_to_skip = 0

    @property
    def newest(self) -> str | None:
        """The newest checkpoint in the directory, of any callback; None if there is none."""
        files = self.directory.rglob("*.ckpt")
        newest = max(files, key=lambda file: file.stat().st_mtime_ns, default=None)
        return str(newest) if newest else None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        trainer.accumulate_grad_batches = self.accumulation
        watch_signal()
        # Lightning's own handler of SIGTERM sends a broadcast at once, in the middle of whatever
        # its rank does: at another place on each rank.
        trainer._signal_connector.register_signal_handlers = lambda: None

    def state_dict(self) -> dict[str, Any]:
        return {"accumulation": self.accumulation}

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Count the batches of a rank as if it had trained at this size all along."""
        own_state = checkpoint["callbacks"].get(self.state_key, self.state_dict())
        loop = checkpoint["loops"]["fit_loop"]
        batches = loop["epoch_loop.batch_progress"]
        for counts in (batches["total"], batches["current"]):
            unfinished = counts["processed"] - counts["completed"]
            for name in ("ready", "started", "processed"):
                steps = math.ceil(counts[name] / own_state["accumulation"])
                counts[name] = steps * self.accumulation
            counts["completed"] = counts["processed"] - unfinished
        # A loader with a state has its place in the epoch itself.
        if not (batches["is_last_batch"] or loop["state_dict"].get("combined_loader")):
            self._batches_to_skip = batches["current"]["ready"]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._skip_batches(trainer.fit_loop)
        self._step = trainer.global_step
        if stop_requested(trainer.strategy.root_device, self._step):
            raise SystemExit(0)

    def _skip_batches(self, loop: Any) -> None:
        """Those of this epoch that are done. An iterable dataset without a length begins anew."""
        fetcher = loop._data_fetcher
        if not self._batches_to_skip or fetcher.length is None:
            return
        for loader in fetcher.combined_loader.flattened:
            # Until now its order is that of the first epoch.
            _set_sampler_epoch(loader, loop.epoch_progress.current.processed)
        iter(fetcher)
        for _ in range(self._batches_to_skip):
            next(fetcher.iterator)

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        if trainer.global_step == self._step:
            # The batch is not complete.
            return
        self._step = trainer.global_step
        if stop_requested(trainer.strategy.root_device, self._step):
            self._save(trainer)
            # `should_stop` would validate first, and count the epoch as complete.
            raise SystemExit(0)

    def on_validation_batch_end(self, *others: Any) -> None:
        progress()

    def _save(self, trainer: Any) -> None:
        """A checkpoint that is complete once it has its name. It replaces the last one."""
        part = self.directory / "restart.part"
        trainer.save_checkpoint(part)
        if trainer.is_global_zero:
            old = [*self.directory.glob("restart-*.ckpt")]
            os.replace(part, self.directory / f"restart-{self._step}.ckpt")
            for path in old:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
