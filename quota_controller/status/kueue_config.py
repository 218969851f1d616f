"""PURE. Whether Kueue is there, new enough, and set as the policy wants; what is not is told with
its cure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cede.api.objects import Json, Key
from cede.api.policy import PolicySpec

NAMESPACE = "kueue-system"
CONFIG_MAP: Key = (NAMESPACE, "kueue-manager-config")
CONFIG_KEY = "controller_manager_config.yaml"
DEPLOYMENT: Key = (NAMESPACE, "kueue-controller-manager")
OLDEST = (0, 19, 2)
ELASTIC = "ElasticJobsViaWorkloadSlices"
ELASTIC_PLACED = "ElasticJobsViaWorkloadSlicesWithTAS"
JOBS = "batch/job"
PODS = "pod"


@dataclass(frozen=True)
class Kueue:
    """What was found of Kueue itself."""

    config_map: Json | None = None
    deployment: Json | None = None
    # why we could not look
    trouble: str = ""


Verdict = tuple[bool | None, str, str]
"""(as the policy wants, reason, sentence)."""
Problem = tuple[str, str]


@dataclass(frozen=True)
class Settings:
    """What of Kueue's configuration matters here, with its defaults filled in."""

    waits_for_pods: bool
    fair_sharing: bool
    gates: Mapping[str, bool]
    frameworks: tuple[str, ...]


