"""The training state of one rank: everything that the next step depends on."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from elastic_runtime.checkpointing.saver import Saver
from elastic_runtime.distributed import state_transfer
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.json_logging import CONTINUES
from elastic_runtime.mistake import Mistake
from elastic_runtime.state import state_tree
from elastic_runtime.state.destination import Destination, Saved
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.training import loss_weights, worker_device
from elastic_runtime.training.failure_report import one_line
from elastic_runtime.training.loss_scaling import LossScaling
from elastic_runtime.training.options import DataOptions
from elastic_runtime.training.stateful import LRScheduler, Stateful

log = logging.getLogger(__name__)
# The key on disk, which is part of the checkpoint format.
STATEFUL_KEY = "also"
# The end of a loop that only `stop` ends. It fits into 64 bits.
FOREVER = 1 << 62


def _digest_of_layout(model: torch.nn.Module) -> int:
    """Only states of models with the same digest fit into each other."""
    layout = [
        (name, tuple(tensor.shape), str(tensor.dtype))
        for name, tensor in state_tree.named_tensors(model.state_dict())
    ]
    return int.from_bytes(hashlib.sha256(repr(layout).encode()).digest()[:8], "big") >> 1


def _device_of(model: torch.nn.Module) -> torch.device:
    """Where it trains: a model on the meta device on this worker's own."""
    if any(p.is_meta for p in model.parameters()):
        return worker_device.device()
    return next((p.device for p in model.parameters() if p.is_cuda), torch.device("cpu"))


