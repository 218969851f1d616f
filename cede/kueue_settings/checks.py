"""PURE. Whether Kueue is installed, new enough, and configured as the policy needs."""

from collections.abc import Iterator, Mapping

from cede.api import guards, names
from cede.api.objects import Json
from cede.api.policy import PolicySpec
from cede.api.reasons import KueueReason
from cede.api.support import OLDEST_KUEUE, TESTED_KUEUE, text_of
from cede.api.verdict import Verdict
from cede.kueue_settings.config import (
    CONFIG_KEY,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB_FRAMEWORK,
    NAMESPACE,
    KueueConfig,
    KueueInstallation,
    feature_gates_of,
    image_of,
    parse,
    version_of,
)
from cede.kueue_settings.managed_namespaces import selects
from cede.kueue_settings.pods_ready import SHORTEST_RECOVERY_S, PodsReadySettings

ELASTIC_GATE = "ElasticJobsViaWorkloadSlices"
ELASTIC_TOPOLOGY_GATE = "ElasticJobsViaWorkloadSlicesWithTAS"
NAMESPACE_GATE = "ManagedJobsNamespaceSelectorAlwaysRespected"
POD_FRAMEWORK = "pod"


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
    version = version_of(image_of(kueue.deployment))
    product = f"Kueue {text_of(version)}" if version else "Kueue"
    if version and version[:2] > TESTED_KUEUE:
        return Verdict(
            None,
            KueueReason.UNTESTED,
            f"{product} was not tried; Cede was tested with {text_of(TESTED_KUEUE)}. Its settings "
            "are as the policy needs them there",
        )
    return Verdict(
        True,
        KueueReason.CONFIGURED,
        f"{product} is configured as the policy needs; it queues "
        f"{', '.join(sorted(config.frameworks))}",
    )


def _deployment_problems(deployment: Json) -> Iterator[Verdict]:
    version = version_of(image_of(deployment))
    if version and version < OLDEST_KUEUE:
        yield Verdict(
            False,
            KueueReason.TOO_OLD,
            f"Kueue is {text_of(version)} and must be {text_of(OLDEST_KUEUE)} or newer: upgrade it",
        )
    if deployment.get("spec", {}).get("replicas", 1) == 0:
        yield Verdict(
            False,
            KueueReason.NOT_RUNNING,
            f"Kueue is scaled to 0, so nothing is admitted: scale Deployment {DEPLOYMENT[1]} up",
        )


_WHERE = f"in ConfigMap {CONFIG_MAP[1]}, then restart Kueue"


def _sharing_problems(spec: PolicySpec, config: KueueConfig) -> Iterator[Verdict]:
    yield from _waiting_problems(config.pods_ready)
    if spec.idleCompute == "FairShare" and not config.fair_sharing:
        yield Verdict(
            False,
            KueueReason.FAIR_SHARING_OFF,
            "idleCompute is FairShare and Kueue's fairSharing is off, so weights have no effect: "
            f"set fairSharing {_WHERE}",
        )
    # With fair sharing on, Kueue orders by share even if all weights are equal or 0
    # (pkg/cache/scheduler/fair_sharing.go, CompareDRS).
    if spec.idleCompute == "FirstCome" and config.fair_sharing:
        yield Verdict(
            False,
            KueueReason.FAIR_SHARING_ON,
            "idleCompute is FirstCome and Kueue's fairSharing is on, so the team that borrows "
            "least still goes first, whatever the weights: "
            f"remove fairSharing {_WHERE}, or set idleCompute: FairShare",
        )


def _waiting_problems(settings: PodsReadySettings | None) -> Iterator[Verdict]:
    if settings is None:
        yield Verdict(
            False,
            KueueReason.WAIT_FOR_PODS_READY_OFF,
            "waitForPodsReady is off, so a job keeps its quota even if its pods never get ready: "
            f"set waitForPodsReady {_WHERE}",
        )
        return
    if settings.start_s < guards.LIMIT_S:
        yield Verdict(
            False,
            KueueReason.START_TIMEOUT_SHORT,
            f"waitForPodsReady.timeout is {settings.start_s:g} s: Kueue evicts the guard of a job "
            "that takes capacity past its team's own quota after so long, because the guard's pod "
            f"is never ready: set it to {guards.LIMIT_S / 60:g}m or more {_WHERE}",
        )
    if settings.evicts_soon:
        yield Verdict(
            False,
            KueueReason.RECOVERY_TIMEOUT_SHORT,
            f"waitForPodsReady.recoveryTimeout is {settings.recovery_s:g} s: Kueue evicts an "
            "elastic job whole if one of its pods is away for so long, though the others train "
            f"on: set it to {SHORTEST_RECOVERY_S / 60:g}m or more {_WHERE}",
        )
    if settings.blocks_admission:
        yield Verdict(
            False,
            KueueReason.BLOCK_ADMISSION_ON,
            "waitForPodsReady.blockAdmission is on: Kueue admits nobody while pods of any job are "
            "not ready, and a job that takes capacity past its team's own quota fails to get it: "
            f"set it to false {_WHERE}",
        )


def _elastic_problems(spec: PolicySpec, gates: Mapping[str, bool]) -> Iterator[Verdict]:
    if not gates.get(ELASTIC_GATE, True):
        yield Verdict(
            False,
            KueueReason.ELASTIC_SLICES_OFF,
            f"feature gate {ELASTIC_GATE} is off, so no job can grow or shrink: "
            f"remove it from featureGates {_WHERE}",
        )
    elif spec.topology and not gates.get(ELASTIC_TOPOLOGY_GATE, False):
        yield Verdict(
            False,
            KueueReason.ELASTIC_TOPOLOGY_OFF,
            f"the policy has a topology and feature gate {ELASTIC_TOPOLOGY_GATE} (alpha) is off, "
            "so Kueue places an elastic job at each new size without regard to its running pods: "
            f"add it to featureGates {_WHERE}, or leave topology out where jobs are elastic",
        )


def _framework_problems(config: KueueConfig) -> Iterator[Verdict]:
    if JOB_FRAMEWORK not in config.frameworks:
        yield Verdict(
            False,
            KueueReason.JOBS_NOT_QUEUED,
            f"{JOB_FRAMEWORK} is not in integrations.frameworks, so Kueue queues no Jobs: "
            f"add it {_WHERE}",
        )
    if POD_FRAMEWORK not in config.frameworks:
        yield Verdict(
            False,
            KueueReason.PODS_NOT_QUEUED,
            f"{POD_FRAMEWORK} is not in integrations.frameworks, so pods with accelerators of "
            f"kinds that Kueue does not queue escape all quotas: add it {_WHERE}",
        )


def _namespace_problems(
    config: KueueConfig, gates: Mapping[str, bool], guard_labels: Mapping[str, str]
) -> Iterator[Verdict]:
    # without the gate Kueue queues every job that names a queue
    if gates.get(NAMESPACE_GATE, True) and not selects(config.namespaces, guard_labels):
        yield Verdict(
            False,
            KueueReason.GUARDS_NOT_QUEUED,
            f"managedJobsNamespaceSelector does not select namespace {names.GUARD_NAMESPACE}, so a "
            "job that takes capacity past its team's own quota fails to get it: "
            f"label the namespace, or change the selector {_WHERE}",
        )
