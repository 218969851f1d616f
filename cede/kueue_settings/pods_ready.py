"""PURE. Kueue's waitForPodsReady: when Kueue evicts a job whose pods are not all ready."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DEFAULT_TIMEOUT_S = 1800.0
_DEFAULT_TIMEOUT_V1BETA1_S = 300.0
"""Kueue: DefaultWaitForPodsReadyTimeout in apis/config/v1beta2/defaults.go, and v1beta1."""
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
SHORTEST_RECOVERY_S = 600.0
"""Nodes that restart, or are replaced, are back by then in most clusters."""


@dataclass(frozen=True)
class PodsReadySettings:
    """Seconds after which Kueue evicts a job whose pods are not all ready; 0 for never."""

    # from the job's admission, or its growth, to the first time that all pods are ready
    start_s: float = 0.0
    # from the moment that a pod is not ready any more
    recovery_s: float = 0.0
    # True if Kueue admits nobody while pods of an admitted job are not ready
    blocks_admission: bool = False

    @property
    def evicts_soon(self) -> bool:
        """Whether a job that lost a pod is evicted before most nodes can be back."""
        return 0 < self.recovery_s < SHORTEST_RECOVERY_S


def read_settings(section: Mapping[str, Any], *, is_v1beta1: bool) -> PodsReadySettings:
    """Of a section waitForPodsReady that is in effect, with Kueue's defaults filled in."""
    default_s = _DEFAULT_TIMEOUT_V1BETA1_S if is_v1beta1 else _DEFAULT_TIMEOUT_S
    start_s = parse_go_duration(section.get("timeout")) or default_s
    recovery_s = parse_go_duration(section.get("recoveryTimeout"))
    blocks = section.get("blockAdmission")
    return PodsReadySettings(
        start_s,
        start_s if recovery_s is None else recovery_s,
        # Kueue: apis/config/v1beta2/defaults.go, and v1beta1
        is_v1beta1 if blocks is None else blocks is True,
    )


def parse_go_duration(value: object) -> float | None:
    """Seconds of `1h30m`, `90s` or `1.5h`; None if it is no duration (Go: time.ParseDuration)."""
    text = str(value).removeprefix("+")
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
