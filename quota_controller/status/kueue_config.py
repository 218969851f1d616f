"""PURE. Whether Kueue is installed, new enough, and configured as the policy needs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cede.api import guards, names
from cede.api.objects import Json, Key
from cede.api.policy import PolicySpec
from cede.api.reasons import KueueReason
from cede.api.support import OLDEST_KUEUE, text_of
from quota_controller.desired.conflicts import Problem
from quota_controller.status.managed_namespaces import selects
from quota_controller.status.pods_ready import (
    SHORTEST_RECOVERY_S,
    PodsReadySettings,
    read_settings,
)
from quota_controller.status.verdict import Verdict

NAMESPACE = "kueue-system"
CONFIG_MAP: Key = (NAMESPACE, "kueue-manager-config")
CONFIG_KEY = "controller_manager_config.yaml"
DEPLOYMENT: Key = (NAMESPACE, "kueue-controller-manager")
ELASTIC_GATE = "ElasticJobsViaWorkloadSlices"
ELASTIC_TOPOLOGY_GATE = "ElasticJobsViaWorkloadSlicesWithTAS"
NAMESPACE_GATE = "ManagedJobsNamespaceSelectorAlwaysRespected"
JOB_FRAMEWORK = "batch/job"
POD_FRAMEWORK = "pod"


@dataclass(frozen=True)
class KueueInstallation:
    """The objects of Kueue's own installation."""

    config_map: Json | None = None
    deployment: Json | None = None
    # why they cannot be read; empty when they can
    read_error: str = ""


@dataclass(frozen=True)
class KueueConfig:
    """The part of Kueue's configuration that matters to Cede, with Kueue's defaults filled in."""

    # None if Kueue does not wait for pods
    pods_ready: PodsReadySettings | None
    fair_sharing: bool
    feature_gates: Mapping[str, bool]
    frameworks: tuple[str, ...]
    # managedJobsNamespaceSelector; empty if every namespace that we use is selected
    namespaces: Mapping[str, Any]


# --- the configuration file -----------------------------------------------------------------------
def parse(text: str) -> KueueConfig:
    """Kueue's configuration file. Raises ValueError when the text is none."""
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # PyYAML raises all of these for odd tags
        raise ValueError(f"it is no YAML: {' '.join(str(error).split())}") from error
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise ValueError("it is no object")
    frameworks = _section(config, "integrations").get("frameworks")
    waits_for_pods = True
    fair_sharing = config.get("fairSharing") is not None
    is_v1beta1 = str(config.get("apiVersion", "")).endswith("/v1beta1")
    # v1beta1 has a field `enable` for both. In v1beta2 fairSharing is on if the section exists, and
    # waitForPodsReady is always on (Kueue, apis/config/v1beta2/defaults.go).
    if is_v1beta1:
        waits_for_pods = bool(_section(config, "waitForPodsReady").get("enable"))
        fair_sharing = bool(_section(config, "fairSharing").get("enable"))
    pods_ready = read_settings(_section(config, "waitForPodsReady"), is_v1beta1=is_v1beta1)
    return KueueConfig(
        pods_ready if waits_for_pods else None,
        fair_sharing,
        {str(name): value is True for name, value in _section(config, "featureGates").items()},
        tuple(map(str, frameworks)) if isinstance(frameworks, list) else (JOB_FRAMEWORK,),
        _section(config, "managedJobsNamespaceSelector"),
    )


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}


# --- the Deployment -------------------------------------------------------------------------------
def version_of(image: str) -> tuple[int, ...] | None:
    """(0, 19, 2) of `registry.k8s.io/kueue/kueue:v0.19.2`; None when the tag is no version."""
    match = re.search(r":v?(\d+)\.(\d+)\.(\d+)(?:[-+.][\w.+-]*)?(?:@\S*)?$", image)
    return tuple(map(int, match.groups())) if match else None


def _manager_container(deployment: Json) -> Json:
    pod = deployment.get("spec", {}).get("template", {}).get("spec", {})
    containers = pod.get("containers") or [{}]
    managers = [container for container in containers if container.get("name") == "manager"]
    manager: Json = managers[0] if managers else containers[0]
    return manager


