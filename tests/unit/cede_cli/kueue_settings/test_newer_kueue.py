"""A Kueue that is newer than any that was tried is named, and stops nothing."""

import pytest

from cede.api.policy import PolicySpec
from cede.api.support import TESTED_KUEUE, text_of
from cede.kueue_settings.checks import verdict
from cede.kueue_settings.config import KueueInstallation
from tests.unit.cede_cli.kueue_settings.test_checks import LOCAL_CONFIG_MAP, deployment


@pytest.mark.parametrize(
    ("version", "status", "reason"),
    [
        (f"{text_of(TESTED_KUEUE)}.99", True, "Configured"),
        ("0.20.0", None, "Untested"),
        ("1.4.0", None, "Untested"),
    ],
)
def test_a_newer_minor_version_was_not_tried(
    version: str, status: bool | None, reason: str
) -> None:
    kueue = KueueInstallation(LOCAL_CONFIG_MAP, deployment(f"kueue:v{version}"))
    result = verdict(PolicySpec(), kueue, {})
    assert (result.status, result.reason) == (status, reason)
    is_named = f"Kueue {version} was not tried; Cede was tested with 0.19" in result.message
    assert is_named is (reason == "Untested")


def test_what_is_wrong_with_its_settings_comes_first() -> None:
    kueue = KueueInstallation(LOCAL_CONFIG_MAP, deployment("kueue:v0.20.0", replicas=0))
    assert verdict(PolicySpec(), kueue, {}).reason == "NotRunning"
