"""PURE. The messages between agents and pod 0, as JSON, through the signed control port.

    POST /v1/member            MemberReport → {}               at every change, and as a heartbeat
    GET  /v1/record?after=N    → CoordinatorReply              held open until revision N is old
    POST /v1/stacks            → StacksReply                   every pod logs its ranks' stacks

All pods run the same image, so messages carry no version.
"""

from dataclasses import dataclass, field

from elastic_runtime.messages import Progress, Record, StoreOpened

MEMBER_PATH = "/v1/member"
RECORD_PATH = "/v1/record"
STACKS_PATH = "/v1/stacks"


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Counters of one pod, and the time spent in steps. They only grow while its agent lives."""

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """What a replaced pod 0 cannot derive: every agent keeps a copy and reports it."""

    # The size last requested, by which Cession; None if no size was ever requested.
    wanted: int | None = None
    cession: str = ""
    # The newest checkpoint, as in `Progress`; step 0 if none is known.
    durable_step: int = 0
    digest: str = ""
    save_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The state of one pod, as its agent sees it."""

    index: int
    # Changes whenever the pod's processes are started again.
    incarnation: str
    # Where the other pods reach this one.
    address: str = ""
    # The generation that its ranks train in, 0 for none, and its members: only in the first report
    # on a connection, from which a replaced pod 0 learns whom to wait for.
    generation: int = 0
    members: tuple[int, ...] = ()
    step: int = 0
    # All ranks have built their model.
    ready: bool = False
    # The pod received SIGTERM.
    leaving: bool = False
    # All ranks have handed over their state.
    parked: bool = False
    finished: bool = False
    # The newest generation that failed here.
    broken: int = 0
    # The newest generation known here: a replaced pod 0 continues above it.
    newest_generation: int = 0
    # A rank has finished its part of the step in flight and waits for others.
    waits: bool = False
    # How long its ranks take for their own part of a step, in seconds; 0 if unknown.
    own_s: float = 0.0
    store: StoreOpened | None = None
    progress: Progress = field(default_factory=Progress)
    done: WorkDone = field(default_factory=WorkDone)
    kept: CoordinatorState = field(default_factory=CoordinatorState)


@dataclass(frozen=True, slots=True)
class CoordinatorReply:
    """The state of the job, as pod 0 decided it."""

    # Grows with every change.
    revision: int = 0
    # Names the coordinator: a replaced one counts from 0 again.
    coordinator: str = ""
    # None if it is the one that was sent before.
    record: Record | None = None
    # How many checkpoints were requested of this coordinator, and how often the stacks of all pods.
    saves_requested: int = 0
    stacks_requested: int = 0
    # The last step of the job is done.
    finished: bool = False
    # Pods in which a rank waits for others.
    waiting: tuple[int, ...] = ()
    # A pod in which nothing changes reports so often.
    heartbeat_s: float = 0.0
    # What to keep for the next coordinator.
    kept: CoordinatorState = field(default_factory=CoordinatorState)


@dataclass(frozen=True, slots=True)
class StacksReply:
    """Every pod will log the stacks of its ranks."""

    # `CoordinatorReply.stacks_requested`, this request included.
    stacks_requested: int = 0
