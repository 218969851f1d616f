"""Which versions of Kubernetes Cede works with."""

import pytest

from cede.api.reasons import KubernetesReason
from cede.api.support import TESTED_KUBERNETES, Kubernetes, judge, text_of


@pytest.mark.parametrize("version", TESTED_KUBERNETES)
def test_every_patch_of_a_tested_version_is_supported(version: tuple[int, int]) -> None:
    for patch in (0, 17):
        support = judge(Kubernetes(f"v{text_of(version)}.{patch}"))
        assert (support.status, support.reason) == (True, KubernetesReason.TESTED)


@pytest.mark.parametrize(
    ("kubernetes", "status", "reason", "message"),
    [
        (None, None, KubernetesReason.UNREADABLE, "cannot be read"),
        (Kubernetes("main"), None, KubernetesReason.UNREADABLE, "cannot be read"),
        (Kubernetes("v1.29.9"), False, KubernetesReason.TOO_OLD, "upgrade it to 1.30 or newer"),
        (Kubernetes("v1.34.1"), None, KubernetesReason.UNTESTED, "tested with 1.35, 1.36, 1.37"),
        (Kubernetes("v1.38.0"), None, KubernetesReason.UNTESTED, "v1.38.0; Cede was tested"),
        (Kubernetes("v1.36.3", True), False, KubernetesReason.JOBS_FROZEN, "turn the gates off"),
        (Kubernetes("v1.99.2", True), None, KubernetesReason.UNTESTED, "v1.99.2"),
        (Kubernetes("v1.36.3-gke.12"), True, KubernetesReason.TESTED, "v1.36.3-gke.12"),
    ],
)
def test_any_other_version_is_named_with_the_cure(
    kubernetes: Kubernetes | None, status: bool | None, reason: KubernetesReason, message: str
) -> None:
    support = judge(kubernetes)
    assert (support.status, support.reason) == (status, reason)
    assert message in support.message
