"""PURE. The next step with a guard, from what is in the cluster: whoever made the last step.

1. The guard is admitted outside of the Cohort, so that nobody has to make room for it.
2. Its queue joins the Cohort without quota. From then on nobody is admitted into what targets
   release, until they have released as much as the guard uses.
3. All targets release.
4. The preemptor's queue gets what the guard uses as private quota, which no other queue sees.
5. Kueue admits the preemptor. The quota is changed back, then the guard is deleted.

Kueue ends a guard by itself after cede.api.guards.LIMIT_S.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cede.api import guards, private_quota
from cede.api.cession import Cession
from cede.api.private_quota import Original, PrivateQuota
from cede.api.resources import FlavorResource, Quota, quantity
from scheduler.actions import CreateGuard, DeleteGuard, JoinGuard, SetPrivateQuota
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.cession.promises import request_of
from scheduler.cession.stage_times import led_s
from scheduler.cession.target_progress import find_job
from scheduler.quota.cohort import CohortQuota, Queue, ResourceQuota
from scheduler.snapshot.cluster_quota import read_quotas
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot


def find_guard(cession: str, snapshot: Snapshot) -> Guard | None:
    return next((guard for guard in snapshot.guards if guard.cession == cession), None)


def needed_quota(cession: Cession, snapshot: Snapshot) -> Quota:
    """What the preemptor will use, on the flavors of which the Cession releases something. Empty
    for a scale-up, whose job keeps its own quota."""
    pending = find_preemptor(cession, snapshot).pending
    if pending is None or pending.is_scale_up:
        return Quota()
    return request_of(cession, pending, snapshot)


def needs_guard(cession: Cession, snapshot: Snapshot, now: float) -> bool:
    """Whether Kueue's own reservation is not enough: the preemptor's queue exceeds its nominal
    quota with it."""
    request = needed_quota(cession, snapshot)
    if not request or _excludes_guards(request, snapshot):
        return False
    is_released = cession.status.released
    guard = find_guard(cession.metadata.name, snapshot)
    if guard:
        return not (guard.is_ended and is_released)
    if is_released and led_s(cession.status.reservedTime, snapshot.led_since, now) > guards.LIMIT_S:
        return False
    return not snapshot.quota.owns_with(cession.spec.preemptor.queue, request)


def _excludes_guards(request: Quota, snapshot: Snapshot) -> bool:
    """Whether one guard cannot use all of it: a resource on two flavors, or a flavor where Kueue
    would look for nodes for the guard's pod, and there are none yet."""
    resources = [resource for _, resource in request]
    is_placed = any(flavor in snapshot.placed_flavors for flavor, _ in request)
    return is_placed or len(resources) > len(set(resources))


def is_unprotected(cession: Cession, snapshot: Snapshot) -> bool:
    """Whether neither Kueue's own reservation nor a guard keeps what is released."""
    request = needed_quota(cession, snapshot)
    owns = snapshot.quota.owns_with(cession.spec.preemptor.queue, request)
    return not owns and _excludes_guards(request, snapshot)


def ends_first(cession: Cession, snapshot: Snapshot, now: float) -> str:
    """The Cession that must end before this one releases; empty if none has to. A guard keeps
    everybody out, so it is alone with its instance type."""
    opened = [other for other in snapshot.cessions if other.open]
    first = _with_other_guard(cession, opened, snapshot)
    if first or not needs_guard(cession, snapshot, now):
        return first
    needs = _needs(cession)
    for other in opened:
        is_other = other.metadata.name != cession.metadata.name
        if is_other and other.status.released and _needs(other) & needs:
            return other.metadata.name
    return ""


def _with_other_guard(cession: Cession, opened: Sequence[Cession], snapshot: Snapshot) -> str:
    """The Cession, open or not, whose guard keeps something that this one needs. Of two guards that
    were made at once, the one of the older Cession stays."""
    name = cession.metadata.name
    yields_to_us = set[str]()
    if find_guard(name, snapshot):
        names = [other.metadata.name for other in opened]
        younger = opened[names.index(name) + 1 :] if name in names else ()
        yields_to_us = {other.metadata.name for other in younger if not other.status.released}
    for guard in snapshot.guards:
        is_gone = guard.is_deleted and not guard.is_admitted
        # what a guard that is not admitted yet will use is not known
        overlaps = not guard.usage or bool(guard.usage.keys() & _needs(cession))
        is_other = guard.cession != name and guard.cession not in yields_to_us
        if is_other and overlaps and not is_gone:
            return guard.cession
    return ""


def _needs(cession: Cession) -> set[FlavorResource]:
    return {(need.flavor, need.resource) for need in cession.spec.need}


