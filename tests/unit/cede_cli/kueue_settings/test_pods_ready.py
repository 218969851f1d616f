"""Kueue's settings of waitForPodsReady, with Kueue's own defaults."""

import pytest

from cede.api.policy import PolicySpec
from cede.kueue_settings.checks import verdict
from cede.kueue_settings.config import CONFIG_KEY, KueueInstallation
from cede.kueue_settings.pods_ready import PodsReadySettings, parse_go_duration, read_settings


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        pytest.param({}, PodsReadySettings(1800, 1800), id="Kueue's defaults"),
        pytest.param({"timeout": "5m"}, PodsReadySettings(300, 300), id="the same for recovery"),
        pytest.param(
            {"timeout": "5m", "recoveryTimeout": "1m"}, PodsReadySettings(300, 60), id="both"
        ),
        pytest.param(
            {"timeout": "5m", "recoveryTimeout": "0s"}, PodsReadySettings(300, 0), id="never"
        ),
        pytest.param({"timeout": ["odd"]}, PodsReadySettings(1800, 1800), id="no duration"),
        pytest.param({"blockAdmission": True}, PodsReadySettings(1800, 1800, True), id="blocks"),
    ],
)
def test_settings(section: dict[str, object], expected: PodsReadySettings) -> None:
    assert read_settings(section, is_v1beta1=False) == expected


def test_the_older_default() -> None:
    assert read_settings({}, is_v1beta1=True) == PodsReadySettings(300, 300, True)
    off = read_settings({"blockAdmission": False}, is_v1beta1=True)
    assert not off.blocks_admission


@pytest.mark.parametrize(
    ("recovery_s", "expected"),
    [
        pytest.param(0, False, id="never"),
        pytest.param(60, True, id="a minute"),
        pytest.param(600, False, id="ten minutes"),
    ],
)
def test_a_job_that_lost_a_pod_is_evicted_soon(recovery_s: float, expected: bool) -> None:
    assert PodsReadySettings(300, recovery_s).evicts_soon is expected


@pytest.mark.parametrize(("timeout", "is_short"), [("119s", True), ("2m", False)])
def test_a_timeout_at_which_kueue_ends_guards_is_reported(timeout: str, is_short: bool) -> None:
    config = f"waitForPodsReady: {{timeout: {timeout}, recoveryTimeout: 15m}}"
    kueue = KueueInstallation({"data": {CONFIG_KEY: config}}, {})
    message = verdict(PolicySpec(), kueue, {}).message
    problem = (
        "waitForPodsReady.timeout is 119 s: Kueue evicts the guard of a job that takes capacity "
        "past its team's own quota after so long, because the guard's pod is never ready: set it "
        "to 2m or more in ConfigMap kueue-manager-config, then restart Kueue"
    )
    assert (problem in message) is is_short
    assert ("waitForPodsReady.timeout" in message) is is_short


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("0", 0),
        ("0s", 0),
        ("", None),
        ("5", None),
        ("5m and more", None),
        (None, None),
    ],
)
def test_durations_of_go(text: str | None, seconds: float | None) -> None:
    assert parse_go_duration(text) == seconds