def parse(text: str) -> Settings:
    """Kueue's configuration file. Raises ValueError when it is none."""
    try:
        found = yaml.safe_load(text)
        found = {} if found is None else found
    except (yaml.YAMLError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # tags of YAML let its parser stumble
        raise ValueError(f"it is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    # In v1beta1 both have a switch. In v1beta2 fairSharing is on by being there, waitForPodsReady
    # always (defaults.go).
    switched = str(found.get("apiVersion", "")).endswith("/v1beta1")
    waits = _part(found, "waitForPodsReady")
    shares = _part(found, "fairSharing")
    named = _part(found, "integrations").get("frameworks")
    return Settings(
        waits_for_pods=bool(waits.get("enable")) if switched else True,
        fair_sharing=bool(shares.get("enable"))
        if switched
        else found.get("fairSharing") is not None,
        gates={str(name): on is True for name, on in _part(found, "featureGates").items()},
        frameworks=tuple(map(str, named)) if isinstance(named, list) else (JOBS,),
    )


def _part(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


# --- the Deployment -------------------------------------------------------------------------------
def version_of(image: str) -> tuple[int, ...] | None:
    """(0, 19, 2) of `registry.k8s.io/kueue/kueue:v0.19.2`; None when the tag tells no version."""
    found = re.search(r":v?(\d+)\.(\d+)\.(\d+)(?:[-+.][\w.+-]*)?(?:@\S*)?$", image)
    return tuple(map(int, found.groups())) if found else None


def _container(deployment: Json) -> Json:
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get(
        "containers"
    ) or [{}]
    return next((one for one in containers if one.get("name") == "manager"), containers[0])


def gates_of(deployment: Json) -> dict[str, bool]:
    """Feature gates from the command line; Kueue takes them from there or from the file, never from
    both."""
    container = _container(deployment)
    words = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
    pairs = [
        pair.partition("=")
        for found in re.findall(r"--feature-gates[= ](\S+)", words)
        for pair in found.split(",")
    ]
    return {name: value.lower() == "true" for name, _, value in pairs}


# --- the verdict ----------------------------------------------------------------------------------
def verdict(spec: PolicySpec, kueue: Kueue) -> Verdict:
    """Everything that is wrong at once; None when it cannot be known."""
    config_map = kueue.config_map
    deployment = kueue.deployment
    trouble = kueue.trouble
    if trouble:
        return None, "Unreadable", f"Kueue's settings cannot be read: {trouble}"
    if deployment is None:
        where = f"Deployment {DEPLOYMENT[1]} in namespace {DEPLOYMENT[0]}"
        return (
            None,
            "NotFound",
            (
                f"there is no {where}: Kueue is not installed, or elsewhere, so its settings are "
                f"not "
                f"checked"
            ),
        )
    if config_map is None:
        return (
            None,
            "NoSettings",
            (
                f"there is no ConfigMap {CONFIG_MAP[1]} in namespace {CONFIG_MAP[0]}: Kueue's "
                f"settings are not checked"
            ),
        )
    try:
        found = parse((config_map.get("data") or {}).get(CONFIG_KEY, ""))
    except ValueError as error:
        return (
            None,
            "Unreadable",
            f"{CONFIG_KEY} in ConfigMap {CONFIG_MAP[1]} cannot be read: {error}",
        )
    if problems := [
        *_deployed(deployment),
        *_settings(spec, found, {**found.gates, **gates_of(deployment)}),
    ]:
        return False, problems[0][0], "; ".join(sentence for _, sentence in problems)
    version = version_of(_container(deployment).get("image", ""))
    named = f"Kueue {'.'.join(map(str, version))}" if version else "Kueue"
    return (
        True,
        "AsThePolicyWants",
        f"{named} is set as the policy wants; it queues {', '.join(sorted(found.frameworks))}",
    )


def _deployed(deployment: Json) -> Iterator[Problem]:
    image = _container(deployment).get("image", "")
    version = version_of(image)
    least = ".".join(map(str, OLDEST))
    if version and version < OLDEST:
        yield (
            "TooOld",
            f"Kueue is {'.'.join(map(str, version))} and must be {least} or newer: upgrade it",
        )
    if deployment.get("spec", {}).get("replicas", 1) == 0:
        yield (
            "NotRunning",
            f"Kueue is scaled to 0, so nothing is admitted: scale Deployment {DEPLOYMENT[1]} up",
        )


def _settings(spec: PolicySpec, found: Settings, gates: Mapping[str, bool]) -> Iterator[Problem]:
    cure = f"in ConfigMap {CONFIG_MAP[1]}, then restart Kueue"
    if not found.waits_for_pods:
        yield (
            "WaitForPodsReadyOff",
            (
                f"waitForPodsReady is off, so a job whose pods do not all get ready keeps its "
                f"quota for ever: set waitForPodsReady {cure}"
            ),
        )
    if spec.idleCompute == "FairShare" and not found.fair_sharing:
        yield (
            "FairSharingOff",
            (
                f"idleCompute is FairShare and Kueue's fairSharing is off, so weights count for "
                f"nothing: set fairSharing {cure}"
            ),
        )
    # equal weights and weights of 0 order by share too (CompareDRS)
    if spec.idleCompute == "FirstCome" and found.fair_sharing:
        yield (
            "FairSharingOn",
            (
                "idleCompute is FirstCome and Kueue's fairSharing is on, so who borrows least "
                "still goes first, whatever the weights: "
                f"remove fairSharing {cure}, or set idleCompute: FairShare"
            ),
        )
    if not gates.get(ELASTIC, True):
        yield (
            "ElasticSlicesOff",
            (
                f"feature gate {ELASTIC} is off, so no job can grow or shrink: remove it from "
                f"featureGates {cure}"
            ),
        )
    elif spec.topology and not gates.get(ELASTIC_PLACED, False):
        yield (
            "ElasticTopologyOff",
            (
                f"the policy has a topology and feature gate {ELASTIC_PLACED} (alpha) is off, so "
                f"Kueue places an elastic job anew at each "
                f"size, whatever runs where: add it to featureGates {cure}, or leave topology out "
                f"where jobs are elastic"
            ),
        )
    if JOBS not in found.frameworks:
        yield (
            "JobsNotQueued",
            f"{JOBS} is not in integrations.frameworks, so Kueue queues no Jobs: add it {cure}",
        )
    if PODS not in found.frameworks:
        why = "so pods with accelerators of kinds that Kueue does not queue run past every quota"
        yield "PodsNotQueued", f"{PODS} is not in integrations.frameworks, {why}: add it {cure}"
