"""PURE. Kueue's configuration file and its Deployment, as far as they matter to Cede."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cede.api.objects import Json, Key
from cede.kueue_settings.pods_ready import PodsReadySettings, read_settings

NAMESPACE = "kueue-system"
CONFIG_MAP: Key = (NAMESPACE, "kueue-manager-config")
CONFIG_KEY = "controller_manager_config.yaml"
DEPLOYMENT: Key = (NAMESPACE, "kueue-controller-manager")
JOB_FRAMEWORK = "batch/job"


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


def image_of(deployment: Json) -> str:
    """That of the container that manages; of the first without one of that name."""
    return str(_manager_container(deployment).get("image", ""))


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
