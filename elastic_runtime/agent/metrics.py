"""PURE. The counters and gauges of a job and of a pod, as Prometheus text.

Anybody who reaches the port may read them, so they are numbers only.

`seconds_total` counts the job's time by cause. The causes add up to the job's life, except for
what a script itself does between two steps:

train    committed steps, by the leading pod's clock
resize   what planned changes of size added between two steps
recover  the same for changes after a loss, the lost step in flight included
save     the last save before a stop, and the time that other saves kept steps waiting
wait     until the smallest size was there, or while the job was stopped
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elastic_runtime.agent.coordination import WorkDone
from elastic_runtime.contract import State, Status

CAUSES = ("train", "resize", "recover", "save", "wait")
_CAUSE_OF_STATE = {State.STARTING: "wait", State.STOPPED: "wait", State.STOPPING: "save"}


def add_step(done: WorkDone, samples: int, seconds: float) -> WorkDone:
    return WorkDone(done.steps + 1, done.samples + samples, done.seconds + seconds)


def work_since(done: WorkDone, before: WorkDone) -> WorkDone:
    """What was done after `before`; all of it if a new agent counts from 0."""
    if before.steps > done.steps:
        return done
    return WorkDone(
        done.steps - before.steps, done.samples - before.samples, done.seconds - before.seconds
    )


@dataclass
class Tally:
    """Counted by this coordinator. A new one starts at 0, as Prometheus expects of counters."""

    done: WorkDone = field(default_factory=WorkDone)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))
    resizes: int = 0
    recoveries: int = 0
    saves: int = 0

    def add_work(self, done: WorkDone) -> None:
        self.done = WorkDone(
            self.done.steps + done.steps,
            self.done.samples + done.samples,
            self.done.seconds + done.seconds,
        )
        self.seconds["train"] += done.seconds

    def add_pause(self, seconds: float, abrupt: bool) -> None:
        """`abrupt`: the membership changed because a pod was lost."""
        self.seconds["recover" if abrupt else "resize"] += seconds
        self.resizes += not abrupt
        self.recoveries += abrupt

    def add_save(self, stall_s: float) -> None:
        self.saves += 1
        self.seconds["save"] += stall_s

    def add_state(self, seconds: float, state: str) -> None:
        """The job was in this state for so long."""
        if state in _CAUSE_OF_STATE:
            self.seconds[_CAUSE_OF_STATE[state]] += seconds


def format_job(status: Status, tally: Tally) -> str:
    """The metrics that the coordinator adds to its own."""
    done = tally.done
    return _text(
        [
            ("step", "gauge", "Committed steps of the job.", {"": status.step}),
            ("step_seconds", "gauge", "Median of the last steps.", {"": status.stepSeconds}),
            (
                "samples_per_second",
                "gauge",
                "At the pace of the last steps; 0 while the job does not train.",
                {"": status.samplesPerSecond},
            ),
            ("pods", "gauge", "Pods that train.", {"": status.size}),
            ("generation", "gauge", "Number of the membership.", {"": status.generation}),
            ("durable_step", "gauge", "Step of the newest checkpoint.", {"": status.durableStep}),
            (
                "pause_seconds",
                "gauge",
                "What the last change of membership added between two steps.",
                {"": status.pauseSeconds},
            ),
            ("save_seconds", "gauge", "Duration of the last save.", {"": status.saveSeconds}),
            ("steps_total", "counter", "Steps committed.", {"": done.steps}),
            ("samples_total", "counter", "Samples of the committed steps.", {"": done.samples}),
            ("resizes_total", "counter", "Planned changes of membership.", {"": tally.resizes}),
            (
                "recoveries_total",
                "counter",
                "Changes of membership because a process or pod was lost.",
                {"": tally.recoveries},
            ),
            ("saves_total", "counter", "Checkpoints.", {"": tally.saves}),
            (
                "seconds_total",
                "counter",
                "Where the job's time went.",
                {f'{{cause="{cause}"}}': tally.seconds[cause] for cause in CAUSES},
            ),
        ]
    )


def format_pod(step: int, deaths: int, hangs: int, *, slowest_answer_s: float, own_s: float) -> str:
    """The metrics of every pod.

    `slowest_answer_s`: of the recent answers of its processes. `own_s`: for its part of a step.
    """
    return _text(
        [
            ("pod_step", "gauge", "Last step this pod committed.", {"": step}),
            (
                "pod_answer_seconds",
                "gauge",
                "Slowest recent answer of this pod's processes to a ping.",
                {"": slowest_answer_s},
            ),
            (
                "pod_own_step_seconds",
                "gauge",
                "Median of its own part of the last steps, without waiting for other pods.",
                {"": own_s},
            ),
            (
                "pod_deaths_total",
                "counter",
                "Processes of this pod that died and were started again.",
                {"": deaths},
            ),
            ("pod_hung_total", "counter", "Those of them that hung and were killed.", {"": hangs}),
        ]
    )


def _text(families: Iterable[tuple[str, str, str, Mapping[str, float]]]) -> str:
    lines = list[str]()
    for name, kind, meaning, values in families:
        full_name = f"elastic_runtime_{name}"
        lines += [f"# HELP {full_name} {meaning}", f"# TYPE {full_name} {kind}"]
        lines += [f"{full_name}{labels} {_number(value)}" for labels, value in values.items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
