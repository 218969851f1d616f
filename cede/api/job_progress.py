"""PURE. How far elastic jobs are, as the scheduler notes it in a ConfigMap of each namespace.

Members may write that ConfigMap, so what it says may be anything. It is only shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from cede.api import names
from cede.api.objects import Meta

KEY = "jobs"
"""Of the ConfigMap's data: the key with the JSON."""
FIELDS = f"metadata.name={names.PROGRESS}"
"""The field selector of these ConfigMaps: RBAC allows a list of no other ones."""
MAX_JOBS = 500
"""Of one namespace: also with the longest reasons they fit into the 1 MiB of a ConfigMap. A job
takes about 150 bytes, and 1.9 kB at most: two reasons of MAX_REASON characters of 4 bytes each.
7,000 jobs would fit while none has a reason, but then every write would be one of 1 MB. Those
beyond it are counted."""
MAX_REASON = 200
"""Characters of a reason."""
MAX_NUMBER = 2**53
"""Every JSON parser keeps integers up to this one exact."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]


class JobProgress(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Of one job. The times are Unix seconds by the scheduler's clock, 0 if they are not known."""

    # when its runtime last answered; 0: never
    answered: Number = 0
    # the steps that are committed
    step: Number = 0
    # the newest step that is saved; 0: none
    saved_step: Number = 0
    # when the scheduler first saw that this step is saved
    saved: Number = 0
    # of the last step, if the script reports it
    loss: float | None = None
    # why its last save failed; empty if it did not
    save_failure: Reason = ""
    # since when it does not answer, and why; 0 and empty if it does. A time without a reason: it
    # may still answer
    silent_since: Number = 0
    silence: Reason = ""


UNKNOWN = JobProgress()


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of the elastic jobs of one namespace that have quota."""

    # by the uid of the Job
    jobs: Mapping[str, JobProgress] = {}
    # how many jobs are not in it, because there are more than MAX_JOBS
    left_out: Number = 0

    def job(self, uid: str) -> JobProgress:
        """Of the Job with this uid; all unknown if nothing is noted."""
        return self.jobs.get(uid, UNKNOWN)

    def text(self) -> str:
        """Of the ConfigMap."""
        return msgspec.json.encode(self, order="sorted").decode()

    def left_out_sentence(self, namespace: str) -> str:
        """How many jobs of the namespace are not in it; empty if all are."""
        if not self.left_out:
            return ""
        return (
            f"namespace {namespace}: how far {self.left_out} jobs are is not known, because "
            f"ConfigMap {names.PROGRESS} holds {MAX_JOBS}: jobs that do not answer, and those that "
            "answered last"
        )


NOTHING = Progress()


@dataclass(frozen=True, slots=True)
class ProgressConfigMap:
    """A ConfigMap of this name, whoever wrote it."""

    metadata: Meta = field(default_factory=Meta)
    data: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> Progress | None:
    """None if the text is no such note: then nothing is known."""
    try:
        return msgspec.json.decode(text, type=Progress)
    except (ValueError, RecursionError):
        return None


def read(config_map: ProgressConfigMap) -> Progress | None:
    """What it says; None if that cannot be read."""
    return parse(config_map.data.get(KEY, "{}"))
