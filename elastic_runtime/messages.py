"""PURE. The messages between an agent and its ranks, one JSON object a line, over a socket that the
rank inherits. They carry no version: both run the same image.

`step`: the number of committed steps.
"""

from dataclasses import dataclass, field
from typing import TypeAlias, get_args

from elastic_runtime import json_codec


@dataclass(frozen=True, slots=True)
class Record:
    """One generation of the job's membership: ranks are numbered in the order of `members`."""

    generation: int = 0
    # Pod indexes. The first member's first process opens the store where the ranks meet.
    members: tuple[int, ...] = ()
    # One for each member: a pod whose processes were restarted is not the pod that was lost.
    incarnations: tuple[str, ...] = ()
    # host:port of the store; empty until the first member has opened it.
    store: str = ""
    # A member was lost: leave the step in flight at once, not at its end.
    abrupt: bool = False
    # No pod continues: save the state, then park.
    stop: bool = False
    # Of the coordinator that made it. A record is newer by its epoch, then by its generation.
    epoch: int = 0
    # The members before, by index, and the lives of their agents, as long as they could elect a
    # coordinator that does not know this record. Until then no worker acts on it.
    electors: tuple[int, ...] = ()
    elector_lives: tuple[str, ...] = ()
    # Earlier epochs that this record continues, and the last generation of each that it does.
    earlier_epochs: tuple[int, ...] = ()
    earlier_generations: tuple[int, ...] = ()

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.generation

    def continues(self, epoch: int, generation: int) -> bool:
        """Whether what was trained in that generation is part of what this record continues."""
        earlier = zip(self.earlier_epochs, self.earlier_generations, strict=True)
        known = [*earlier, self.order]
        return generation == 0 or any(
            epoch == known_epoch and generation <= last for known_epoch, last in known
        )


@dataclass(frozen=True, slots=True)
class StoreOpened:
    """A rank of this pod opened the store where the ranks of a generation meet."""

    generation: int
    port: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What changed since the last one; None where nothing did.

    A rank sends what it knows. Its agent merges that into the pod's next report.
    """

    # With the loss and the duration of the last step.
    step: int | None = None
    loss: float | None = field(default=None, metadata=json_codec.ANY_NUMBER)
    seconds: float | None = None
    # How much time the last change of membership added between two steps.
    pause_s: float | None = None
    # The step of a new checkpoint, the SHA-256 of its manifest, how long the save took, and for how
    # long it kept the step waiting.
    durable_step: int | None = None
    digest: str | None = None
    save_s: float | None = None
    stall_s: float | None = None
    # Sentences for the job's status by subject, each empty to withdraw the last one.
    message: str | None = None
    save_message: str | None = None
    size_message: str | None = None
    # What became of this pod, such as "gave up: ...", until it trains again; empty to withdraw it.
    failure: str | None = None
    # The last step is done.
    finished: bool | None = None


# --- rank → agent ---
@dataclass(frozen=True, slots=True)
class Ready:
    """The model is built: this rank can join."""

    # The newest generation that the job's journal names; 0 without a journal.
    newest_generation: int = 0


@dataclass(frozen=True, slots=True)
class Formed:
    """This rank trains in a generation."""

    generation: int
    members: tuple[int, ...]
    step: int
    # Samples of one step, over all ranks.
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """A generation failed: a peer may have been lost."""

    generation: int


@dataclass(frozen=True, slots=True)
class Joining:
    """This rank waits for the generation that follows."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """This rank has finished its part of the step and waits for the others."""


@dataclass(frozen=True, slots=True)
class Evaluating:
    """This rank has begun so many micro-batches, or waits for others; 0: its evaluation ended."""

    micro_batches: int
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """This rank waits for the others in a collective of the script's, or does not any more."""

    waits: bool


@dataclass(frozen=True, slots=True)
class StepCommitted:
    """All ranks committed a step."""

    step: int
    loss: float = field(metadata=json_codec.ANY_NUMBER)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Parked:
    """This rank handed its state over and waits, to be deleted or to join again."""

    step: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The last step is done, and its state is durable."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The script ends with an exception; `reason` is one line."""

    reason: str
    is_mistake: bool = False
    # The cause is outside the script, such as a disk: started again, it may succeed.
    may_heal: bool = False


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """An external command ended with exit code 0, though its job may continue."""


@dataclass(frozen=True, slots=True)
class ScriptEnded:
    """The script of this rank ended with exit code 0. The job has finished when all ranks'
    scripts of one generation have: until then a lost rank starts them again."""


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers `Ping`."""


# --- agent → rank ---
@dataclass(frozen=True, slots=True)
class NewRecord:
    """The job has a new generation, or its store is open. `index` is this pod's."""

    record: Record
    index: int


@dataclass(frozen=True, slots=True)
class SaveRequested:
    """A user or a controller requested a checkpoint now."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The pod is terminating. A training rank leaves by the next record; a command leaves now."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer with `Pong`: it shows that this process is not frozen."""


@dataclass(frozen=True, slots=True)
class StacksFile:
    """On signal SIGRTMIN, write the stacks of all threads to this descriptor."""

    descriptor: int


TrainingMessage: TypeAlias = Ready | StoreOpened | Formed | Broken | Arrived | StepCommitted
WorkerMessage: TypeAlias = (
    TrainingMessage
    | Joining
    | Waiting
    | Evaluating
    | Progress
    | Parked
    | Finished
    | Failed
    | CommandEnded
    | ScriptEnded
    | Pong
)
AgentMessage: TypeAlias = NewRecord | SaveRequested | Leave | Ping | StacksFile


_WORKER_KINDS = {cls.__name__: cls for cls in get_args(WorkerMessage)}
_AGENT_KINDS = {cls.__name__: cls for cls in get_args(AgentMessage)}


def encode_line(message: WorkerMessage | AgentMessage) -> bytes:
    return json_codec.encode_line(message)


def decode_worker_message(line: bytes) -> WorkerMessage:
    """Raises ValueError, in one line, for anything that is no message of a rank."""
    message: WorkerMessage = json_codec.decode_line(_WORKER_KINDS, line)
    return message


def decode_agent_message(line: bytes) -> AgentMessage:
    """Raises ValueError, in one line, for anything that is no message of an agent."""
    message: AgentMessage = json_codec.decode_line(_AGENT_KINDS, line)
    return message
