"""PURE. The messages between agents, as JSON, through the signed control port.

The coordinator answers:

    POST /v1/member            MemberReport → {}               at every change, and as a heartbeat
    GET  /v1/record?after=N    → CoordinatorReply              held open until revision N is old
    POST /v1/stacks            → StacksReply                   every pod logs its ranks' stacks

Every agent answers:

    POST /v1/standing          Standing → Standing             whom each of the two follows
    POST /v1/vote              Candidacy → Ballot              may this pod coordinate?

All pods run the same image, so messages carry no version.
"""

import re
from dataclasses import dataclass, field

from elastic_runtime.messages import Progress, Record, StoreOpened

MEMBER_PATH = "/v1/member"
RECORD_PATH = "/v1/record"
STACKS_PATH = "/v1/stacks"
STANDING_PATH = "/v1/standing"
VOTE_PATH = "/v1/vote"
ADDRESS = re.compile(r"(.+):([0-9]{1,5})")
MAX_PORT = 65535


def life_of(incarnation: str) -> str:
    """The life of the agent that started these processes."""
    return incarnation.partition(".")[0]


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Counters of one pod, and the time spent in steps. They only grow while its agent lives."""

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """What a new coordinator cannot derive: every agent keeps a copy and reports it."""

    # The size last requested, by which Cession; None if no size was ever requested.
    wanted: int | None = None
    cession: str = ""
    # When its sender signed that request, in Unix seconds: an older one is not obeyed any more.
    ordered_at: float = 0.0
    # The newest checkpoint, as in `Progress`; step 0 if none is known.
    durable_step: int = 0
    digest: str = ""
    save_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The state of one pod, as its agent sees it."""

    index: int
    # Changes whenever the pod's processes are started again: the agent's life, and a number.
    incarnation: str
    # Where the other pods reach this one, and its agent's control port.
    address: str = ""
    port: int = 0
    # The highest epoch that this pod follows or voted for.
    epoch: int = 0
    # The generation that its ranks train in, 0 for none, and its members: only in the first report
    # on a connection, from which a new coordinator learns whom to wait for.
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
    # The scripts of all its ranks have ended in this generation, which does not end the job yet.
    ended: bool = False
    # The newest generation that failed here.
    broken: int = 0
    # The newest generation known here: a new coordinator continues above it.
    newest_generation: int = 0
    # Epoch and number of the generation in which its ranks trained last, and of the newest record
    # that its agent knows.
    trained_epoch: int = 0
    trained_generation: int = 0
    record_epoch: int = 0
    record_generation: int = 0
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
    """The state of the job, as its coordinator decided it."""

    # Grows with every change.
    revision: int = 0
    # Names the coordinator: a new one counts from 0 again.
    coordinator: str = ""
    epoch: int = 0
    # None if it is the one that was sent before.
    record: Record | None = None
    # With a record: host:port of its members' agents, each empty if unknown.
    addresses: tuple[str, ...] = ()
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


# --- who coordinates ------------------------------------------------------------------------------


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of an address, which may be of IPv6. Raises ValueError for anything else."""
    match = ADDRESS.fullmatch(address)
    if match is None or int(match[2]) > MAX_PORT:
        raise ValueError(f"the address is {address[:40]!r}: it must be host:port")
    return match[1], int(match[2])


@dataclass(frozen=True, slots=True)
class Leader:
    """The pod that coordinates in an epoch. Raises ValueError for an address that is none."""

    index: int
    # Of its agent.
    life: str
    # host:port of its agent.
    address: str
    epoch: int
    # Nobody voted for it, and all of its members are terminating.
    is_last_save: bool = False

    def __post_init__(self) -> None:
        host_and_port(self.address)


@dataclass(frozen=True, slots=True)
class Standing:
    """What one pod knows of the job's leadership."""

    index: int
    life: str
    # The highest epoch that this pod follows or voted for.
    epoch: int = 0
    # Whom it follows; None if that one has not answered lately.
    leader: Leader | None = None
    # Order and size of its newest record, and whether this pod, in this life, is a member of it.
    record_epoch: int = 0
    generation: int = 0
    members: int = 0
    is_member: bool = False
    # The same of the members before, while they may still elect.
    electors: int = 0
    is_elector: bool = False
    # This pod received SIGTERM.
    leaving: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return self.record_epoch, self.generation


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A pod asks for a vote."""

    candidate: Leader
    # Order of its record.
    record_epoch: int
    generation: int
    # False: only whether the vote would be granted.
    is_binding: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return self.record_epoch, self.generation


@dataclass(frozen=True, slots=True)
class Ballot:
    is_granted: bool
    # Why not; empty if it is granted.
    reason: str
    # Of the voter.
    standing: Standing
