"""The versions and feature gates that `make matrix` tries Cede with: the cells of its table.

`CEDE_CELL` names the one that the local cluster is made of; without it, it is the default.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """What a local cluster is made of."""

    # the folder of deploy/local whose go.mod has Kubernetes' version, and names in its `tool` lines
    # the programs of this version; the others are those of the default cell
    modules: str = ""
    # of the control plane
    gates: tuple[str, ...] = ()
    # of Kueue
    kueue_gates: tuple[str, ...] = ()
    # why Cede does not work with it; empty if it does
    unsupported: str = ""


DEFAULT_NAME = "1.36"
DEFAULT = Cell()
V1_35 = "kubernetes/1.35"
V1_37 = "kubernetes/1.37"
JOBS_IN_GANGS = ("GenericWorkload", "WorkloadWithJob")
CELLS = {
    "1.35": Cell(V1_35),
    DEFAULT_NAME: DEFAULT,
    "1.37": Cell(V1_37),
    "1.36-WorkloadWithJob": Cell(
        gates=JOBS_IN_GANGS, unsupported="the API server refuses to resize Jobs"
    ),
    "1.37-WorkloadWithJob": Cell(V1_37, gates=JOBS_IN_GANGS),
    "1.36-KueueGates": Cell(
        kueue_gates=(
            "ElasticJobsViaWorkloadSlicesWithTAS",
            "UnadmittedWorkloadsObservability",
            "WorkloadPriorityClassDefaulting",
        )
    ),
}
