"""PURE. A Cession in the words of a report."""

from dataclasses import dataclass

from cede.api.cession import Cession, Target


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
    return CessionSummary(
        name=cession.metadata.name,
        phase=cession.status.phase,
        preemptor=job_of(cession),
        targets=", ".join(map(target_text, cession.spec.targets)),
        seconds=cession.status.secondsToReady,
        age_s=max(0, round(now - cession.metadata.created)),
        why=cession.spec.why,
        message=cession.status.message,
    )


def job_of(cession: Cession) -> str:
    """The namespace and name of the job that needs capacity."""
    preemptor = cession.spec.preemptor
    return f"{preemptor.namespace}/{preemptor.name}"


def target_text(target: Target) -> str:
    """A job that gives, and its sizes, such as `research/gpt 8 → 4`."""
    job = f"{target.namespace}/{target.name}"
    return f"{job} {target.fromSize} → {target.toSize}"
