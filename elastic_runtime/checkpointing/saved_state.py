"""What a job can continue from when it starts: shared checkpoints, or what the pods' disks hold."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elastic_runtime.checkpointing import checkpoint_directory, joint_load, restore
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.save_format import Checkpoint
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.state.destination import Destination, Saved, WholeTensors
from elastic_runtime.state.state_tree import State, named_tensors, without_aliases

log = logging.getLogger(__name__)


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
        # What `find` has brought together from the pods' own disks.
        self._collected: Checkpoint | None = None

    def find(self, group: Group | None) -> Saved:
        """The same on every rank.

        What the pods' own disks hold is brought together if it is newer than all shared
        checkpoints.
        """
        may_be_shared, newest_shared = self._newest_shared()
        self._collected = self._local.collect(group, newest_shared) if self._local else None
        saved = Saved.SHARED if may_be_shared else Saved.NOWHERE
        if self._collected:
            saved = Saved.COLLECTED
        return Saved(all_gather_object(group, int(saved))[0])

    def _newest_shared(self) -> tuple[bool, int]:
        """Whether there may be shared checkpoints, and the step of the newest, -1 if unknown."""
        if not self._directory:
            return False, -1
        try:
            newest = checkpoint_directory.newest_step(self._directory)
        except OSError:
            # Loading says why it cannot be listed.
            return True, -1
        return newest >= 0, newest

    def load(self, live_state: Callable[[], State]) -> State | None:
        """The state of the collected checkpoint if there is one, else of the newest shared one.

        For the leading rank. Tensors are loaded into those of the live state where they fit. None
        if there is no checkpoint. Raises LookupError if there are some and none is intact.
        """
        live = dict(without_aliases(named_tensors(live_state())))
        collected = self._collected
        if self._local and collected:
            loaded = None
            try:
                loaded = restore.load(collected, live)
            except restore.LOAD_ERRORS as error:
                restore.log_skipped(collected.path, error)
            self._local.discard_collected()
            if loaded:
                self._in_background(self._report_newest)
                return loaded
        loaded = self.load_rows(None, WholeTensors(live))
        if collected and not loaded:
            raise LookupError(
                f"the checkpoint of step {collected.step} on the pods' own disks cannot be read, "
                f"and there is no other: fix the disks, or remove the local checkpoints to start "
                f"over"
            )
        return loaded

    def load_rows(self, group: Group | None, destination: Destination) -> State | None:
        """What each rank of the group needs of the newest shared checkpoint; see `joint_load`."""
        if not self._directory:
            return None
        loaded = joint_load.load_newest(self._directory, destination, group)
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
