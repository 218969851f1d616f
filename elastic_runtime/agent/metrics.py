"""What a job and a pod did, as Prometheus text: numbers only, since whoever reaches the port may
read them. Pure.

Where the time went (`seconds_total` by cause) adds up to the job's life, but for what a script does
between two steps of its own:
train    steps committed, by the leading pod's clock
resize   what planned changes of size added between two steps
recover  the same for those after a loss, the step in flight included
save     the last save of a stop, and what other saves kept steps waiting for
wait     for the smallest size to be there, or parked
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elastic_runtime.contract import State, Status

CAUSES = ("train", "resize", "recover", "save", "wait")
_BY_STATE = {State.STARTING: "wait", State.STOPPED: "wait", State.STOPPING: "save"}


@dataclass
class Done:
    """Grows only, while one parent lives."""

    steps: int = 0
    samples: int = 0
    # in steps
    seconds: float = 0.0

    def plus(self, samples: int, seconds: float) -> "Done":
        """After one step more."""
        return Done(self.steps + 1, self.samples + samples, self.seconds + seconds)

    def since(self, before: "Done") -> "Done":
        """What came since; all of it when the one who counts is another."""
        if before.steps > self.steps:
            return self
        return Done(
            self.steps - before.steps, self.samples - before.samples, self.seconds - before.seconds
        )


@dataclass
class Tally:
    """Counted since this coordinator began; a new one begins at nothing, as Prometheus expects of
    counters."""

    done: Done = field(default_factory=Done)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))
    resizes: int = 0
    recoveries: int = 0
    saves: int = 0

    def worked(self, more: Done) -> None:
        self.done = Done(
            self.done.steps + more.steps,
            self.done.samples + more.samples,
            self.done.seconds + more.seconds,
        )
        self.seconds["train"] += more.seconds

    def paused(self, seconds: float, abrupt: bool) -> None:
        self.seconds["recover" if abrupt else "resize"] += seconds
        self.resizes = self.resizes + (not abrupt)
        self.recoveries = self.recoveries + abrupt

    def saved(self, stall_s: float) -> None:
        self.saves += 1
        self.seconds["save"] += stall_s

    def passed(self, seconds: float, state: str) -> None:
        """So long the job was in this state."""
        if state in _BY_STATE:
            self.seconds[_BY_STATE[state]] += seconds


def of_job(status: Status, tally: Tally) -> str:
    """What pod 0 knows."""
    done = tally.done
    per_step = done.samples / done.steps if done.steps else 0.0
    rate = (
        per_step / status.stepSeconds
        if status.stepSeconds and status.state == State.TRAINING
        else 0.0
    )
    return _text(
        [
            ("step", "gauge", "Committed steps of the job.", {"": status.step}),
            ("step_seconds", "gauge", "Median of the last steps.", {"": status.stepSeconds}),
            (
                "samples_per_second",
                "gauge",
                "At that pace; 0 while the job does not train.",
                {"": rate},
            ),
            ("pods", "gauge", "Pods that train.", {"": status.size}),
            ("generation", "gauge", "Number of the membership.", {"": status.generation}),
            ("durable_step", "gauge", "Step of the newest save.", {"": status.durableStep}),
            (
                "pause_seconds",
                "gauge",
                "What the last change of membership added between two steps.",
                {"": status.pauseSeconds},
            ),
            ("save_seconds", "gauge", "What the last save took.", {"": status.saveSeconds}),
            ("steps_total", "counter", "Steps committed.", {"": done.steps}),
            ("samples_total", "counter", "Samples of those steps.", {"": done.samples}),
            ("resizes_total", "counter", "Planned changes of membership.", {"": tally.resizes}),
            (
                "recoveries_total",
                "counter",
                "Changes of membership because somebody was lost.",
                {"": tally.recoveries},
            ),
            ("saves_total", "counter", "Durable saves.", {"": tally.saves}),
            (
                "seconds_total",
                "counter",
                "Where the job's time went.",
                {f'{{cause="{cause}"}}': tally.seconds[cause] for cause in CAUSES},
            ),
        ]
    )


def of_pod(step: int, deaths: int, hung: int, answer_s: float) -> str:
    """What every pod knows. `answer_s`: the slowest of the last answers of its processes."""
    return _text(
        [
            ("pod_step", "gauge", "Last step this pod committed.", {"": step}),
            (
                "pod_answer_seconds",
                "gauge",
                "Slowest of the last answers of this pod's processes.",
                {"": answer_s},
            ),
            (
                "pod_deaths_total",
                "counter",
                "Processes of this pod that died and were started again.",
                {"": deaths},
            ),
            ("pod_hung_total", "counter", "Those of them that hung and were killed.", {"": hung}),
        ]
    )


def _text(families: Iterable[tuple[str, str, str, Mapping[str, float]]]) -> str:
    lines = list[str]()
    for name, kind, meaning, values in families:
        full = f"elastic_runtime_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
        lines += [
            f"{full}{labels} {value:.12g}"
            if isinstance(value, float)
            else f"{full}{labels} {value}"
            for labels, value in values.items()
        ]
    return "\n".join(lines) + "\n"
