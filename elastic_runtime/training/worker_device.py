"""The device that a worker puts its model on."""

import torch

from elastic_runtime import script_checks, session_checks
from elastic_runtime.training import agent_link


def device() -> torch.device:
    """This worker's own GPU, or the CPU where there is none.

    Workers of one pod, and pods of a `--local` job, share the GPUs of their machine.

    Returns:
        `cuda:N`, or `cpu`.

    Raises:
        ValueError: if there are fewer GPUs than workers on the machine.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = agent_link.number_on_machine()
    count = torch.cuda.device_count()
    script_checks.raise_mistakes(session_checks.gpu_mistakes(number, count))
    return torch.device("cuda", number)
