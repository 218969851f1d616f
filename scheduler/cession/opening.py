"""PURE. Which pending Workload opens a Cession, and which Cession gets more targets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from cede.api.cession import Cession
from cede.api.cession_status import MAX_TARGETS
from cede.api.policy import PolicySpec
from cede.api.resources import Quota
from scheduler.actions import AmendCession, OpenCession
from scheduler.cession.attempts import next_attempt, pause_left_s
from scheduler.cession.cession_lifecycle import ADMISSION_TIMEOUT_S
from scheduler.cession.new_cession import amended, new_cession
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.cession.promises import after_cessions, target_uids
from scheduler.cession.stage_times import led_s
from scheduler.faults import PREEMPTORS, Faults
from scheduler.preemption.admissions import after_admissions
from scheduler.preemption.alternatives import Alternative, find_alternatives
from scheduler.preemption.job_history import JobHistory, read_history
from scheduler.preemption.preemption_plan import PreemptionPlan, Target, subject
from scheduler.preemption.preemptors import ClaimKind, Preemptor, preemptors
from scheduler.preemption.targets import TargetChooser
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload, PendingWorkloads

MAX_ROUNDS = 3
"""How often targets are chosen for one Cession."""
AMEND_TIMEOUT_S = 2 * ADMISSION_TIMEOUT_S
"""A preemptor that has been short for so long gets no more targets. The first half passes before
any are added; in the second half adding them has failed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one preemptor."""

    preemptor: Preemptor
    why: str
    # None if nobody has to release capacity, or nobody can
    opened: OpenCession | None = None
    # True if an exception was raised
    is_broken: bool = False
    # nobody releases capacity, because that would be more jobs than one Cession holds
    is_oversized: bool = False


def decide(
    snapshot: Snapshot,
    claims: "Claims",
    now: float,
    faults: Faults,
    postponed: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Decision]:
    """A decision for every preemptor, up to the first that opens a Cession: what that releases is
    promised, so the next preemptor is examined in the next pass. So is one whose uid is in
    `postponed`, with the reason."""
    for preemptor in faults.attempt_all(PREEMPTORS, claims.preemptors):
        if reason := postponed.get(preemptor.workload.uid):
            yield Decision(preemptor, f"{subject(preemptor)} stays pending: {reason}")
            continue
        workload = f"Workload {'/'.join(preemptor.workload.key)}"
        broken = Decision(preemptor, f"{workload} cannot be planned for", is_broken=True)
        decision = faults.attempt(workload, broken, _decide, preemptor, snapshot, claims, now)
        yield decision
        if decision.opened:
            return


class Claims:
    """Who may claim from whom, once all open Cessions are completed. Each part is computed when it
    is first asked for."""

    def __init__(
        self, snapshot: Snapshot, open_cessions: Sequence[Cession], policy: PolicySpec, now: float
    ) -> None:
        self._snapshot = snapshot
        self._open_cessions = open_cessions
        self._policy = policy
        self._fair_shares = policy.idleCompute == "FairShare"
        self._now = now

    def preemptors(self) -> Iterator[Preemptor]:
        """Of queues that have no open Cession."""
        queues = {cession.spec.preemptor.queue for cession in self._open_cessions}
        return preemptors(self._after, queues, self._history, fair_shares=self._fair_shares)

    def claims_of(self, workload: PendingWorkload) -> Iterator[Preemptor]:
        """Its claims as if it were the first of its queue."""
        only = replace(self._after, pending=PendingWorkloads([workload]))
        return preemptors(only, (), self._history, fair_shares=self._fair_shares)

    def choose(self, preemptor: Preemptor) -> PreemptionPlan:
        if preemptor.kind is ClaimKind.OWN_QUOTA:
            return self._chooser.choose(preemptor)
        return self._choose_beyond_own(preemptor)

    def _choose_beyond_own(self, preemptor: Preemptor) -> PreemptionPlan:
        """Kueue keeps no idle capacity for this preemptor: what others are about to get is missing
        to it as well. A team that does not borrow yet owes nothing: Kueue may never admit what it
        seems about to."""
        own = preemptor.workload.queue
        missing = self.soon.quota.missing(own, preemptor.request)
        plan = self.chooser_soon.choose(replace(preemptor, missing=missing))
        if self._all_borrow(plan.targets, own, missing):
            return plan
        why = f"{subject(preemptor)} stays pending: what it lacks is lent in a moment"
        return replace(plan, targets=(), why=why)

    def _all_borrow(self, targets: Iterable[Target], own: str, missing: Quota) -> bool:
        """Whether all teams that give, other than `own`, borrow what is missing already."""
        others = {target.job.queue for target in targets} - {own}
        return all(self._after.quota.borrows(name, missing) for name in others)

    def alternatives(self, plan: PreemptionPlan) -> Iterator[Alternative]:
        """What would have been done without the targets that cost most. None of a plan by size:
        its own sentence says which rule prefers its targets to others."""
        preemptor = plan.preemptor
        if plan.is_by_size:
            return
        if preemptor.kind is ClaimKind.OWN_QUOTA:
            yield from find_alternatives(plan, self._chooser, self._now)
            return
        own = preemptor.workload.queue
        for alternative in find_alternatives(plan, self.chooser_soon, self._now):
            if self._all_borrow(alternative.targets, own, preemptor.missing):
                yield alternative

    @cached_property
    def soon(self) -> Snapshot:
        """The snapshot then, and with what Kueue is about to admit."""
        served = {cession.spec.preemptor.uid for cession in self._open_cessions}
        return after_admissions(self._after, served, fair_sharing=self._fair_shares)

    @cached_property
    def _after(self) -> Snapshot:
        return after_cessions(self._snapshot, self._open_cessions)

    @cached_property
    def _history(self) -> JobHistory:
        return read_history(self._snapshot.cessions, self._now)

    @cached_property
    def _chooser(self) -> TargetChooser:
        return TargetChooser(self._after, self._policy, self._history, self._now)

    @cached_property
    def chooser_soon(self) -> TargetChooser:
        return TargetChooser(self.soon, self._policy, self._history, self._now)


def _decide(preemptor: Preemptor, snapshot: Snapshot, claims: Claims, now: float) -> Decision:
    uid = preemptor.workload.uid
    if pause_left_s(snapshot, preemptor.workload.growing_job or uid, now):
        why = f"{subject(preemptor)} stays pending: its last Cession failed a moment ago"
        return Decision(preemptor, why)
    plan = claims.choose(preemptor)
    if not plan.targets:
        return Decision(preemptor, plan.why, is_oversized=plan.is_oversized)
    cession = new_cession(plan, next_attempt(snapshot, uid), claims.alternatives(plan))
    return Decision(preemptor, plan.why, OpenCession(cession))


def amend(
    cession: Cession,
    snapshot: Snapshot,
    others: Sequence[Cession],
    policy: PolicySpec,
    now: float,
) -> AmendCession | None:
    """More targets for a Cession whose released capacity something else took; None if there are
    none, if it had MAX_ROUNDS already, or if they could not be added for AMEND_TIMEOUT_S."""
    pending = find_preemptor(cession, snapshot).pending
    short_s = led_s(cession.status.shortTime, snapshot.led_since, now)
    if pending is None or cession.spec.round >= MAX_ROUNDS or short_s > AMEND_TIMEOUT_S:
        return None
    uids = target_uids([cession])
    rest = tuple(job for job in snapshot.admitted if job.identity not in uids)
    for current in (snapshot, replace(snapshot, admitted=rest)):
        claims = Claims(current, others, policy, now)
        for preemptor in claims.claims_of(pending):
            plan = claims.choose(preemptor)
            # a job that has ceded may shrink further, but is not stopped as well
            stops_again = any(t.stops and t.job.identity in uids for t in plan.targets)
            if not plan.targets or stops_again:
                continue
            spec = amended(cession.spec, plan, claims.alternatives(plan))
            if len(spec.targets) <= MAX_TARGETS:
                return AmendCession(cession.metadata.name, cession.metadata.resourceVersion, spec)
    return None
