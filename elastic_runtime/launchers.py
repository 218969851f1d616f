"""PURE. Launchers that start one script several times: each copy would be a job of its own.

torchrun, srun and mpirun number their processes in the environment. An elastic job is started by
its own agents, so a script that is a copy among several has been started in the wrong way.
"""

from collections.abc import Iterator, Mapping

# Variable with the number of processes → who sets it, and the process's own number. SLURM_NTASKS is
# not among them: it is also set in a batch script, which runs once and may export WORLD_SIZE too.
LAUNCHERS = {
    "WORLD_SIZE": ("torchrun", "RANK"),
    "SLURM_STEP_NUM_TASKS": ("srun", "SLURM_PROCID"),
    "OMPI_COMM_WORLD_SIZE": ("mpirun", "OMPI_COMM_WORLD_RANK"),
    "PMI_SIZE": ("mpirun", "PMI_RANK"),
}


def launcher_mistakes(environment: Mapping[str, str], script: str) -> Iterator[str]:
    """`script`: the command that was started several times."""
    for variable, (launcher, number) in LAUNCHERS.items():
        count = environment.get(variable, "")
        if number in environment and count.isdecimal() and int(count) > 1:
            yield (
                f"{launcher} has started {count} copies of this script ({variable}={count}), and "
                f"each would train for itself: start `python -m elastic_runtime --local {count} "
                f"{script}` on this machine, or `python -m elastic_runtime {script}` in the pods "
                f"of an elastic job"
            )
            return
