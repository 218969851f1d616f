"""When to save, and on which thread: every rank stages its own pieces at a step's end and writes
them in the background.

The leading rank orders a save, by a word that rides with the step, when it is due and the last one
is over. It waits, in the background
too, until every rank has said in the draft that its file is durable; then it ends the save.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing import restore, save_format
from elastic_runtime.checkpointing.direct_io import Desk
from elastic_runtime.checkpointing.local_saves import LocalSaves
from elastic_runtime.checkpointing.partition import Piece, Writer, owned
from elastic_runtime.checkpointing.staging import Stage, as_they_are
from elastic_runtime.distributed.group import Group
from elastic_runtime.state.state_tree import flatten, named_tensors, unflatten

log = logging.getLogger(__name__)
# for the other ranks' files, once the leading rank's own is durable
PATIENCE_S = 120.0
LOOK_S = 0.01
# how long a step waits for a disk that does not even let go of a save that was given up
STUCK_S = 1.0


class SaveOrder(IntEnum):
    """What the leading rank wishes saved after a step."""

    NONE = 0
    LOCAL = 1
    SHARED = 2


class Saver:
    """`durable`: the step of the newest save that this rank knows to be durable; -1 for none."""

    def __init__(
        self,
        directory: Path | None,
        every: int,
        said: Callable[..., None],
        local: LocalSaves | None = None,
    ) -> None:
        self.directory = directory
        self.every = every
        self._said = said
        self._local = local
        self.durable_step = -1
        self._owed = False
        self._asked = 0
        # the step of the last save and when; whether it was said to take too long
        self._begun = -1
        self._began = 0.0
        self._stuck = False
        self._place = Writer()
        self._stage, self._desk = Stage(), Desk()
        self._given_up = threading.Event()

    def enter_generation(self, place: Writer, *, writer_left: bool) -> None:
        """A new generation. A save that the last one began goes on, unless one of its writers
        `left`: then it is due again."""
        if left:
            self._given_up.set()
            # one too many, where another rank led and had ended it
            self._owed = self._owed or self._begun > self.durable_step
        self._place = place

    def request(self) -> None:
        """A save is due."""
        self._owed = True

    def order_for(self, step: int, requests: int) -> SaveOrder:
        """Asked of the leading rank: where the state after `step` is to be saved. `asked`: how
        often somebody wished a save so far."""
        wished = requests > self._asked
        self._asked = max(requests, self._asked)
        if not self.directory:
            if wished:
                self._said(
                    message="nothing is saved: the session was given no checkpoint directory"
                )
            return SaveOrder.NONE
        self._owed = self._owed or wished or (self.every > 0 and step % self.every == 0)
        if self._owed and (not self._desk.busy or self._given_up.is_set()):
            return SaveOrder.SHARED
        if self._owed and not self._stuck and time.monotonic() - self._began > PATIENCE_S:
            self._stuck = True
            self._said(
                message=(
                    f"step {self._begun} is still being written to {self.directory}, after "
                    f"{PATIENCE_S:g} s"
                )
            )
        return SaveOrder.LOCAL if self._local and self._local.due(step) else SaveOrder.NONE

    def save_in_background(
        self, step: int, state: Callable[[], dict[str, Any]], order: SaveOrder = SaveOrder.SHARED
    ) -> None:
        """This rank's pieces are copied now and written in the background. `state`: the live one;
        every rank calls this after one step."""
        if not self.directory:
            return
        began = time.monotonic()
        live = state()
        place = self._place
        if order == SaveOrder.LOCAL:
            if self._local:
                self._local.soon(step, live, _form(live) if place.rank == 0 else {}, place)
            return
        # the leading rank's last save is over, so what this one still writes of it is for nothing
        self._given_up.set()
        settled = self._desk.settle(STUCK_S)
        if settled or not self._desk.waiting:
            if not settled:
                # what is still being written is in the other; this part goes after it
                self._stage = Stage()
            self._begin(step, live, began, self._stage.copy)
        else:
            # the others will wait for our part in vain, in the background; a step waits for no
            # disk, nor does a heap of parts
            # so that nobody is requests at every step: it is due when the disk has let go
            self._given_up = threading.Event()
            self._said(
                message=(
                    f"this rank's part of step {self._begun} is still being written to "
                    f"{self.directory}"
                )
            )

    def _begin(
        self,
        step: int,
        live: dict[str, Any],
        began: float,
        stage: Callable[[Sequence[Piece]], Sequence[Piece]],
    ) -> None:
        assert self.directory
        place = self._place
        self._owed = False
        self._given_up = threading.Event()
        self._begun = step
        self._began = began
        self._stuck = False
        draft = self.directory / f".{save_format.folder(step)}.{place.name}"
        pieces = stage(owned(live, place.rank, place.world, place.shards))
        form = _form(live) if place.rank == 0 else {}
        stall_s = time.monotonic() - began
        given_up = self._given_up
        self._desk.start(
            self._write,
            step,
            draft,
            place,
            pieces,
            form,
            stall_s,
            lambda: given_up.is_set() or place.is_aborted(),
        )

    def is_needed(self, step: int) -> bool:
        """Asked of the leading rank between two steps: whether the state after `step` is not
        durable yet. Ends the save under way."""
        self._desk.settle()
        return self.directory is not None and self.durable_step != step

    def save_and_wait(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """This rank's part is durable when this returns, on the leading rank the whole save; or it
        was said why not. Nobody trains."""
        if self.directory:
            self._given_up.set()
            self._desk.settle()
            self._begin(step, state(), time.monotonic(), as_they_are)
            self._desk.settle()

    def newest_step(self) -> int:
        """By its name; -1 for none, or where nobody knows."""
        try:
            return (
                max(
                    (save_format.step_of(path.name) for path in save_format.saves(self.directory)),
                    default=-1,
                )
                if self.directory
                else -1
            )
        except OSError as error:
            log.warning(
                "the saves cannot be listed",
                extra={"path": str(self.directory), "reason": str(error)},
            )
            return -1

    def collect(self, group: Group | None) -> save_format.Saved | None:
        """By every rank, for the leading one: what the pods' own disks hold, if it is newer than
        the shared directory's newest."""
        return self._local.collect(group, self.newest_step()) if self._local else None

    def load(
        self, local: save_format.Saved | None, state: Callable[[], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """By the leading rank: what was collected, else the newest shared state; in the memory of
        the live `state` where that fits.

        Raises LookupError if there are saves and none is whole.
        """
        live = dict(named_tensors(state()))
        found = None
        if self._local and local:
            try:
                found = restore.load(local, live)
            except restore.UNREADABLE as error:
                restore.pass_over(local.path, error)
            self._local.forget()
        if found and self.directory:
            self._desk.start(self._look, self.directory)
        elif self.directory and (newest := restore.load_newest(self.directory, live)):
            self._is_durable(newest[0])
            return newest[1]
        elif local:
            raise LookupError(
                f"what the pods' own disks held of step {local.step} could not be read, and "
                f"there "
                f"is no other save"
            )
        return found

    def _look(self, directory: Path) -> None:
        """What is durable, for the status."""
        try:
            found = restore.newest(directory)
        except OSError as error:
            log.warning(
                "the saves cannot be listed", extra={"path": str(directory), "reason": str(error)}
            )
        else:
            if found and found.step > self.durable_step:
                self._is_durable(found)

    def wait(self) -> None:
        """Whatever this rank was writing is over."""
        self._desk.settle()
        if self._local:
            self._local.settle()

    def _is_durable(self, saved: save_format.Saved, **figures: Any) -> None:
        self.durable_step = saved.step
        self._said(durable_step=saved.step, digest=saved.digest, **figures)

    def _write(
        self,
        step: int,
        draft: Path,
        place: Writer,
        pieces: Sequence[Piece],
        form: dict[str, Any],
        stall_s: float,
        given_up: Callable[[], bool],
    ) -> None:
        assert self.directory
        began = time.monotonic()
        try:
            if place.rank == 0:
                save_format.remove_drafts(self.directory, draft)
            save_format.write_part(
                draft,
                place.rank,
                pieces,
                save_format.items(form) if form else {},
                self._desk,
                given_up,
            )
            if place.rank == 0:
                _await_parts(draft, place.world, given_up)
                saved = save_format.conclude(self.directory, draft, step, place.world)
                self._is_durable(
                    saved, save_s=time.monotonic() - began, stall_s=stall_s, message=""
                )
                log.info("saved", extra={"step": step, "path": str(saved.path)})
        except Exception as error:
            # whatever it is: training goes on, and the status says what is wrong
            log.exception("save failed")
            if place.rank == 0:
                shutil.rmtree(draft, ignore_errors=True)
            else:
                _refuse(draft, place.rank, str(error))
            self._said(message=f"saving step {step} to {self.directory} failed: {error}")


def _await_parts(draft: Path, world: int, given_up: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not save_format.parts_said(draft, world):
        time.sleep(LOOK_S)
        if given_up():
            raise OSError("it was given up, for a rank was lost or left")
        if time.monotonic() > until:
            raise OSError(f"a rank did not write its part in {PATIENCE_S:g} s")


def _refuse(draft: Path, rank: int, why: str) -> None:
    try:
        save_format.refuse_part(draft, rank, why)
    except OSError as error:
        log.warning(
            "the other ranks cannot be told", extra={"draft": str(draft), "reason": str(error)}
        )


def _form(state: dict[str, Any]) -> dict[str, Any]:
    """The state with tensors that have a shape and no memory."""
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    formed: dict[str, Any] = unflatten(
        skeleton, [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in tensors]
    )
    return formed
