"""PURE. What the simulated cluster consists of: teams, jobs and their Workloads."""

from dataclasses import dataclass, field
from zlib import crc32

from scheduler.quota.cohort import BEST_EFFORT_FIFO


@dataclass(frozen=True, slots=True)
class TeamQuota:
    """What one team owns, in accelerators."""

    name: str
    nominal: int
    weight: float = 1.0
    # None: no limit
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as its user submits it. Each pod has one accelerator."""

    name: str
    team: str
    # seconds since the start of the trace
    submit: float
    accelerators: int
    # seconds that it runs with all its accelerators
    duration: float
    priority: int = 50
    # ascending; empty if the job is not elastic
    sizes: tuple[int, ...] = ()

    @property
    def work(self) -> float:
        """Accelerator-seconds."""
        return self.duration * self.accelerators


@dataclass(slots=True, eq=False)
class Workload:
    """What Kueue queues and admits: one per job, and one more for each scale-up."""

    name: str
    job: "Job"
    count: int
    created: float
    active: bool = True
    # the Cession for which it is inactive
    stopped_for: str = ""
    # the Workload of the same job that this scale-up replaces
    replaces: "Workload | None" = None
    # None: it has no quota
    reserved_since: float | None = None
    # it is still admitted, but its pods are being deleted
    is_evicting: bool = False
    # it is inactive, and Kueue counts its quota no more
    is_freed: bool = False
    # what the scheduler has requeued it for, and whether it was tried since
    requeued_at: str = ""
    is_tried: bool = False
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        # as in a cluster, the first eight characters differ: they name Cessions
        self.uid = f"{crc32(self.name.encode()):08x}-{self.name}"

    @property
    def added(self) -> int:
        """The accelerators that it needs beyond those that its job has."""
        return self.count - (self.replaces.count if self.replaces else 0)


@dataclass(slots=True, eq=False)
class Job:
    """A job, its pods and its runtime. All times are Unix seconds of the virtual clock."""

    spec: JobSpec
    parallelism: int
    workload: Workload = field(init=False)
    # the pending scale-up
    scale_up: Workload | None = None
    # pods that are ready, and pods that train
    ready: int = 0
    training: int = 0
    # accelerator-seconds done up to `settled`, and how many of them a stop does not lose
    done: float = 0.0
    settled: float = 0.0
    saved: float = 0.0
    saved_at: float = 0.0
    # what its runtime was last asked for
    wanted: int = 0
    cession: str = ""
    is_changing: bool = False
    # its state is saved, and no pod trains until it is asked again
    is_parked: bool = False
    # False: the runtime does not answer
    answers: bool = True
    started: float = 0.0
    shrunk_at: float = 0.0
    version: int = 1
    submitted: float = 0.0
    first_admitted: float | None = None
    ended: float | None = None
    # since when its team's own quota would cover it although it does not fit
    owed_since: float | None = None
    stops: list[float] = field(default_factory=list)
    shrinks: int = 0
    # accelerator-seconds of work that stops threw away, and those with the time to start again
    discarded: float = 0.0
    lost: float = 0.0
    # events that were planned for other pods, another rate, another request are void
    pods_epoch: int = 0
    rate_epoch: int = 0
    request_epoch: int = 0

    @property
    def uid(self) -> str:
        return f"job-{self.spec.name}"

    @property
    def is_elastic(self) -> bool:
        return bool(self.spec.sizes)


@dataclass(slots=True, eq=False)
class Guard:
    """It keeps released capacity for a preemptor."""

    accelerators: int
    in_cohort: bool = False
    # False when Kueue has ended it
    is_admitted: bool = True


@dataclass(slots=True, eq=False)
class Queue:
    """A ClusterQueue of the model: its quota, and its pending Workloads."""

    quota: TeamQuota
    usage: int = 0
    strategy: str = BEST_EFFORT_FIFO
    version: int = 1
    # when Kueue will have read the last change
    observed_at: float = 0.0
    # the note on its private quota
    private: str = ""
    # Kueue does not take heads from a queue that is on hold
    on_hold: bool = False
    # by name: Workloads that are tried, one in each cycle
    heap: dict[str, Workload] = field(default_factory=dict)
    # Workloads that did not fit; the next batch puts them back
    parked: dict[str, Workload] = field(default_factory=dict)
    # (count, priority) of Workloads that did not fit since the last batch
    hopeless: set[tuple[int, int]] = field(default_factory=set)
    # the Workload whose preemptions are under way: it stays first
    preemptor: str = ""

    @property
    def name(self) -> str:
        return self.quota.name

    @property
    def local(self) -> int:
        """The part of the nominal quota that is never lent."""
        limit = self.quota.lending_limit
        return 0 if limit is None else max(0, self.quota.nominal - limit)
