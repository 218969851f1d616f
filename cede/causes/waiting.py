"""PURE. Why a Workload waits for its admission. The first cause has to pass first."""

from collections.abc import Iterator

from cede.api import durations, names
from cede.api.kueue import Workload
from cede.api.objects import condition, unix
from cede.api.wait_reasons import WaitReason
from cede.causes import kueue_message, quota
from cede.causes.cession import why_cession
from cede.causes.facts import Cause, estimate, shown
from cede.causes.index import PODS_READY_TIMEOUT, STRICT_FIFO, Index, requeue_at
from cede.causes.kueue_message import Verdict
from cede.causes.maximum import exceeds_maximum
from cede.causes.oversized import too_many_targets
from cede.causes.queue import kueue_down, queue_problem
from cede.causes.queue_quota import job_name
from cede.causes.take_back import who_preempts
from cede.causes.workload_state import true_condition

BLOCKED_ON_GATES = "BlockedOnPreemptionGates"


def why_it_waits(workload: Workload, index: Index) -> list[Cause]:
    """At least one cause."""
    causes = list(kueue_down(index))
    blocked = queue_problem(workload, index) or _not_tried(workload, index)
    if blocked:
        return [*causes, blocked]
    if workload.status.admission:
        return [*causes, _second_phase(workload)]
    cession = index.open_cession(workload)
    if cession:
        causes += filter(None, (who_preempts(index), why_cession(cession, index.now)))
        return [*causes, *_verdict(workload, index)]
    head = _behind(workload, index)
    if head:
        causes.append(head)
    causes += too_many_targets(workload, index)
    causes += _verdict(workload, index)
    return causes or [_silent(workload, index)]


# --- before Kueue tries it ------------------------------------------------------------------------
def _not_tried(workload: Workload, index: Index) -> Cause | None:
    gate = workload.metadata.annotations.get(names.ADMISSION_GATED_BY)
    if gate:
        return Cause(
            WaitReason.ADMISSION_GATED,
            f"It is gated by {gate} (annotation {names.ADMISSION_GATED_BY} of its Workload).",
            "the controller of that name removes the annotation",
        )
    again = requeue_at(workload)
    if again > index.now:
        return _back_off(workload, again, index.now)
    return None


def _back_off(workload: Workload, again: float, now: float) -> Cause:
    evicted = true_condition(workload.status.conditions, names.EVICTED)
    why = ""
    cure = ""
    if evicted:
        why = f": {evicted.message.rstrip('.')}"
    if evicted and evicted.reason == PODS_READY_TIMEOUT:
        cure = "its pods have to be ready sooner: their events say what they waited for"
    return Cause(
        WaitReason.BACK_OFF,
        f"Kueue evicted it{why}. It tries it again in {durations.describe(again - now)}.",
        cure,
        estimate=estimate("status.requeueState.requeueAt of the Workload", earliest=again),
    )


def _second_phase(workload: Workload) -> Cause:
    """Quota is reserved, and it is not admitted."""
    checks = [check for check in workload.status.admissionChecks if check.state != "Ready"]
    if not checks:
        return Cause(
            WaitReason.PLACEMENT_PENDING,
            "Quota is reserved for it, and Kueue has not placed its pods by topology yet.",
        )
    entries = [
        f"{check.name} is {check.state}"
        + (f" ({check.message.rstrip('.')})" if check.message else "")
        for check in checks
    ]
    has_failed = any(check.state in ("Retry", "Rejected") for check in checks)
    reason = WaitReason.ADMISSION_CHECK_PENDING
    if has_failed:
        reason = WaitReason.ADMISSION_CHECK_FAILED
    return Cause(
        reason,
        f"Quota is reserved for it, and admission check {', '.join(entries)}.",
        "the controller of the check sets it to Ready",
    )


def _behind(workload: Workload, index: Index) -> Cause | None:
    """In a StrictFIFO queue Kueue tries the head only."""
    name = index.queue_name(workload)
    queue = index.queues.get(name)
    pending = index.pending.get(name, ())
    if queue is None or queue.spec.queueingStrategy != STRICT_FIFO or not pending:
        return None
    head = pending[0]
    uid = workload.metadata.uid
    if head.metadata.uid == uid or uid not in index.pending_uids:
        return None
    place = f"It waits behind {job_name(head)}, the head of StrictFIFO queue {name}"
    verdict = _parsed(head)
    if verdict.excesses and not verdict.lacks:
        excess = verdict.excesses[0]
        asked = shown(excess.resource, excess.asked)
        most = shown(excess.resource, excess.maximum)
        return Cause(
            WaitReason.HOPELESS_HEAD,
            f"{place}, which asks for {asked}, more than the {most} that the queue may ever use.",
            f"delete {job_name(head)}, or make it smaller",
        )
    cession = index.open_cession(head)
    if cession:
        return Cause(
            WaitReason.BEHIND_HEAD,
            f"{place}, for which Cession {cession.metadata.name} takes capacity.",
            f"{job_name(head)} is admitted, or the Cession ends",
        )
    return Cause(
        WaitReason.BEHIND_HEAD,
        f"{place} with priority {head.spec.priority}.",
        f"{job_name(head)} is admitted or deleted",
    )


