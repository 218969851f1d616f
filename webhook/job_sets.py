"""PURE. JobSets, also those of TrainJobs, whose pods start the runtime: each keeps its size."""

from collections.abc import Iterator

from cede.api import sizes
from cede.api.names import ELASTIC_POD, PEERS_SERVICE, SIZES
from cede.api.objects import Json
from webhook.elastic_job import as_count
from webhook.failure_policy import count_delays_per_index, keep_delays_per_index
from webhook.gentle_stop import pod_grace_s
from webhook.json_fields import (
    ensure_dict,
    get_annotation,
    get_dict,
    get_dicts,
    get_group_kind,
)
from webhook.kinds import TRAIN_JOB
from webhook.runtime_pods import InjectedEnv, choose_env, of_base, prepare_pods, read_env
from webhook.team import Team

BACKOFF_LIMIT = 6
"""Kubernetes' default, which it does not set together with a limit for each index."""

RESTART_POLICY = "Never"


def prepare_job_set(job_set: Json, old: Json | None, team: Team) -> None:
    """Each Job whose pods have the label `cede.dev/elastic` gets what the runtime needs, for the
    number of pods that it has. An update gets it again: the pods cannot be changed."""
    old_jobs = {str(item.get("name")): get_dict(item, "template") for item in _replicated(old)}
    for item in _replicated(job_set):
        job = get_dict(item, "template")
        old_job = get_dict(old_jobs, str(item.get("name")))
        env = _choose(job_set, job, team) if old is None else read_env(old_job)
        if env is None or not _starts_runtime(job):
            continue
        spec = get_dict(job, "spec")
        pod = ensure_dict(spec, "template", "spec")
        # Kubernetes refuses another one beside a podFailurePolicy. In a JobSet of a user
        # `job_set_complaints` refused it; users of a TrainJob cannot change that of its runtime
        pod["restartPolicy"] = RESTART_POLICY
        spec.setdefault("backoffLimit", BACKOFF_LIMIT)
        if old is None:
            count_delays_per_index(spec)
        else:
            keep_delays_per_index(spec, get_dict(old_job, "spec"))
        prepare_pods(job, env)
        # otherwise the pods would have the JobSet's own, in which nobody looks for them
        ensure_dict(job_set, "spec", "network")["subdomain"] = PEERS_SERVICE


def _replicated(job_set: Json | None) -> list[Json]:
    return get_dicts(get_dict(job_set, "spec"), "replicatedJobs")


def _starts_runtime(job: Json) -> bool:
    labels = get_dict(job, "spec", "template", "metadata", "labels")
    return labels.get(ELASTIC_POD) == "true"


def _choose(job_set: Json, job: Json, team: Team) -> InjectedEnv | None:
    """None for a Job without containers, which the API server refuses."""
    template = get_dict(job, "spec", "template")
    if not get_dicts(get_dict(template, "spec"), "containers"):
        return None
    size = as_count(get_dict(job, "spec").get("parallelism", 1)) or 1
    grace_s = pod_grace_s(job_set, template, team)
    allowed = _sizes(job_set)
    if not allowed:
        return choose_env(job, [size], grace_s, team)
    return choose_env(job, allowed, grace_s, team, of_base(size))


def _sizes(job_set: Json) -> tuple[int, ...]:
    """Empty if there are none, or none that can be parsed: a TrainJob's JobSet is not checked."""
    try:
        return sizes.parse(get_annotation(job_set, SIZES))
    except ValueError:
        return ()


# --- the rules ------------------------------------------------------------------------------------
def job_set_complaints(job_set: Json) -> Iterator[str]:
    """What is wrong with a JobSet whose pods start the runtime. Trainer's JobSets come unchecked: a
    refusal would not reach their users, and its initializers need no names beside the trainer."""
    replicated = _replicated(job_set)
    labelled = [_starts_runtime(get_dict(item, "template")) for item in replicated]
    if not any(labelled):
        return
    for i, item in enumerate(replicated):
        pod = get_dict(item, "template", "spec", "template", "spec")
        policy = pod.get("restartPolicy") or RESTART_POLICY
        if labelled[i] and policy != RESTART_POLICY:
            yield (
                f"spec.replicatedJobs[{i}].template.spec.template.spec.restartPolicy is {policy}: "
                f"pods with the label {ELASTIC_POD} need {RESTART_POLICY}, set that or remove the "
                f"label"
            )
    network = get_dict(job_set, "spec", "network")
    subdomain = network.get("subdomain") or PEERS_SERVICE
    if subdomain != PEERS_SERVICE:
        yield (
            f"spec.network.subdomain is {subdomain!r}: a JobSet whose pods have the label "
            f"{ELASTIC_POD} needs {PEERS_SERVICE}, where they find each other: remove the field"
        )
    # each JobSet has one subdomain: the names of the other pods would be in ours, and not answered
    if not all(labelled) and network.get("enableDNSHostnames") is not False:
        i = labelled.index(False)
        yield (
            f"spec.replicatedJobs[{i}] has no label {ELASTIC_POD} on its pods, but another one "
            f"has: beside it they have no DNS names. Make a JobSet of its own of those without the "
            f"label, or set spec.network.enableDNSHostnames to false if they need no names"
        )


def sizes_complaints(job: Json) -> Iterator[str]:
    """What is wrong with a JobSet or TrainJob that has sizes: it runs at the smallest."""
    path = f"metadata.annotations[{SIZES}]"
    try:
        allowed = sizes.parse(get_annotation(job, SIZES))
    except ValueError as error:
        yield f"{path}: {error}"
        return
    if get_group_kind(job) == TRAIN_JOB:
        field = "spec.trainer.numNodes"
        size = as_count(get_dict(job, "spec", "trainer").get("numNodes", 1))
    else:
        replicated = _replicated(job)
        field = "spec.replicatedJobs[0].template.spec.parallelism"
        if len(replicated) != 1 or replicated[0].get("replicas", 1) != 1:
            yield f"spec.replicatedJobs: a JobSet with {SIZES} has one, with one replica"
            return
        template = get_dict(replicated[0], "template")
        if not _starts_runtime(template):
            yield f"spec.replicatedJobs[0]: label its pods {ELASTIC_POD}: {SIZES} needs the runtime"
        size = as_count(get_dict(template, "spec").get("parallelism", 1))
    if size != allowed[0]:
        yield (
            f"{field} is {size}: set {allowed[0]}, the smallest size in {path}; `cede surplus` "
            f"makes a job of the pods beyond it"
        )