def feature_gates_of(deployment: Json) -> dict[str, bool]:
    """Feature gates from the command line.

    Kueue reads them from there or from the configuration file, never from both.
    """
    container = _manager_container(deployment)
    command = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
    gates = {}
    for flag in re.findall(r"--feature-gates[= ](\S+)", command):
        for pair in flag.split(","):
            name, _, value = pair.partition("=")
            gates[name] = value.lower() == "true"
    return gates


def pods_ready_settings(kueue: KueueInstallation) -> PodsReadySettings:
    """Those in effect; "never" if Kueue's settings cannot be read."""
    try:
        config = parse(((kueue.config_map or {}).get("data") or {})[CONFIG_KEY])
    except (KeyError, ValueError):
        return PodsReadySettings()
    return config.pods_ready or PodsReadySettings()


# --- the verdict ----------------------------------------------------------------------------------
def verdict(spec: PolicySpec, kueue: KueueInstallation, guard_labels: Mapping[str, str]) -> Verdict:
    """Condition KueueConfigured: all problems in one message; Unknown if Kueue is not readable.
    `guard_labels` are the labels of the namespace of guards."""
    if kueue.read_error:
        return Verdict(
            None, KueueReason.UNREADABLE, f"Kueue's settings cannot be read: {kueue.read_error}"
        )
    if kueue.deployment is None:
        return Verdict(
            None,
            KueueReason.DEPLOYMENT_NOT_FOUND,
            f"there is no Deployment {DEPLOYMENT[1]} in namespace {NAMESPACE}: Kueue is not "
            "installed, or installed elsewhere, so its settings are not checked",
        )
    if kueue.config_map is None:
        return Verdict(
            None,
            KueueReason.CONFIG_MAP_NOT_FOUND,
            f"there is no ConfigMap {CONFIG_MAP[1]} in namespace {NAMESPACE}: Kueue's settings are "
            "not checked",
        )
    try:
        config = parse((kueue.config_map.get("data") or {}).get(CONFIG_KEY, ""))
    except ValueError as error:
        return Verdict(
            None,
            KueueReason.UNREADABLE,
            f"{CONFIG_KEY} in ConfigMap {CONFIG_MAP[1]} cannot be read: {error}",
        )
    gates = {**config.feature_gates, **feature_gates_of(kueue.deployment)}
    problems = [
        *_deployment_problems(kueue.deployment),
        *_sharing_problems(spec, config),
        *_elastic_problems(spec, gates),
        *_framework_problems(config),
        *_namespace_problems(config, gates, guard_labels),
    ]
    if problems:
        message = "; ".join(problem.message for problem in problems)
        return Verdict(False, problems[0].reason, message)
    version = version_of(_manager_container(kueue.deployment).get("image", ""))
    product = f"Kueue {text_of(version)}" if version else "Kueue"
    return Verdict(
        True,
        KueueReason.CONFIGURED,
        f"{product} is configured as the policy needs; it queues "
        f"{', '.join(sorted(config.frameworks))}",
    )


def _deployment_problems(deployment: Json) -> Iterator[Problem]:
    version = version_of(_manager_container(deployment).get("image", ""))
    if version and version < OLDEST_KUEUE:
        yield Problem(
            KueueReason.TOO_OLD,
            f"Kueue is {text_of(version)} and must be {text_of(OLDEST_KUEUE)} or newer: upgrade it",
        )
    if deployment.get("spec", {}).get("replicas", 1) == 0:
        yield Problem(
            KueueReason.NOT_RUNNING,
            f"Kueue is scaled to 0, so nothing is admitted: scale Deployment {DEPLOYMENT[1]} up",
        )


_WHERE = f"in ConfigMap {CONFIG_MAP[1]}, then restart Kueue"


