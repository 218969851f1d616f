"""PURE. Which actions of a plan may be performed at the same time."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from scheduler.actions import (
    Action,
    AmendCession,
    CreateGuard,
    DeleteCession,
    DeleteGuard,
    JoinGuard,
    OpenCession,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    RequeueWorkload,
    ResizeJob,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.finish_actions import ReportFinish
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.server_actions import DrainPod, ScaleServer

STAGES: tuple[tuple[type[Action], ...], ...] = (
    (SetQueueingStrategy,),
    (
        RequestSize,
        ReportFinish,
        ResizeJob,
        RequestSave,
        AnswerSave,
        DrainPod,
        SetWorkloadActive,
        RequeueWorkload,
    ),
    # once its pods are marked
    (ScaleServer,),
    (UpdateCession, AmendCession),
    (RecordEvent, RecordWorkloadEvent),
    (DeleteCession,),
)
"""Kinds of actions that do not depend on each other. An action of any other kind is alone."""


def stages(actions: Iterable[Action]) -> Iterator[list[list[Action]]]:
    """The actions in order. A stage begins when the one before it has ended. It consists of chains
    that run at the same time; the actions of a chain concern the same object, and keep their order.
    """
    for _, stage in groupby(enumerate(actions), key=lambda numbered: _stage_of(*numbered)):
        chains: dict[object, list[Action]] = {}
        for _, action in stage:
            chains.setdefault(object_of(action), []).append(action)
        yield list(chains.values())


def _stage_of(number: int, action: Action) -> tuple[str, int]:
    for index, kinds in enumerate(STAGES):
        if isinstance(action, kinds):
            return "together", index
    return "alone", number


def object_of(action: Action) -> object:
    """The kind and the name of the object that the action concerns."""
    match action:
        case (
            RequestSize()
            | ReportFinish()
            | ResizeJob()
            | RequestSave()
            | AnswerSave()
            | RecordEvent()
        ):
            return "job", action.job
        case SetWorkloadActive() | RequeueWorkload() | RecordWorkloadEvent():
            return "workload", action.workload
        case DrainPod():
            return "pod", action.job
        case ScaleServer():
            return "server", action.server
        case UpdateCession() | AmendCession() | DeleteCession():
            return "cession", action.name
        case OpenCession():
            return "cession", action.cession.metadata.name
        case SetQueueingStrategy() | SetPrivateQuota():
            return "queue", action.queue
        case CreateGuard() | JoinGuard() | DeleteGuard():
            return "guard", action.cession
