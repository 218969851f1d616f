"""PURE. What pods and the events of their Job tell about a job that does not run. Only the fields
that an explanation needs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cede.api.objects import Condition, Meta

# kubelet: pkg/kubelet/images/types.go
PULL_FAILS = "ErrImagePull"
PULL_WAITS = "ImagePullBackOff"
IMAGE_REASONS = (
    *(PULL_FAILS, PULL_WAITS, "InvalidImageName", "ErrImageNeverPull"),
    *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
)
# kubelet: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/container/sync_result.go
CREATE_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
CRASHES = "CrashLoopBackOff"
_FAILURES = frozenset((*IMAGE_REASONS, *CREATE_REASONS, CRASHES))


@dataclass(frozen=True, slots=True)
class ContainerWaiting:
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    exitCode: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    waiting: ContainerWaiting | None = None
    terminated: ContainerEnded | None = None


@dataclass(frozen=True, slots=True)
class ContainerStart:
    """Whether a container starts: all that is read of the containers of all pods."""

    state: ContainerState = field(default_factory=ContainerState)


def failure(states: Iterable[ContainerState]) -> str:
    """The kubelet's reason why the first of these containers that cannot start does not; empty if
    all can. Failed pulls and the waits between them have one reason, that of the waits."""
    for state in states:
        reason = state.waiting.reason if state.waiting else ""
        if reason in _FAILURES:
            return PULL_WAITS if reason == PULL_FAILS else reason
    return ""


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    name: str = ""
    image: str = ""
    ready: bool = False
    restartCount: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    lastState: ContainerState = field(default_factory=ContainerState)


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class SchedulingGate:
    name: str = ""


@dataclass(frozen=True, slots=True)
class ObservedSpec:
    nodeName: str = ""
    schedulingGates: tuple[SchedulingGate, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod of the job that is explained, with the states of its containers."""

    metadata: Meta = field(default_factory=Meta)
    spec: ObservedSpec = field(default_factory=ObservedSpec)
    status: ObservedStatus = field(default_factory=ObservedStatus)

    @property
    def containers(self) -> Iterable[ContainerStatus]:
        yield from self.status.initContainerStatuses
        yield from self.status.containerStatuses


@dataclass(frozen=True, slots=True)
class EventSeries:
    lastObservedTime: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the group events.k8s.io."""

    metadata: Meta = field(default_factory=Meta)
    reason: str = ""
    note: str = ""
    eventTime: str | None = ""
    deprecatedLastTimestamp: str | None = ""
    series: EventSeries | None = None

    @property
    def last_time(self) -> str:
        """When it last happened; empty if it does not say."""
        series = self.series.lastObservedTime if self.series else ""
        return series or self.deprecatedLastTimestamp or self.eventTime or ""
