"""PURE. What the runtime needs in the pods of a Job, or of the Jobs of a JobSet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api.names import (
    CONTROL_SECRET,
    ELASTIC_POD,
    PEERS_SERVICE,
    POD_JOB_NAME,
    POD_JOB_UID,
    SURPLUS_OF,
)
from cede.api.objects import Json
from cede.api.surplus import SUFFIX, Base
from elastic_runtime import contract
from webhook.failure_policy import make_failure_policy, read_exit_codes
from webhook.json_fields import ensure_dict, get_annotation, get_dict, get_dicts
from webhook.team import Team
from webhook.training_container import count_accelerators, find_training_container

VOLUME = "cede-control"
JOB_SET_ENV = "CEDE_JOB_SET"
"""Of which the name of the surplus is made."""
OTHER_JOB = (
    contract.BASE_SIZE_ENV,
    contract.SURPLUS_ENV,
    contract.BASE_JOB_ENV,
    contract.BASE_UID_ENV,
)
"""In the order in which they are written: another order would change the pods."""


@dataclass(frozen=True)
class InjectedEnv:
    """The settings in the environment of a job's pods, and the exit codes that it ignores. They
    never change, because Kubernetes does not let a Job's template change."""

    # the name of the container that trains
    container: str
    # ascending, comma-separated
    sizes: str
    # per pod
    ranks: str
    grace_s: str
    # of a base or a surplus: name → value of what its pods need to find those of the other
    other_job: Mapping[str, str] = field(default_factory=dict)
    ignored_exit_codes: tuple[int, ...] = contract.IGNORED_EXIT_CODES


def of_base(size: int) -> dict[str, str]:
    """What the pods of a base need."""
    return {
        contract.BASE_SIZE_ENV: str(size),
        contract.SURPLUS_ENV: f"$({JOB_SET_ENV}){SUFFIX}",
    }


def of_surplus(job: Json) -> dict[str, str]:
    """What the pods of a surplus need; nothing for another job."""
    base = Base.parse(get_annotation(job, SURPLUS_OF))
    if base is None:
        return {}
    return {
        contract.BASE_SIZE_ENV: str(base.size),
        contract.BASE_JOB_ENV: base.job,
        contract.BASE_UID_ENV: base.job_uid,
    }


def choose_env(
    job: Json,
    sizes: Iterable[int],
    grace_s: int,
    team: Team,
    other_job: Mapping[str, str] | None = None,
) -> InjectedEnv:
    """The settings of a new job."""
    container = find_training_container(get_dict(job, "spec", "template", "spec"), team)
    return InjectedEnv(
        container=str(container.get("name", "")),
        other_job=other_job or {},
        sizes=",".join(map(str, sizes)),
        ranks=str(count_accelerators(container, team) or 1),
        grace_s=str(grace_s),
    )


def read_env(old: Json) -> InjectedEnv | None:
    """The settings that the pods got when the job was created; None for a job without ours.

    The policy may have changed since, but the template cannot.
    """
    for container in get_dicts(get_dict(old, "spec", "template", "spec"), "containers"):
        variables = {
            str(variable.get("name")): str(variable.get("value", ""))
            for variable in get_dicts(container, "env")
        }
        if contract.SIZES_ENV in variables:
            return InjectedEnv(
                container=str(container.get("name", "")),
                sizes=variables[contract.SIZES_ENV],
                ranks=_number_or(variables.get(contract.RANKS_ENV, ""), "1"),
                grace_s=_number_or(variables.get(contract.GRACE_ENV, ""), "0"),
                other_job={name: variables[name] for name in OTHER_JOB if name in variables},
                ignored_exit_codes=tuple(read_exit_codes(old, str(container.get("name", "")))),
            )
    return None


def _number_or(text: str, default: str) -> str:
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return text if is_number else default


def prepare_pods(job: Json, env: InjectedEnv) -> None:
    """Adds everything that the runtime needs. Of the user's own fields only those with our names
    are overwritten. Idempotent."""
    spec = ensure_dict(job, "spec")
    own_policy = get_dict(spec, "podFailurePolicy")
    spec["podFailurePolicy"] = make_failure_policy(
        own_policy, env.container, list(env.ignored_exit_codes)
    )
    # the only value that Kubernetes allows together with a podFailurePolicy
    spec["podReplacementPolicy"] = "Failed"
    ensure_dict(spec, "template", "metadata", "labels")[ELASTIC_POD] = "true"
    pod = ensure_dict(spec, "template", "spec")
    pod["subdomain"] = PEERS_SERVICE
    own_grace_s = pod.get("terminationGracePeriodSeconds", 30)
    pod["terminationGracePeriodSeconds"] = max(
        own_grace_s if isinstance(own_grace_s, int) else 30, int(env.grace_s)
    )
    # readable for every user that the image may run as
    secret = {"secretName": CONTROL_SECRET, "defaultMode": 0o444}
    own_volumes = _without(get_dicts(pod, "volumes"), "name", {VOLUME})
    pod["volumes"] = [*own_volumes, {"name": VOLUME, "secret": secret}]
    for container in get_dicts(pod, "containers"):
        if container.get("name", "") == env.container:
            _prepare_container(container, env)


def _prepare_container(container: Json, env: InjectedEnv) -> None:
    mount = {"name": VOLUME, "mountPath": contract.KEY_MOUNT, "readOnly": True}
    own_mounts = get_dicts(container, "volumeMounts")
    own_mounts = _without(own_mounts, "mountPath", {contract.KEY_MOUNT})
    own_mounts = _without(own_mounts, "name", {VOLUME})
    container["volumeMounts"] = [*own_mounts, mount]
    # our variables come first, so that the user's can refer to them
    variables = make_variables(env)
    our_names = {variable["name"] for variable in variables}
    container["env"] = variables + _without(get_dicts(container, "env"), "name", our_names)


def make_variables(env: InjectedEnv) -> list[Json]:
    """The environment variables for the runtime. Those that differ between pods come from the
    downward API."""
    fields = {
        contract.JOB_ENV: f"metadata.labels['{POD_JOB_NAME}']",
        contract.JOB_UID_ENV: f"metadata.labels['{POD_JOB_UID}']",
        contract.NAMESPACE_ENV: "metadata.namespace",
        contract.POD_IP_ENV: "status.podIP",
    }
    if contract.SURPLUS_ENV in env.other_job:
        fields[JOB_SET_ENV] = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
    values = {
        **env.other_job,
        contract.PEERS_ENV: PEERS_SERVICE,
        contract.SIZES_ENV: env.sizes,
        contract.RANKS_ENV: env.ranks,
        contract.GRACE_ENV: env.grace_s,
        contract.PORT_ENV: str(contract.PORT),
        contract.KEY_FILE_ENV: contract.KEY_FILE,
    }
    variables: list[Json] = []
    for name, path in fields.items():
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
        variables.append({"name": name, "valueFrom": source})
    for name, value in values.items():
        variables.append({"name": name, "value": value})
    return variables


def _without(items: list[Json], key: str, taken: set[str]) -> list[Json]:
    """The items whose `key` is not one of the `taken` names."""
    return [item for item in items if str(item.get(key)) not in taken]
