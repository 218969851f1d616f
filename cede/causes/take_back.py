"""PURE. Why no capacity is taken back for a job for which others could give."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cede.api import durations, names
from cede.api.cession import Cession
from cede.api.cession_pause import pause_s
from cede.api.kueue import Workload
from cede.api.objects import POLICIES, condition, unix, unix_or_zero
from cede.api.reasons import CessionPhase, LeaderReason
from cede.api.wait_reasons import WaitReason
from cede.causes.admission_time import NOT_FIRST, is_first
from cede.causes.facts import Cause, estimate
from cede.causes.index import Index, order_time
from cede.causes.snapshot import leads
from cede.causes.workload_state import true_condition

MIN_RUNTIME = "minRuntimeSeconds and graceSeconds of the policy"


@dataclass(frozen=True)
class Starts:
    """When the first and the last of some jobs were admitted (Unix seconds)."""

    first: float
    last: float
    # whether they are of the team that needs it
    of_own_team: bool = False


def why_no_take_back(workload: Workload, starts: Starts | None, index: Index) -> Iterator[Cause]:
    """The cause that the objects prove; none while a Cession is open. `starts` are those of all
    jobs that could give; None if there is none, or if they could not all be read."""
    has_no_policy = index.snapshot.knows(POLICIES) and index.snapshot.policy is None
    if has_no_policy or index.open_cession(workload):
        return
    cause = who_preempts(index)
    if cause:
        yield cause
        return
    paused = _pause(index.cessions_by_preemptor.get(workload.metadata.uid, ()), index.now)
    if paused:
        yield paused
        return
    spared = _min_runtime(workload, starts, index)
    if spared:
        yield spared


def who_preempts(index: Index) -> Cause | None:
    policy = index.snapshot.policy
    if policy and policy.spec.mode == "Observe":
        return Cause(
            WaitReason.POLICY_OBSERVES,
            "The policy's mode is Observe: Cede does not preempt, and Kueue preempts by its own "
            "rules.",
            "an admin sets spec.mode of the ClusterPolicy to Enforce",
        )
    leader = condition(policy.status.conditions, "SchedulerLeads") if policy else None
    kueue_preempts = policy is not None and policy.status.preemption == "Kueue"
    if kueue_preempts and leader and leader.get("reason") == LeaderReason.RETURNING:
        message = str(leader.get("message", "")).rstrip(".")
        return Cause(
            WaitReason.KUEUE_PREEMPTS,
            f"Kueue preempts by its own rules for a while: {message}.",
        )
    if leads(index.snapshot, index.now) is False:
        return Cause(
            WaitReason.NO_SCHEDULER,
            "No scheduler of Cede leads, so no capacity is taken back.",
            f"an admin checks Deployment {names.SCHEDULER} in namespace {names.SYSTEM_NAMESPACE}",
        )
    if kueue_preempts:
        return Cause(
            WaitReason.KUEUE_PREEMPTS,
            "Cede takes nothing for now, and Kueue preempts by its own rules.",
            "condition SchedulerLeads of the ClusterPolicy has the reason",
        )
    return None


def _pause(cessions: Iterable[Cession], now: float) -> Cause | None:
    """The pause after Cessions that failed, the oldest first."""
    failures = 0
    last: Cession | None = None
    for cession in cessions:
        if cession.status.phase is CessionPhase.COMPLETED:
            failures = 0
        elif cession.has_failed:
            failures += 1
            last = cession
    if not failures or last is None:
        return None
    end = unix_or_zero(last.status.completionTime) + pause_s(failures)
    if end <= now:
        return None
    message = last.status.message.rstrip(".")
    return Cause(
        WaitReason.CESSION_PAUSE,
        f"Cession {last.metadata.name} failed: {message or 'it has no message'}. The scheduler "
        f"plans again in {durations.describe(end - now)}.",
        "",
        estimate=estimate("the pause after a Cession that failed", earliest=end),
    )


def _min_runtime(workload: Workload, starts: Starts | None, index: Index) -> Cause | None:
    policy = index.snapshot.policy
    if policy is None or starts is None:
        return None
    min_runtime_s = policy.spec.preemption.minRuntimeSeconds
    earliest = _old_enough(workload, starts.first, starts, min_runtime_s)
    if earliest <= index.now:
        return None
    # then they have their grace
    latest = _old_enough(workload, starts.last, starts, min_runtime_s)
    latest += policy.spec.preemption.graceSeconds
    is_next = is_first(workload, index)
    or_it_waited = "" if starts.of_own_team else ", or until this one has waited for as long"
    return Cause(
        WaitReason.MIN_RUNTIME,
        f"All jobs that could give have run for less than {min_runtime_s} s, and are spared until "
        f"then{or_it_waited}.",
        estimate=estimate(MIN_RUNTIME, earliest=earliest, latest=latest) if is_next else None,
        no_estimate="" if is_next else NOT_FIRST,
    )


def _old_enough(workload: Workload, start: float, starts: Starts, min_runtime_s: float) -> float:
    if starts.of_own_team:
        return start + min_runtime_s
    # an owner that has waited for as long takes it from jobs of other teams too
    return min(start, order_time(workload)) + min_runtime_s


def spared_until(workload: Workload, starts: Starts | None, index: Index) -> float:
    """When all of these jobs may give (Unix seconds). `starts` is None if they could not be
    read; then they are of other teams."""
    policy = index.snapshot.policy
    min_runtime_s = policy.spec.preemption.minRuntimeSeconds if policy else 0
    if starts is None:
        return order_time(workload) + min_runtime_s
    return _old_enough(workload, starts.last, starts, min_runtime_s)


def starts_of(teams: Iterable[str], index: Index, *, below: int | None = None) -> Starts | None:
    """Of the jobs of these teams; of the own team those `below` this priority. None without such a
    job."""
    all_parts = (_starts(team, below, index) for team in teams)
    parts = list(filter(None, all_parts))
    if not parts:
        return None
    first, last = min(part.first for part in parts), max(part.last for part in parts)
    return Starts(first, last, of_own_team=below is not None)


def _starts(team: str, below: int | None, index: Index) -> Starts | None:
    def compute() -> Starts | None:
        times = [
            _admitted_at(job)
            for job in index.admitted.get(team, ())
            if below is None or job.spec.priority < below
        ]
        return Starts(min(times), max(times)) if times else None

    return index.once(("starts", team, below), compute)


def _admitted_at(workload: Workload) -> float:
    """0.0 if Kueue has not admitted it: then it is not spared."""
    admitted = true_condition(workload.status.conditions, names.ADMITTED)
    return unix(admitted.lastTransitionTime) if admitted else 0.0