def _sharing_problems(spec: PolicySpec, config: KueueConfig) -> Iterator[Problem]:
    yield from _waiting_problems(config.pods_ready)
    if spec.idleCompute == "FairShare" and not config.fair_sharing:
        yield Problem(
            KueueReason.FAIR_SHARING_OFF,
            "idleCompute is FairShare and Kueue's fairSharing is off, so weights have no effect: "
            f"set fairSharing {_WHERE}",
        )
    # With fair sharing on, Kueue orders by share even if all weights are equal or 0
    # (pkg/cache/scheduler/fair_sharing.go, CompareDRS).
    if spec.idleCompute == "FirstCome" and config.fair_sharing:
        yield Problem(
            KueueReason.FAIR_SHARING_ON,
            "idleCompute is FirstCome and Kueue's fairSharing is on, so the team that borrows "
            "least still goes first, whatever the weights: "
            f"remove fairSharing {_WHERE}, or set idleCompute: FairShare",
        )


def _waiting_problems(settings: PodsReadySettings | None) -> Iterator[Problem]:
    if settings is None:
        yield Problem(
            KueueReason.WAIT_FOR_PODS_READY_OFF,
            "waitForPodsReady is off, so a job keeps its quota even if its pods never get ready: "
            f"set waitForPodsReady {_WHERE}",
        )
        return
    if settings.start_s < guards.LIMIT_S:
        yield Problem(
            KueueReason.START_TIMEOUT_SHORT,
            f"waitForPodsReady.timeout is {settings.start_s:g} s: Kueue evicts the guard of a job "
            "that takes capacity past its team's own quota after so long, because the guard's pod "
            f"is never ready: set it to {guards.LIMIT_S / 60:g}m or more {_WHERE}",
        )
    if settings.evicts_soon:
        yield Problem(
            KueueReason.RECOVERY_TIMEOUT_SHORT,
            f"waitForPodsReady.recoveryTimeout is {settings.recovery_s:g} s: Kueue evicts an "
            "elastic job whole if one of its pods is away for so long, though the others train "
            f"on: set it to {SHORTEST_RECOVERY_S / 60:g}m or more {_WHERE}",
        )
    if settings.blocks_admission:
        yield Problem(
            KueueReason.BLOCK_ADMISSION_ON,
            "waitForPodsReady.blockAdmission is on: Kueue admits nobody while pods of any job are "
            "not ready, and a job that takes capacity past its team's own quota fails to get it: "
            f"set it to false {_WHERE}",
        )


def _elastic_problems(spec: PolicySpec, gates: Mapping[str, bool]) -> Iterator[Problem]:
    if not gates.get(ELASTIC_GATE, True):
        yield Problem(
            KueueReason.ELASTIC_SLICES_OFF,
            f"feature gate {ELASTIC_GATE} is off, so no job can grow or shrink: "
            f"remove it from featureGates {_WHERE}",
        )
    elif spec.topology and not gates.get(ELASTIC_TOPOLOGY_GATE, False):
        yield Problem(
            KueueReason.ELASTIC_TOPOLOGY_OFF,
            f"the policy has a topology and feature gate {ELASTIC_TOPOLOGY_GATE} (alpha) is off, "
            "so Kueue places an elastic job at each new size without regard to its running pods: "
            f"add it to featureGates {_WHERE}, or leave topology out where jobs are elastic",
        )


def _framework_problems(config: KueueConfig) -> Iterator[Problem]:
    if JOB_FRAMEWORK not in config.frameworks:
        yield Problem(
            KueueReason.JOBS_NOT_QUEUED,
            f"{JOB_FRAMEWORK} is not in integrations.frameworks, so Kueue queues no Jobs: "
            f"add it {_WHERE}",
        )
    if POD_FRAMEWORK not in config.frameworks:
        yield Problem(
            KueueReason.PODS_NOT_QUEUED,
            f"{POD_FRAMEWORK} is not in integrations.frameworks, so pods with accelerators of "
            f"kinds that Kueue does not queue escape all quotas: add it {_WHERE}",
        )


def _namespace_problems(
    config: KueueConfig, gates: Mapping[str, bool], guard_labels: Mapping[str, str]
) -> Iterator[Problem]:
    # without the gate Kueue queues every job that names a queue
    if gates.get(NAMESPACE_GATE, True) and not selects(config.namespaces, guard_labels):
        yield Problem(
            KueueReason.GUARDS_NOT_QUEUED,
            f"managedJobsNamespaceSelector does not select namespace {names.GUARD_NAMESPACE}, so a "
            "job that takes capacity past its team's own quota fails to get it: "
            f"label the namespace, or change the selector {_WHERE}",
        )
