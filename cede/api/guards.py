"""PURE. The objects of a guard, by their names, and for how long it may last."""

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, Key, Kind

LIMIT_S = 120
"""Kueue ends a guard after this time: it keeps other teams out of capacity, even out of their own.
Stopped jobs return theirs within seconds."""


def queue_name(cession: str) -> str:
    """The name of the ClusterQueue of a Cession's guard. Its other objects have the name of the
    Cession."""
    return f"{names.GUARD_NAMESPACE}-{cession}"


def objects(cession: str) -> tuple[tuple[Kind, Key], ...]:
    """In the order in which they are deleted. The ClusterQueue shows that there is a guard, so it
    is the last: whoever finds it deletes the rest again."""
    key = (names.GUARD_NAMESPACE, cession)
    return ((JOBS, key), (LOCAL_QUEUES, key), (CLUSTER_QUEUES, ("", queue_name(cession))))
