"""PURE. A take-back that does not begin, because too many jobs would have to give."""

from collections.abc import Iterator

from cede.api.cession_status import MAX_TARGETS
from cede.api.kueue import Workload
from cede.api.objects import unix_or_zero
from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.take_back import who_preempts

NO_TIME = "nothing is taken back while so many jobs use it"
_REASONS = frozenset(map(str, WaitReason))


def too_many_targets(workload: Workload, index: Index) -> Iterator[Cause]:
    if is_oversized(workload, index) and not who_preempts(index):
        yield Cause(
            WaitReason.TOO_MANY_TARGETS,
            f"More than {MAX_TARGETS:,} jobs would have to release what it lacks, and one Cession "
            "takes from no more, so nothing is taken back for it.",
            "submit it as several smaller jobs, or an admin ends some of the small jobs",
            no_estimate=NO_TIME,
        )


def is_oversized(workload: Workload, index: Index) -> bool:
    """Only the scheduler knows which jobs would give. Its last event about the job says so."""
    snapshot = index.snapshot
    if workload.metadata.uid in snapshot.oversized:
        return True
    recorded = [event for event in snapshot.events if event.reason in _REASONS]
    last = max(recorded, key=lambda event: unix_or_zero(event.last_time), default=None)
    return last is not None and last.reason == WaitReason.TOO_MANY_TARGETS
