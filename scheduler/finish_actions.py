"""PURE. What a plan may ask for when a pod has come too late for its job."""

from dataclasses import dataclass

from cede.api.objects import Key
from cede.api.surplus import Base


@dataclass(frozen=True, slots=True)
class ReportFinish:
    """Report to each of these pods that pod 0 of its Job has succeeded."""

    job: Key
    job_uid: str
    addresses: tuple[str, ...]
    # of a surplus: what it belongs to
    base: Base | None = None

    @property
    def log_fields(self) -> dict[str, object]:
        return {"job": "/".join(self.job)}
