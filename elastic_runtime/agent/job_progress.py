"""What the pods of a job reported about its training so far, and what all of it adds up to."""

from dataclasses import dataclass, field, replace
from statistics import median

from elastic_runtime.agent import metrics, status_text
from elastic_runtime.agent.coordination import CoordinatorState, WorkDone
from elastic_runtime.messages import Progress

# The pace of a job is the median of its last steps.
MAX_STEPS = 21


@dataclass
class JobProgress:
    """The fields are those of `Progress`."""

    step: int = 0
    loss: float | None = None
    step_seconds: list[float] = field(default_factory=list)
    pause_s: float = 0.0
    durable_step: int = 0
    digest: str = ""
    save_s: float = 0.0
    message: str = ""
    save_message: str = ""
    size_message: str = ""
    # What became of pods, by pod, until they train again.
    failures: dict[int, str] = field(default_factory=dict)
    finished: bool = False
    tally: metrics.Tally = field(default_factory=metrics.Tally)
    # By pod.
    done: dict[int, WorkDone] = field(default_factory=dict)
    own_s: dict[int, float] = field(default_factory=dict)

    @property
    def median_step_s(self) -> float:
        return median(self.step_seconds) if self.step_seconds else 0.0

    @property
    def samples_per_second(self) -> float:
        """At the pace of the last steps."""
        done = self.tally.done
        if not done.steps or not self.median_step_s:
            return 0.0
        return done.samples / done.steps / self.median_step_s

    def text(self, wanted: int | None) -> str:
        """All messages in one. Pods beyond the size that was `wanted` last are not missed."""
        failures = {
            index: reason for index, reason in self.failures.items() if not wanted or index < wanted
        }
        return status_text.message(failures, self.message, self.save_message, self.size_message)

    def recover(self, kept: CoordinatorState) -> None:
        """Take over what a pod kept of the last coordinator's knowledge, if it is newer."""
        if self.durable_step < kept.durable_step:
            self.durable_step = kept.durable_step
            self.digest = kept.digest
            self.save_s = kept.save_s

    def add(
        self, index: int, done: WorkDone, progress: Progress, members: tuple[int, ...], abrupt: bool
    ) -> None:
        """Take in what pod `index` reported, in a generation of these `members`.

        Only the leading pod's report counts, except messages, the end of the job, and a save: the
        pod that led when the save began may no longer lead when it ends.
        """
        if progress.failure:
            self.failures[index] = progress.failure
        elif progress.step is not None or progress.failure is not None:
            self.failures.pop(index, None)
        new_work = metrics.work_since(done, self.done.get(index, done))
        self.done[index] = done
        if members[:1] == (index,):
            self.tally.add_work(new_work)
        elif members:
            progress = self._reported_by_other(progress)
        self._update(progress)
        if progress.pause_s is not None:
            self.tally.add_pause(progress.pause_s, abrupt)
        if progress.save_s is not None:
            self.tally.add_save(progress.stall_s or 0.0)

    def _reported_by_other(self, progress: Progress) -> Progress:
        """What counts of the report of a pod that does not lead."""
        kept = Progress(
            message=progress.message,
            save_message=progress.save_message,
            size_message=progress.size_message,
            finished=progress.finished,
        )
        if (progress.durable_step or 0) <= self.durable_step:
            return kept
        return replace(
            kept,
            durable_step=progress.durable_step,
            digest=progress.digest,
            save_s=progress.save_s,
            stall_s=progress.stall_s,
        )

    def _update(self, progress: Progress) -> None:
        self.step = self.step if progress.step is None else progress.step
        self.loss = self.loss if progress.loss is None else progress.loss
        self.pause_s = self.pause_s if progress.pause_s is None else progress.pause_s
        if progress.seconds is not None:
            self.step_seconds = [*self.step_seconds[1 - MAX_STEPS :], progress.seconds]
        if progress.durable_step is not None:
            self.durable_step = progress.durable_step
        self.digest = self.digest if progress.digest is None else progress.digest
        self.save_s = self.save_s if progress.save_s is None else progress.save_s
        if progress.message is not None:
            self.message = progress.message
        if progress.save_message is not None:
            self.save_message = progress.save_message
        if progress.size_message is not None:
            self.size_message = progress.size_message
        self.finished = self.finished if progress.finished is None else progress.finished
