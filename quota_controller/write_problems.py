"""Why a write of one owner failed, with the cure; other writes go on."""

from cede.api.objects import CLUSTER_QUEUES, PRIORITY_CLASSES, RESOURCE_FLAVORS
from cede.api.reasons import WriteReason
from cede.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from quota_controller.desired.conflicts import Problem
from quota_controller.desired.desired_object import DesiredObject

_CURES = {
    CLUSTER_QUEUES: "delete it, or give the allocation another name",
    RESOURCE_FLAVORS: "delete it, or give the instance type another name",
    PRIORITY_CLASSES: "delete it, or give the priority class another name",
}


def object_exists(desired: DesiredObject) -> Problem:
    """An object of the name exists that is not Cede's."""
    cure = _CURES.get(desired.kind, "delete it")
    if desired.key[0]:
        cure = "delete it, or give the team another namespace"
    message = f"{desired.display_name} exists and was not created by Cede, so it is not changed"
    return Problem(WriteReason.OBJECT_EXISTS, f"{message}: {cure}")


def write_problem(what: str, error: ApiError) -> Problem:
    """The problem of one write. Raises the error if every other write would fail like this one.

    Those that deny a request choose its status, such as 503.
    """
    if isinstance(error, Invalid | Forbidden) or error.is_denied:
        return Problem(WriteReason.WRITE_REFUSED, f"{what} was refused: {error.message}")
    if isinstance(error, NotFound | Conflict):
        return Problem(WriteReason.WRITE_FAILED, f"{what} has changed meanwhile: it is tried again")
    if isinstance(error, Unreachable | Unauthorized | TooManyRequests) or error.status == 503:
        raise error
    message = f"{what} could not be written and is tried again: {error.message}"
    return Problem(WriteReason.WRITE_FAILED, message)
