"""What a pod knows when it starts, and what it says of itself: kept from what its processes say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from elastic_runtime.agent.hang_detection import Patience
from elastic_runtime.agent.status_text import cut
from elastic_runtime.agent.worker_process import Child

# of a process that dies again and again and gets no further
RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """What a pod knows when it starts."""

    index: int
    job: str
    job_uid: str
    key: bytes
    # this pod's, as the others reach it
    address: str
    # host of pod 0
    coordinator: str
    coordinator_port: int
    # of this pod's control server
    port: int
    smallest: int = 1
    ranks: int = 1
    grace_s: float = 30.0
    restarts: int = RESTARTS
    patience: Patience = field(default_factory=Patience)


@dataclass
class Facts:
    """What this pod says of itself."""

    incarnation: str = ""
    generation: int = 0
    members: tuple[int, ...] = ()
    step: int = 0
    ready: bool = False
    leaving: bool = False
    parked: bool = False
    finished: bool = False
    broken: int = 0
    # the newest generation its processes know of, told or found in the job's own log
    newest: int = 0
    # a process of it has done its part of the step, and waits for others
    waits: bool = False
    store: dict[str, int] | None = None
    progress: dict[str, Any] = field(default_factory=dict)

    def heard(self, child: Child, children: Sequence[Child], said: dict[str, Any]) -> None:
        """One message of one of the pod's processes. Of a step they all say the same, so the first
        one's counts."""
        match said["say"]:
            case "ready":
                child.ready = True
                self.newest = max(self.newest, said.get("newest", 0))
                self.ready = all(c.ready for c in children)
            case "store":
                self.store = {"generation": said["generation"], "port": said["port"]}
            case "formed":
                self.generation = said["generation"]
                self.members = tuple(said["members"])
                self.step = said["step"]
                child.parked = False
                self.parked = False
                child.moves()
            case "broken":
                self.broken = max(self.broken, said["generation"])
                child.moves()
            case "arrived":
                child.arrived = True
            case "step":
                child.stepped(said["seconds"])
                self.step = said["step"]
                self.progress |= {
                    "step": said["step"],
                    "loss": said["loss"],
                    "seconds": said["seconds"],
                }
            case "progress":
                facts = said["facts"]
                self.progress |= facts | (
                    {"message": cut(facts["message"])} if "message" in facts else {}
                )
            case "parked":
                child.parked = True
                child.moves()
                self.parked = all(c.parked for c in children)
                self.step = said["step"]
                self.generation = 0
            case "ended":
                child.ended = True
            case "finished":
                child.finished = True
                child.moves()
                self.progress |= {"finished": True}
        self.waits = any(c.arrived for c in children)
