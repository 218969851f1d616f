"""PURE. What `cede doctor` has read of an installation, and what a check of it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import Lease, MetadataOnly
from cede.api.objects import Json
from cede.api.policy import ClusterPolicy
from cede.api.support import Kubernetes
from cede.causes.snapshot import Deployment
from cede.kueue_settings.config import KueueInstallation

COMPONENTS = (names.WEBHOOK, names.QUOTA_CONTROLLER, names.SCHEDULER)
ADDITIONS = (names.LEDGER, names.DASHBOARD)
"""Not in every cluster: checked where they are."""
CRDS = ("ClusterPolicy", "ComputeAllocation", "Cession")
INSTALL = "kubectl apply --server-side -k deploy/overlays/production"


class Unread(StrEnum):
    """Why something was not read."""

    MISSING = "missing"
    FORBIDDEN = "forbidden"
    # it is there, in a form that this version does not know
    UNREADABLE = "unreadable"


class State(StrEnum):
    OK = "ok"
    WRONG = "WRONG"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    subject: str
    state: State
    # what it is, and the cure if it is wrong
    message: str


@dataclass(frozen=True)
class Placed:
    """Something of Cede, and the namespace in which it is or to which it leads."""

    subject: str
    namespace: str


@dataclass(frozen=True)
class Installation:
    """What was read of a cluster, with Cede or before it is installed."""

    # None if it may not be read
    kubernetes: Kubernetes | None
    # the image of its controller
    kueue: str | Unread
    # the kinds of Cede and of Kueue that the API server does not have
    missing_kinds: tuple[str, ...] = ()
    # those of which the user may not read whether it has them
    unread_kinds: tuple[str, ...] = ()
    # the kinds of Cede of which the API server drops fields, and which
    dropped_fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kueue_settings: KueueInstallation = field(default_factory=KueueInstallation)
    # that of guards; empty if there is none yet
    guard_namespace: Json = field(default_factory=dict)
    policy: ClusterPolicy | Unread = Unread.MISSING
    deployments: Mapping[str, Deployment | Unread] = field(default_factory=dict)
    leases: Mapping[str, Lease | None] = field(default_factory=dict)
    # those with the label of a team
    team_namespaces: Sequence[MetadataOnly] | Unread = ()
    # the components, whom their rights are bound to, and where reviews are sent
    placed: Sequence[Placed] | Unread = ()
    # when the certificate authority of the webhook ends (Unix seconds); 0.0: it is not published
    webhook_ca_end: float | Unread = Unread.MISSING
    # ClusterQueues with the label of a guard, and Workloads that are stopped for a Cession
    guards: Sequence[MetadataOnly] = ()
    stopped: Sequence[MetadataOnly] = ()
    cessions: Sequence[Cession] = ()
    # a sentence for each object that this version cannot read
    unreadable: Sequence[str] = ()