class TrainingState:
    """Saved, loaded, sent to other ranks and received from them.

    `step`: committed steps. `loss`, `gradient_norm`: of the last step, over all its micro-batches;
    the norm is None if the gradient was not clipped.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: Optimizers,
        lr_schedulers: Sequence[LRScheduler],
        stateful: Sequence[Stateful],
        data: DataOptions,
        saver: Saver,
        loss_scaling: LossScaling,
    ) -> None:
        self.model = model
        self.optimizers = optimizers
        self.lr_schedulers = list(lr_schedulers)
        self.stateful = [*lr_schedulers, *stateful]
        self.data = data
        self.loss_scaling = loss_scaling
        # Also where the loss is summed.
        self.device = _device_of(model)
        # Of names, shapes and types of the model's state; 63 bits.
        self.layout = _digest_of_layout(model)
        # See `data.samples_digest`.
        self.samples_digest = 0
        self.step = 0
        self.loss: float | None = None
        self.gradient_norm: float | None = None
        # The last `until` of the loop that the script stopped early; 0 if none was stopped. A
        # script that is started again with a larger one trains on.
        self.stopped_loop = 0
        # This rank can continue from what it holds, and can send it to others.
        self.is_complete = False
        # The peer that sent a state was lost in between: the tensors here are of two states.
        self._is_torn = False
        self._saved = saver.saved

    @property
    def seed(self) -> int:
        """See `StateAccess.seed`."""
        return self.data.seed

    @property
    def sum_count(self) -> int:
        """See `StateAccess.sum_count`."""
        return loss_weights.length(self.data.micro_batches)

    @property
    def scales_loss(self) -> bool:
        """See `StateAccess.scales_loss`."""
        return self.loss_scaling.is_enabled

    def is_last_step(self, until: int) -> bool:
        """Whether a loop up to step `until` has no further step."""
        if self.stopped_loop == FOREVER:
            # A loop without an end that was stopped ends no loop that has one.
            return self.step >= until or until == FOREVER
        return self.step >= until or until <= self.stopped_loop

    def mark_complete(self) -> None:
        self.is_complete = True
        self._is_torn = False

    def state_dict(self) -> dict[str, Any]:
        """The tensors are the live ones, not copies."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizers.state_dict(),
            **self.extra_state(),
        }

    def digest(self) -> bytes:
        """See `StateAccess.digest`."""
        # An earlier transfer that failed may still write to the live tensors.
        return b"" if self._is_torn else state_tree.digest(self.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizers.load_state_dict(state["optimizer"])
        self.set_extra_state(state)
        self._is_torn = False

    def extra_state(self) -> dict[str, Any]:
        """What is neither the model's nor an optimizer's."""
        return {
            "step": self.step,
            "loss": self.loss,
            "gradient_norm": self.gradient_norm,
            "stopped_loop": self.stopped_loop,
            "data": asdict(self.data),
            "samples_digest": self.samples_digest,
            "grad_scaler": self.loss_scaling.state_dict(),
            STATEFUL_KEY: [item.state_dict() for item in self.stateful],
        }

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError if the state has another number of stateful objects."""
        self._check(state)
        for item, item_state in zip(self.stateful, state[STATEFUL_KEY], strict=True):
            item.load_state_dict(item_state)
        self.step = int(state["step"])
        self.loss = state["loss"]
        self.gradient_norm = state["gradient_norm"]
        # Older checkpoints do not have them.
        self.stopped_loop = int(state.get("stopped_loop", 0))
        self.loss_scaling.load_state_dict(state.get("grad_scaler", {}))

    def _check(self, state: Mapping[str, Any]) -> None:
        if len(state[STATEFUL_KEY]) != len(self.stateful):
            raise ValueError(
                f"the saved state has {len(state[STATEFUL_KEY])} lr_schedulers, streams and other "
                f"stateful objects, the session has {len(self.stateful)}: pass as many, in the "
                "order of the script that saved them"
            )
        changes = [
            f"{name} was {state['data'].get(name)} and is {value}"
            for name, value in asdict(self.data).items()
            if state["data"].get(name) != value
        ]
        # 0: not known.
        saved_digest = state.get("samples_digest", 0)
        if self.samples_digest and saved_digest not in (0, self.samples_digest):
            changes.append("the dataset had other samples, as without a seed of train_test_split")
        if changes:
            # It may be intended.
            log.warning(
                "%s: samples are counted by steps, so some samples may be repeated or skipped",
                ", ".join(changes),
            )

    def find_saved(self, group: Group | None) -> Saved:
        """Called by every rank, before `load_newest` or `load_rows`: where the newest checkpoint
        is."""
        return self._saved.find(group)

    def load_newest(self, group: Group | None) -> bool:
        """Called by every rank: the leading one loads the newest checkpoint.

        True on every rank if there was one. Raises on every rank if there are checkpoints and none
        can be loaded: Mistake if the newest is of another model, else LookupError. Raises PeerLost
        if a rank is lost; afterwards this rank has no state at all.
        """

        def load() -> bool:
            loaded = self._saved.load(group, self.state_dict)
            if loaded:
                self.load_state_dict(loaded)
            elif self._is_torn and (group is None or group.rank == 0):
                raise LookupError(
                    "the state was lost while it was sent, and there is no checkpoint: set "
                    "save_every"
                )
            return bool(loaded)

        self.is_complete = False
        return self._load(group, load)

    def load_rows(self, group: Group, destination: Callable[[], Destination]) -> None:
        """Called by every rank, whose model is sharded: each loads its own rows of the newest
        shared checkpoint.

        Raises as `load_newest` does, and PeerLost if a rank is lost; afterwards this rank has no
        state at all.
        """

        def load() -> bool:
            loaded = self._saved.load_rows(group, destination())
            if not loaded:
                raise LookupError("the checkpoints were removed while the job started")
            self.load_state_dict(loaded)
            return True

        self.is_complete = False
        self._load(group, load)

    def _load(self, group: Group | None, load: Callable[[], bool]) -> bool:
        """What `load` returns on the leading rank. Raises on every rank if it fails on one."""
        failure = ""
        is_mistake = False
        is_loaded = False
        try:
            is_loaded = load()
        except PeerLost:
            raise
        except (LookupError, OSError, torch.OutOfMemoryError) as error:
            # Memory may be freed yet, by a process that is ending.
            failure = str(error)
        except (ValueError, RuntimeError) as error:
            is_mistake = True
            failure = (
                f"the newest checkpoint is not of this script: {one_line(error)}; build the "
                "model that wrote it, or use another checkpoint directory"
            )
        outcomes = all_gather_object(group, [failure, is_mistake, is_loaded])
        for failure, is_mistake, _ in outcomes:
            if failure:
                raise Mistake(failure) if is_mistake else LookupError(failure)
        was_loaded = bool(outcomes[0][2])
        if was_loaded and (group is None or group.rank == 0):
            facts = {"step": self.step, "path": self._saved.place}
            log.info(CONTINUES, extra=facts)
        return was_loaded

    def receive(self, group: Group, source: int) -> None:
        """Replace this state by the one that rank `source` sends.

        Raises PeerLost if that rank is lost; afterwards this rank has no state at all.
        """
        # An earlier transfer that failed may still write to the live tensors.
        live = None if self._is_torn else self.state_dict()
        self.is_complete = False
        self._is_torn = True
        self.load_state_dict(state_transfer.receive(group, source, live))
