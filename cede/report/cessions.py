"""PURE. A Cession in the words of a report."""

from dataclasses import dataclass

from cede.api.cession import Cession


@dataclass(frozen=True)
class CessionSummary:
    name: str
    phase: str
    # namespace/job
    preemptor: str
    # namespace/job and its sizes, for each target
    targets: str
    # from the creation of the preemptor to its pods being ready; empty until then
    seconds: str
    age_s: int
    why: str
    message: str


def summarize(cession: Cession, now: float) -> CessionSummary:
    preemptor = cession.spec.preemptor
    targets = [
        f"{target.namespace}/{target.job or target.workload} {target.fromSize} → {target.toSize}"
        for target in cession.spec.targets
    ]
    return CessionSummary(
        name=cession.metadata.name,
        phase=cession.status.phase,
        preemptor=f"{preemptor.namespace}/{preemptor.job or preemptor.workload}",
        targets=", ".join(targets),
        seconds=cession.status.secondsToReady,
        age_s=max(0, round(now - cession.metadata.created)),
        why=cession.spec.why,
        message=cession.status.message,
    )