def create(cession: Cession, snapshot: Snapshot) -> CreateGuard:
    """It is as large as the preemptor, less what its queue has for itself alone, and more by what
    the queue exceeds its nominal quota by: private quota covers that too."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    amounts = dict[FlavorResource, int]()
    for key, wanted in needed_quota(cession, snapshot).items():
        quota = queue.quota(key)
        used = queue.usage[key]
        size = wanted - max(0, quota.local - used) + max(0, used - quota.nominal)
        if size > 0:
            amounts[key] = size
    return CreateGuard(cession.metadata.name, amounts, guards.LIMIT_S)


def is_large_enough(guard: Guard, cession: Cession, snapshot: Snapshot) -> bool:
    """Whether it keeps all that the preemptor requests now."""
    wanted = create(cession, snapshot).amounts
    return all(guard.usage[key] >= amount for key, amount in wanted.items())


def join(guard: Guard) -> JoinGuard:
    return JoinGuard(guard.cession, guard.version, tuple(sorted(guard.usage)))


def all_released(cession: Cession, snapshot: Snapshot) -> bool:
    """Whether Kueue counts nothing any more of what targets were resized or stopped for. The quota
    of an inactive job is free at once."""
    changed = {t.uid for t in cession.status.targets if t.stopped or t.releasedTime}
    for target in cession.spec.targets:
        job = find_job(target, snapshot)
        if target.uid in changed and job is not None and job.active:
            is_followed = all(job.usage[key] >= used for key, used in job.counted.items())
            if not (0 < job.size <= target.toSize and is_followed):
                return False
    return True


# --- private quota --------------------------------------------------------------------------------
def give_private_quota(cession: Cession, snapshot: Snapshot) -> SetPrivateQuota | None:
    """Afterwards the preemptor fits into its queue, and no other queue has more than before. None
    if the queue has enough already, or if others use what was released."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    request = needed_quota(cession, snapshot)
    if not snapshot.quota.fits(queue.name, request):
        return None
    changes = {
        key: _private(queue, key, wanted, snapshot) for key, wanted in request.items() if wanted
    }
    if queue.private and _is_enough(queue, changes):
        return None
    originals = tuple(
        Original(flavor, resource, *_texts(resource, queue.quota((flavor, resource))))
        for flavor, resource in changes
    )
    note = PrivateQuota(cession.metadata.name, originals).text()
    texts = {key: _texts(key[1], quota) for key, quota in changes.items()}
    groups = private_quota.changed_groups(private_quota.as_json(queue.written), texts)
    return SetPrivateQuota(queue.name, queue.version, tuple(groups), note)


def _private(queue: Queue, key: FlavorResource, wanted: int, snapshot: Snapshot) -> ResourceQuota:
    """The local part is what the queue uses and wants, and what the Cohort is below zero. The rest
    is lent as before (Kueue: pkg/cache/scheduler/resource_node.go)."""
    quota = queue.quota(key)
    used = queue.usage[key]
    lent = max(0, quota.nominal - used)
    if quota.lending_limit is not None:
        lent = min(lent, quota.lending_limit)
    nominal = used + wanted + lent
    alone = replace(queue, quotas={key: replace(quota, nominal=nominal, lending_limit=lent)})
    queues = {**snapshot.quota.queues, queue.name: alone}
    guarded = sum(guard.usage[key] for guard in snapshot.guards if guard.in_cohort)
    # a new value: a copy would keep the sums of the old quota
    quota_alone = CohortQuota(queues, snapshot.quota.cohort_nominal)
    free = quota_alone.lendable(queue.cohort, key) - quota_alone.lent(queue.cohort, key)
    rest = free - guarded
    return replace(quota, nominal=nominal + max(0, -rest), lending_limit=lent)


def _is_enough(queue: Queue, changes: Mapping[FlavorResource, ResourceQuota]) -> bool:
    """Whether the written nominal quota is at least the private one."""
    written = read_quotas(queue.written)
    return all(written[key].nominal >= quota.nominal for key, quota in changes.items())


def _texts(resource: str, quota: ResourceQuota) -> tuple[str, str | None]:
    limit = quota.lending_limit
    return quantity(resource, quota.nominal), None if limit is None else quantity(resource, limit)


# --- the end --------------------------------------------------------------------------------------
def give_back(cession: Cession, snapshot: Snapshot) -> SetPrivateQuota | DeleteGuard | None:
    """The next step to the end of what a Cession has, while its preemptor waits; None if it has
    nothing, or if Kueue has yet to read the quota. Private quota goes first: without the guard it
    is more than there is."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    if queue.private and queue.private.cession == cession.metadata.name:
        return _changed_back(queue, queue.private)
    guard = find_guard(cession.metadata.name, snapshot)
    return DeleteGuard(guard.cession) if guard and queue.is_observed else None


def end(snapshot: Snapshot, waiting: AbstractSet[str]) -> Iterator[SetPrivateQuota | DeleteGuard]:
    """Private quota goes when its preemptor does not wait any more, and then its guard; also if the
    guard is gone. `waiting` are the names of the Cessions whose preemptor waits."""
    admitted = {guard.cession for guard in snapshot.guards if guard.is_admitted}
    private = set[str]()
    for queue in snapshot.quota.queues.values():
        if queue.private:
            private.add(queue.private.cession)
            if queue.private.cession not in waiting & admitted:
                yield _changed_back(queue, queue.private)
    for guard in snapshot.guards:
        if guard.is_deleted and not guard.is_admitted:
            continue
        is_over = guard.cession not in waiting and guard.cession not in private
        if guard.is_ended or (is_over and _is_settled(guard.cession, snapshot)):
            yield DeleteGuard(guard.cession)


def _changed_back(queue: Queue, private: PrivateQuota) -> SetPrivateQuota:
    groups = private.restored(private_quota.as_json(queue.written))
    return SetPrivateQuota(queue.name, queue.version, tuple(groups), note="")


def _is_settled(cession: str, snapshot: Snapshot) -> bool:
    """Whether Kueue uses the preemptor's queue as it is written, without private quota."""
    record = next((c for c in snapshot.cessions if c.metadata.name == cession), None)
    queue = snapshot.quota.queues.get(record.spec.preemptor.queue) if record else None
    return queue is None or queue.is_observed
