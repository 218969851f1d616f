"""PURE. Why the pods of an admitted job do not run."""

from collections.abc import Iterator, Sequence

from cede.api.kueue import Job, Workload
from cede.api.objects import condition, unix_or_zero
from cede.api.pod_state import (
    CRASHES,
    CREATE_REASONS,
    IMAGE_REASONS,
    ContainerStatus,
    Event,
    ObservedPod,
)
from cede.api.wait_reasons import WaitReason
from cede.causes.cessions import target_text
from cede.causes.facts import Cause
from cede.causes.index import Index

POD_SCHEDULED = "PodScheduled"
# pkg/quota/v1 and the admission plugin ResourceQuota: `exceeded quota: NAME, requested: …`
QUOTA_WORDS = ("exceeded quota", "failed quota")
FAILED_CREATE = "FailedCreate"
CREATED = "SuccessfulCreate"
MAX_WORDS = 300


def why_pods_do_not_run(workload: Workload, job: Job | None, index: Index) -> Iterator[Cause]:
    """By what proves more, first. None if all pods run, or if nothing about them was read."""
    pods = index.snapshot.pods
    if pods is None:
        return
    waiting = [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
    total = len(waiting)
    causes = (_image(waiting), _not_created(waiting), _crashing(waiting, pods))
    yield from (cause for cause in causes if cause)
    yield from _unscheduled(workload, waiting, total, index)
    gated = [pod for pod in waiting if pod.spec.schedulingGates]
    if gated:
        gates = sorted({gate.name for pod in gated for gate in pod.spec.schedulingGates})
        yield Cause(
            WaitReason.POD_GATED,
            f"{_count(gated, total)} held back by scheduling gate {', '.join(gates)}.",
            "the controller of the gate removes it",
        )
    if job is not None and job.status.active < job.spec.parallelism:
        yield from _refused(index.snapshot.events)


def _count(pods: Sequence[ObservedPod], total: int) -> str:
    verb = "is" if len(pods) == 1 else "are"
    return f"{len(pods)} of its {total} pods {verb}"


# --- containers -----------------------------------------------------------------------------------
def _waiting_for(
    pods: Sequence[ObservedPod], reasons: Sequence[str]
) -> list[tuple[ObservedPod, ContainerStatus]]:
    """The first container of each pod that waits for one of the reasons."""
    result = []
    for pod in pods:
        for container in pod.containers:
            if container.state.waiting and container.state.waiting.reason in reasons:
                result.append((pod, container))
                break
    return result


def _image(pods: Sequence[ObservedPod]) -> Cause | None:
    waiting = _waiting_for(pods, IMAGE_REASONS)
    if not waiting:
        return None
    pod, container = waiting[0]
    words = _words(container)
    return Cause(
        WaitReason.IMAGE_NOT_PULLED,
        f"{len(waiting)} of its {len(pods)} pods cannot pull image {container.image} on node "
        f"{pod.spec.nodeName or '?'}: {words}",
        "correct the image's name, or give the pods the right to pull it",
    )


def _not_created(pods: Sequence[ObservedPod]) -> Cause | None:
    waiting = _waiting_for(pods, CREATE_REASONS)
    if not waiting:
        return None
    pod, container = waiting[0]
    return Cause(
        WaitReason.CONTAINER_NOT_CREATED,
        f"Container {container.name} of pod {pod.metadata.name} cannot be created: "
        f"{_words(container)}",
        "create what the container refers to, or correct the reference",
    )


def _words(container: ContainerStatus) -> str:
    waiting = container.state.waiting
    if waiting is None:
        return ""
    message = " ".join(waiting.message.split())[:MAX_WORDS].rstrip(".")
    return f"{waiting.reason}{f' ({message})' if message else ''}."


def _crashing(waiting: Sequence[ObservedPod], pods: Sequence[ObservedPod]) -> Cause | None:
    """Its own restarts, or with restartPolicy Never the pods that the Job has replaced."""
    looping = _waiting_for(waiting, (CRASHES,))
    if looping:
        pod, container = looping[0]
        ended = container.lastState.terminated
        code = f" with exit code {ended.exitCode}" if ended else ""
        why = f" ({ended.reason})" if ended and ended.reason else ""
        return _crash(pod, container.name, f"{code}{why}", f"{container.restartCount} times")
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    if not failed or (waiting and all(pod.status.phase == "Running" for pod in waiting)):
        return None
    pod = max(failed, key=lambda item: item.metadata.created)
    for container in pod.containers:
        ended = container.state.terminated
        if ended and ended.exitCode:
            why = f" ({ended.reason})" if ended.reason not in ("", "Error") else ""
            code = f" with exit code {ended.exitCode}{why}"
            return _crash(pod, container.name, code, f"in {len(failed)} pods")
    return None


def _crash(pod: ObservedPod, container: str, code: str, often: str) -> Cause:
    name, namespace = pod.metadata.name, pod.metadata.namespace
    return Cause(
        WaitReason.CONTAINER_CRASHES,
        f"Container {container} of pod {name} ended{code}, {often}.",
        f"`kubectl logs {name} -c {container} -n {namespace}` shows what it printed",
    )


# --- nodes ----------------------------------------------------------------------------------------
def _unscheduled(
    workload: Workload, pods: Sequence[ObservedPod], total: int, index: Index
) -> Iterator[Cause]:
    homeless = []
    for pod in pods:
        scheduled = condition(pod.status.conditions, POD_SCHEDULED)
        is_refused = scheduled and scheduled.status == "False"
        if is_refused and not pod.spec.schedulingGates and not pod.spec.nodeName:
            homeless.append((pod, scheduled.message if scheduled else ""))
    if not homeless:
        return
    ending = _ending(workload, index)
    if ending:
        yield ending
    words = " ".join(homeless[0][1].split())[:MAX_WORDS].rstrip(".")
    yield Cause(
        WaitReason.POD_UNSCHEDULABLE,
        f"{_count([pod for pod, _ in homeless], total)} without a node: {words}.",
        "pods on these nodes end, or the job asks for less in each pod",
    )


def _ending(workload: Workload, index: Index) -> Cause | None:
    """Pods of stopped jobs that may still save have the nodes that this job was given."""
    for cession in reversed(index.cessions_by_preemptor.get(workload.metadata.uid, ())):
        statuses = {status.uid: status.endingPods for status in cession.status.targets}
        ending = [target for target in cession.spec.targets if statuses.get(target.uid)]
        if ending and not cession.ended:
            count = sum(statuses[target.uid] for target in ending)
            givers = ", ".join(map(target_text, ending))
            return Cause(
                WaitReason.WAITS_FOR_ENDING_PODS,
                f"{count} pods of {givers} have not ended, and may still save on these nodes.",
            )
    return None


# --- pods that do not exist -----------------------------------------------------------------------
def _refused(events: Sequence[Event]) -> Iterator[Cause]:
    """What the Job's controller has reported last about pods that it could not create. Events last
    an hour, and it may have created pods since."""
    outcomes = [event for event in events if event.reason in (CREATED, FAILED_CREATE)]
    # times are whole seconds: one that created some pods and then failed, has failed
    last = max(outcomes, key=_when, default=None)
    if last is None or last.reason == CREATED:
        return
    words = " ".join(last.note.split())[:MAX_WORDS].rstrip(".")
    if any(phrase in last.note for phrase in QUOTA_WORDS):
        yield Cause(
            WaitReason.API_QUOTA_EXCEEDED,
            f"A ResourceQuota of its namespace does not allow its pods: {words}.",
            "delete what uses it, or have an admin raise it: `kubectl describe resourcequota`",
        )
        return
    yield Cause(
        WaitReason.PODS_REFUSED,
        f"The API server refuses its pods: {words}.",
        "correct the pod template",
    )


def _when(event: Event) -> tuple[float, bool]:
    return unix_or_zero(event.last_time), event.reason == FAILED_CREATE
