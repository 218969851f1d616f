"""The state of one pod: its agent derives it from the messages of its ranks and reports it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from elastic_runtime import messages
from elastic_runtime.agent.coordination import CoordinatorState, MemberReport, WorkDone
from elastic_runtime.agent.job_progress import MAX_STEPS
from elastic_runtime.agent.status_text import shorten
from elastic_runtime.agent.worker_process import WorkerProcess
from elastic_runtime.messages import Progress, Record, StoreOpened, WorkerMessage


@dataclass
class PodState:
    """The fields are those of `MemberReport`."""

    incarnation: str = ""
    leaving: bool = False
    generation: int = 0
    members: tuple[int, ...] = ()
    step: int = 0
    ready: bool = False
    parked: bool = False
    finished: bool = False
    ended: bool = False
    broken: int = 0
    newest_generation: int = 0
    waits: bool = False
    store: StoreOpened | None = None
    progress: Progress = field(default_factory=Progress)
    # Of the last steps: from the commit of the one before until all ranks waited for other pods.
    own_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_STEPS))

    @property
    def own_s(self) -> float:
        return median(self.own_seconds) if self.own_seconds else 0.0

    def receive(
        self, worker: WorkerProcess, workers: Sequence[WorkerProcess], message: WorkerMessage
    ) -> None:
        """Take in one message of `worker`, which is one of the pod's `workers`.

        All ranks report the same about a step, so the last report counts.
        """
        match message:
            case messages.Ready():
                worker.receive_ready()
                self.newest_generation = max(self.newest_generation, message.newest_generation)
                self.ready = all(other.ready for other in workers)
            case StoreOpened():
                self.store = message
            case messages.Formed():
                self.own_seconds.clear()
                self.generation = message.generation
                self.members = message.members
                self.step = message.step
                worker.parked = worker.ended = False
                self.parked = self.ended = False
                worker.change_generation(joins=False)
            case messages.Broken():
                self.broken = max(self.broken, message.generation)
                worker.change_generation(joins=True)
            case messages.Joining():
                worker.joins = True
            case messages.Arrived():
                worker.arrived = True
                # The first step of a generation includes the pause.
                if worker.steps and all(other.arrived for other in workers):
                    self.own_seconds.append(worker.pulse().since_step_s)
            case messages.Evaluating():
                worker.evaluate(message.micro_batches, waits=message.waits)
            case messages.Waiting():
                worker.arrived = message.waits
            case messages.StepCommitted():
                worker.commit_step(message.seconds)
                self.step = message.step
                self.add_progress(
                    Progress(step=message.step, loss=message.loss, seconds=message.seconds)
                )
            case Progress():
                self.add_progress(message)
            case messages.Parked():
                worker.parked = True
                worker.change_generation(joins=True)
                self.parked = all(other.parked for other in workers)
                self.step = message.step
                self.generation = 0
            case messages.CommandEnded():
                worker.ended = True
            case messages.ScriptEnded():
                worker.ended = True
                self.ended = all(other.ended for other in workers)
            case messages.Failed():
                worker.failure = message
            case messages.Finished():
                worker.finished = True
                worker.change_generation(joins=False)
                self.add_progress(Progress(finished=True))
        self.waits = any(other.arrived for other in workers)

    def add_progress(self, newer: Progress) -> None:
        newer = replace(
            newer,
            message=_shortened(newer.message),
            save_message=_shortened(newer.save_message),
            size_message=_shortened(newer.size_message),
            failure=_shortened(newer.failure),
        )
        self.progress = merged(self.progress, newer)

    def report(
        self,
        index: int,
        address: str,
        *,
        port: int,
        epoch: int,
        record: Record,
        trained: tuple[int, int],
        done: WorkDone,
        kept: CoordinatorState,
    ) -> MemberReport:
        """`port`: of the agent. `epoch`: the highest that this pod follows or voted for.
        `record`: the newest that it received. `trained`: epoch and number of the generation that
        its ranks trained in last.
        """
        return MemberReport(
            index=index,
            address=address,
            port=port,
            epoch=epoch,
            incarnation=self.incarnation,
            generation=self.generation,
            members=self.members,
            step=self.step,
            ready=self.ready,
            leaving=self.leaving,
            parked=self.parked,
            finished=self.finished,
            ended=self.ended,
            broken=self.broken,
            newest_generation=max(self.newest_generation, record.generation),
            trained_epoch=trained[0],
            trained_generation=trained[1],
            record_epoch=record.epoch,
            record_generation=record.generation,
            waits=self.waits,
            own_s=self.own_s,
            store=self.store,
            progress=self.progress,
            done=done,
            kept=kept,
        )


def _shortened(text: str | None) -> str | None:
    return shorten(text) if text else text


def merged(older: Progress, newer: Progress) -> Progress:
    """Both reports in one: what `newer` reports replaces what `older` reported."""
    return Progress(
        step=older.step if newer.step is None else newer.step,
        loss=older.loss if newer.loss is None else newer.loss,
        seconds=older.seconds if newer.seconds is None else newer.seconds,
        pause_s=older.pause_s if newer.pause_s is None else newer.pause_s,
        durable_step=older.durable_step if newer.durable_step is None else newer.durable_step,
        digest=older.digest if newer.digest is None else newer.digest,
        save_s=older.save_s if newer.save_s is None else newer.save_s,
        stall_s=older.stall_s if newer.stall_s is None else newer.stall_s,
        message=older.message if newer.message is None else newer.message,
        save_message=older.save_message if newer.save_message is None else newer.save_message,
        size_message=older.size_message if newer.size_message is None else newer.size_message,
        failure=older.failure if newer.failure is None else newer.failure,
        finished=older.finished if newer.finished is None else newer.finished,
    )
