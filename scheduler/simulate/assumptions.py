"""PURE. What the simulation assumes about pods and training scripts. A report prints it."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Assumptions:
    """All in seconds."""

    # from admission, or from a resize, to pods that train
    start_s: float = 30.0
    # from an eviction to the moment when its quota is free
    eviction_s: float = 2.0
    # between two checkpoints; what was done since the last one is lost by a stop
    checkpoint_s: float = 1800.0
    step_s: float = 2.0
    # between two steps when an elastic job hands over
    handover_s: float = 1.0
    # what an elastic job needs to save all before it stops
    save_s: float = 10.0
    # between two cycles of Kueue
    cycle_s: float = 0.05
    # between two passes of the scheduler while something changes
    pass_s: float = 0.5
    # the same while a Cession is open and nothing changes
    watch_s: float = 4.0
    # the same while none is open
    quiet_s: float = 60.0

    def sentences(self) -> list[str]:
        """For a report, one line for each."""
        return [f"{name}={value:g}" for name, value in asdict(self).items()]
