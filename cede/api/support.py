"""PURE. The versions that Cede was tested with, and those that it cannot work with."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from cede.api.reasons import KubernetesReason

OLDEST_KUEUE = (0, 19, 2)
TESTED_KUEUE = (0, 19)
"""The newest minor version that the cells of `make matrix` have. Newer ones may work."""
OLDEST_KUBERNETES = (1, 30)
"""ValidatingAdmissionPolicy is generally available since then."""
TESTED_KUBERNETES = ((1, 35), (1, 36), (1, 37))
"""Those that passed `make matrix`, and that of the local cluster, which all tests use."""
FREEZING_KUBERNETES = (1, 36)
FREEZING_API = "/apis/scheduling.k8s.io/v1alpha2"
"""It is served if feature gate GenericWorkload is on. This version alone refuses to resize a Job
that has a PodGroup with a gang (plugin/pkg/admission/job)."""


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """What an API server tells everybody about itself."""

    # such as v1.36.3
    version: str
    # whether it serves `FREEZING_API`
    has_gangs: bool = False


class Support(NamedTuple):
    # None is Unknown
    status: bool | None
    reason: KubernetesReason
    # with the cure, unless the status is True
    message: str


def text_of(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def tested_versions() -> str:
    return ", ".join(map(text_of, TESTED_KUBERNETES))


def judge(kubernetes: Kubernetes | None) -> Support:
    """Whether Cede works with this Kubernetes; with None, its version could not be read."""
    version = kubernetes.version if kubernetes else ""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if kubernetes is None or match is None:
        return Support(None, KubernetesReason.UNREADABLE, "its version cannot be read")
    major_minor = (int(match[1]), int(match[2]))
    if major_minor < OLDEST_KUBERNETES:
        return Support(
            False,
            KubernetesReason.TOO_OLD,
            f"{version} has no ValidatingAdmissionPolicy: upgrade it to "
            f"{text_of(OLDEST_KUBERNETES)} or newer",
        )
    if major_minor == FREEZING_KUBERNETES and kubernetes.has_gangs:
        return Support(
            False,
            KubernetesReason.JOBS_FROZEN,
            f"{version} with feature gate GenericWorkload refuses to resize a Job that has a "
            "PodGroup with a gang, which WorkloadWithJob makes for every Indexed Job of two pods "
            "or more, so elastic jobs do not grow and are stopped instead of shrunk: turn the "
            "gates off, or upgrade to 1.37",
        )
    if major_minor not in TESTED_KUBERNETES:
        return Support(
            None,
            KubernetesReason.UNTESTED,
            f"{version}; Cede was tested with {tested_versions()}",
        )
    return Support(True, KubernetesReason.TESTED, version)
