"""What a job can continue from when it starts: shared checkpoints, or what the pods' disks hold."""

import logging
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing import checkpoint_directory, joint_load, restore
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.save_format import Checkpoint
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.state.destination import Destination, Saved, WholeTensors
from elastic_runtime.state.state_tree import State, named_tensors, without_aliases

log = logging.getLogger(__name__)
# NFS clients keep what a directory contains for up to 60 s.
SIGHT_TIMEOUT_S = 70.0
SIGHT_INTERVAL_S = 0.5


class SavedState:
    """Every rank calls `find`, and then `load` or `load_rows`.

    `in_background`: runs a call there. `report_durable`: called with a checkpoint that was loaded.
    `durable_step`: the newest that this rank knows to be durable.
    """

    def __init__(
        self,
        directory: Path | None,
        local: LocalSaves | None,
        in_background: Callable[..., None],
        report_durable: Callable[[Checkpoint], None],
        durable_step: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._local = local
        self._in_background = in_background
        self._report_durable = report_durable
        self._durable_step = durable_step
        # What `find` has found, and what it has brought together from the pods' own disks.
        self._saved = Saved.NOWHERE
        self._collected: Checkpoint | None = None
        # Where that is, for the log of the leading rank.
        self.place = str(directory)

    def find(self, group: Group | None) -> Saved:
        """The same on every rank.

        What the pods' own disks hold is brought together if it is newer than all shared
        checkpoints.
        """
        newest_shared = self._newest_shared(group)
        step = -1 if newest_shared is None else newest_shared
        self._collected = self._local.collect(group, step) if self._local else None
        saved = Saved.NOWHERE if newest_shared == -1 else Saved.SHARED
        if self._collected:
            saved = Saved.COLLECTED
            self.place = "the pods' own disks"
        self._saved = Saved(all_gather_object(group, int(saved))[0])
        return self._saved

    def _newest_shared(self, group: Group | None) -> int | None:
        """The step of the newest shared checkpoint that the leading rank sees, alike on every rank:
        -1 if there is none, None if it cannot list them.

        A file server may show it a checkpoint later than others. Raises LookupError on every rank
        if another rank sees a newer one for `SIGHT_TIMEOUT_S`.
        """
        deadline = time.monotonic() + SIGHT_TIMEOUT_S
        while True:
            is_over = time.monotonic() >= deadline
            views = all_gather_object(group, [self._listed(), is_over, platform.node()])
            leading: int | None
            leading, is_over, host = views[0]
            steps = [-1 if step is None else step for step, _, _ in views]
            newest = max(steps)
            if leading is None or newest <= leading:
                return leading
            if is_over:
                raise LookupError(
                    f"worker {steps.index(newest)} sees the checkpoint of step {newest} in "
                    f"{self._directory}, and worker 0 on {host} does not: all pods must share the "
                    f"directory: repair its mount there, and start the job again"
                )
            time.sleep(SIGHT_INTERVAL_S)

    def _listed(self) -> int | None:
        """The step of the newest shared checkpoint that this rank sees, as above."""
        if not self._directory:
            return -1
        try:
            return checkpoint_directory.newest_step(self._directory)
        except OSError:
            # Loading says why it cannot be listed.
            return None

    def load(self, group: Group | None, live_state: Callable[[], State]) -> State | None:
        """On the leading rank: the state of the collected checkpoint if there is one, else of the
        newest shared one.

        Every rank calls this; None on the others, and if there is no checkpoint. Tensors are loaded
        into those of the live state where they fit. Raises LookupError if there are some and none
        is intact, and PeerLost.
        """
        is_leading = group is None or group.rank == 0
        if self._saved is Saved.COLLECTED and not is_leading:
            return None
        # On every rank: if it raises an error, then usually on all of them.
        live = dict(without_aliases(named_tensors(live_state())))
        if self._saved is Saved.COLLECTED:
            return self._load_collected(live)
        return self._load_shared(
            group, lambda path: joint_load.load_newest_on_first(path, WholeTensors(live), group)
        )

    def _load_collected(self, live: Mapping[str, torch.Tensor]) -> State:
        """Else the newest shared one, without the other ranks."""
        assert self._local
        assert self._collected
        loaded = None
        try:
            loaded = restore.load(self._collected, live)
        except restore.LOAD_ERRORS as error:
            restore.log_skipped(self._collected.path, error)
        self._local.discard_collected()
        if loaded:
            self._in_background(self._report_newest)
            return loaded
        self.place = str(self._directory)
        loaded = self.load_rows(None, WholeTensors(live))
        if not loaded:
            raise LookupError(
                f"the checkpoint of step {self._collected.step} on the pods' own disks cannot be "
                f"read, and there is no other: fix the disks, or remove the local checkpoints to "
                f"start over"
            )
        return loaded

    def load_rows(self, group: Group | None, destination: Destination) -> State | None:
        """What each rank of the group needs of the newest shared checkpoint; see `joint_load`."""
        return self._load_shared(
            group, lambda path: joint_load.load_newest(path, destination, group)
        )

    def _load_shared(
        self, group: Group | None, load: Callable[[Path], tuple[Checkpoint, State] | None]
    ) -> State | None:
        """What `load` finds in the shared directory; the leading rank reports it."""
        loaded = load(self._directory) if self._directory else None
        if not loaded:
            return None
        checkpoint, state = loaded
        if group is None or group.rank == 0:
            self._report_durable(checkpoint)
        return state

    def _report_newest(self) -> None:
        """For the status: the newest shared checkpoint."""
        assert self._directory
        try:
            newest = restore.newest_intact(self._directory)
        except OSError as error:
            reason: dict[str, Any] = {"path": str(self._directory), "reason": str(error)}
            log.warning("the checkpoints cannot be listed", extra=reason)
            return
        if newest and newest.step > self._durable_step():
            self._report_durable(newest)
