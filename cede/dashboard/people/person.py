"""PURE. A person as the cluster knows them, and what they may see of it."""

from dataclasses import dataclass, replace

from cede.api import names, objects
from cede.api.objects import Json, Kind
from cede.dashboard.view import View

EVERYWHERE = ""
SHARED = (
    *(objects.POLICIES, objects.ALLOCATIONS, objects.CESSIONS, objects.CLUSTER_QUEUES),
    *(objects.COHORTS, objects.PRIORITY_CLASSES, objects.LEASES),
)
"""What all teams share."""
OF_JOBS = (objects.JOBS, objects.WORKLOADS, objects.LOCAL_QUEUES)
"""What is watched in each namespace."""
PROGRESS = objects.CONFIG_MAPS
"""The same, of the name `names.PROGRESS`. Who may not list it sees the jobs all the same."""


@dataclass(frozen=True)
class Person:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    # what the authenticator added, which an authorizer may look at
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Rights:
    # plurals of SHARED
    kinds: frozenset[str]
    # whose jobs they may see; EVERYWHERE alone: those of all
    namespaces: frozenset[str]
    # those of them in which they may see how far jobs are; EVERYWHERE alone: all
    progress: frozenset[str] = frozenset()


def person_of(review: Json) -> Person | None:
    """The one whose token was reviewed; None: it is nobody's."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    if not status.get("authenticated") or not user.get("username"):
        return None
    extra = user.get("extra") or {}
    return Person(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple(sorted((key, tuple(values)) for key, values in extra.items())),
    )


def may_list(person: Person, kind: Kind, namespace: str, name: str = "") -> Json:
    """The question whether they may: a SubjectAccessReview. With a name, about that object only."""
    attributes = {
        "verb": "list",
        "group": kind.group,
        "resource": kind.plural,
        "namespace": namespace,
        **({"name": name} if name else {}),
    }
    spec: Json = {
        "user": person.name,
        "groups": list(person.groups),
        "resourceAttributes": attributes,
    }
    if person.uid:
        spec["uid"] = person.uid
    if person.extra:
        spec["extra"] = {key: list(values) for key, values in person.extra}
    return {"metadata": {}, "spec": spec}


def place_of(kind: Kind) -> str:
    """The namespace of a shared kind."""
    return names.SYSTEM_NAMESPACE if kind.namespaced else ""


def visible(view: View, rights: Rights) -> View:
    """The view without what they may not list."""
    hidden = {kind.plural for kind in SHARED} - rights.kinds
    # the names of teams are those of their allocations
    is_told = objects.ALLOCATIONS.plural in rights.kinds
    everywhere = EVERYWHERE in rights.namespaces
    hidden_namespaces = frozenset[str]()
    if is_told and not everywhere:
        hidden_namespaces = view.team_namespaces - rights.namespaces
    shown = replace(
        view,
        incomplete=view.incomplete | hidden,
        unreadable=[
            unread
            for unread in view.unreadable
            if unread.kind not in hidden and _is_visible(unread.namespace, unread.kind, rights)
        ],
        hidden_kinds=view.hidden_kinds | hidden,
        hidden_namespaces=view.hidden_namespaces | hidden_namespaces,
        progress={
            namespace: progress
            for namespace, progress in view.progress.items()
            if {EVERYWHERE, namespace} & rights.progress
        },
        **_without(view, hidden),
    )
    if everywhere:
        return shown
    allowed = rights.namespaces
    return replace(
        shown,
        jobs=[job for job in view.jobs if job.metadata.namespace in allowed],
        workloads=[item for item in view.workloads if item.metadata.namespace in allowed],
        local_queues=[item for item in view.local_queues if item.metadata.namespace in allowed],
    )


def _is_visible(namespace: str, kind: str, rights: Rights) -> bool:
    if kind == PROGRESS.plural:
        return bool({EVERYWHERE, namespace} & rights.progress)
    of_jobs = kind in {entry.plural for entry in OF_JOBS}
    return not of_jobs or bool({EVERYWHERE, namespace} & rights.namespaces)


def _without(view: View, hidden: set[str]) -> Json:
    """The fields of the view that are empty without these kinds."""
    fields: dict[str, tuple[str, object]] = {
        objects.POLICIES.plural: ("policy", None),
        objects.ALLOCATIONS.plural: ("allocations", ()),
        objects.CESSIONS.plural: ("cessions", ()),
        objects.CLUSTER_QUEUES.plural: ("queues", ()),
        objects.COHORTS.plural: ("cohorts", ()),
        objects.PRIORITY_CLASSES.plural: ("priority_classes", None),
        objects.LEASES.plural: ("leases", {}),
    }
    result = dict(fields[plural] for plural in hidden)
    if objects.POLICIES.plural in hidden:
        result["sees_policy"] = False
    return result