# --- what Kueue has reported ----------------------------------------------------------------------
def _parsed(workload: Workload) -> Verdict:
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED)
    return kueue_message.parse(reserved.message if reserved else "")


def _verdict(workload: Workload, index: Index) -> Iterator[Cause]:
    """From Kueue's own message."""
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED)
    if reserved is None or reserved.status == "True" or not reserved.message:
        return
    message = reserved.message.rstrip(".")
    verdict = kueue_message.parse(message)
    blocked = _blocked(workload, verdict, message)
    if blocked:
        yield blocked
        return
    name = index.queue_name(workload)
    if verdict.lacks:
        yield from quota.too_little(workload, verdict.lacks[0], name, index)
    elif verdict.topology:
        yield Cause(
            WaitReason.NO_NODE_FITS,
            f"Its quota is free, and no nodes fit: {verdict.topology}.",
            "pods on these nodes end, or the job's topology request becomes weaker",
        )
    elif verdict.excesses:
        yield exceeds_maximum(verdict.excesses[0], name, index)
    elif verdict.unmatched:
        yield Cause(
            WaitReason.NO_FLAVOR_MATCHES,
            f"No instance type of queue {name} matches it: {'; '.join(verdict.unmatched)}.",
            "change the job's node selector, affinity, tolerations or topology request",
        )
    elif verdict.absent:
        yield Cause(
            WaitReason.RESOURCE_NOT_IN_QUEUE,
            f"Queue {name} has no quota of {', '.join(verdict.absent)}.",
            "ask for a resource that `cede status` lists for the team",
        )
    else:
        yield Cause(WaitReason.OTHER_MESSAGE, f"Kueue reports: {message}.")


def _blocked(workload: Workload, verdict: Verdict, message: str) -> Cause | None:
    """What is no question of quota."""
    gates = true_condition(workload.status.conditions, BLOCKED_ON_GATES)
    if gates:
        return Cause(
            WaitReason.PREEMPTION_GATED,
            f"It could preempt, and a preemption gate of its Workload is closed: "
            f"{gates.message.rstrip('.')}.",
            "the controller of the gate opens it (status.preemptionGates)",
        )
    if verdict.evicting:
        return Cause(
            WaitReason.KUEUE_EVICTS,
            f"Kueue has stopped {verdict.evicting} other workload(s) for it, which have not ended.",
            "the pods of these jobs end",
        )
    if verdict.wrong_namespace:
        return Cause(
            WaitReason.NAMESPACE_NOT_SELECTED,
            f"Its ClusterQueue does not admit jobs of namespace {workload.metadata.namespace}.",
            "use a LocalQueue of the team that this namespace belongs to",
        )
    if verdict.invalid:
        return Cause(
            WaitReason.INVALID_REQUESTS,
            f"Kueue does not accept its requests: {message}.",
            "correct the requests and limits of its pods",
        )
    if verdict.blocked_by_pods:
        return Cause(
            WaitReason.OTHERS_NOT_READY,
            "Kueue admits nobody until the pods of all admitted jobs are ready "
            "(waitForPodsReady.blockAdmission).",
            "the pods of the other jobs get ready, or an admin turns blockAdmission off",
        )
    if verdict.failed_checks:
        return Cause(WaitReason.ADMISSION_CHECK_FAILED, f"Kueue reports: {message}.")
    return None


def _silent(workload: Workload, index: Index) -> Cause:
    """Kueue has written nothing about it, or no more than that it is back in the queue."""
    age = durations.describe(index.now - workload.metadata.created)
    requeued = true_condition(workload.status.conditions, "Requeued")
    since = f", which exists for {age}"
    if requeued:
        back = durations.describe(index.now - unix(requeued.lastTransitionTime))
        since = f", which is back in its queue for {back}"
    return Cause(
        WaitReason.NOT_TRIED_YET,
        f"Kueue has not reported yet that it has tried its Workload{since}.",
        "if that lasts, an admin checks that Kueue's controller runs",
    )
