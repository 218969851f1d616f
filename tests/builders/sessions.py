"""Sessions of a job of one, with a small model."""

from typing import Any

import torch

from elastic_runtime import Session
from elastic_runtime.distributed.group import Group
from elastic_runtime.training.step import Batch, Step


def small_model() -> torch.nn.Linear:
    return torch.nn.Linear(2, 1)


def small_session(**options: Any) -> Session:
    model = options.pop("model", small_model())
    optimizer = options.pop("optimizer", None) or torch.optim.SGD(model.parameters())
    return Session(model, optimizer, **{"samples": 10, "micro_batches": 2, **options})


def loss_of(session: Session, batch: Batch) -> torch.Tensor:
    loss: torch.Tensor = session.model(torch.ones(len(batch.indices), 2)).square().mean()
    return loss


def run_passes(session: Session, step: Step) -> None:
    """The body of a correct script."""
    for batch in step:
        step.backward(loss_of(session, batch))


def join(session: Session, group: Group) -> None:
    """The session, of a job of one so far, has the rank of the group."""
    lifecycle = session._parts.lifecycle
    lifecycle.group = group
    lifecycle.rank = group.rank
    lifecycle.world = group.world
