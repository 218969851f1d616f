"""PURE. Rewrites a command line for torchrun or Python into one for the runtime."""

import re
from collections.abc import Sequence

RUNTIME = ("-m", "elastic_runtime")
PYTHON = re.compile(r"python(3(\.\d+)?)?")
# of Python, without a value; -E and -I are not among them: they ignore PYTHONPATH
PYTHON_FLAGS = re.compile(r"-[bBdOPqsuvx]+")
# of Python, with a value
PYTHON_VALUES = ("-W", "-X")
# the only one that the launcher gives its workers too: they would start without the others
KEPT_FLAG = "-u"
TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
# they start processes of their own, which the runtime would not know
LAUNCHERS = (
    "accelerate.commands.accelerate_cli",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "lightning",
    "lightning.fabric.cli",
    "lightning_fabric.cli",
)
PROCESSES = "nproc-per-node"
# torchrun's options that the coordinator replaces, each with a value
REPLACED = frozenset(
    {
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "local-addr",
        "rdzv-backend",
        "rdzv-endpoint",
        "rdzv-id",
        "rdzv-conf",
        "max-restarts",
        "monitor-interval",
        "start-method",
        "role",
        "shutdown-timeout",
        "signals-to-handle",
        PROCESSES,
    }
)
# torchrun's words for a number of processes that follows from the accelerators
BY_ACCELERATORS = ("auto", "gpu")
MAX_SHOWN = 60
"""Characters of a user's command in a message."""
CURE = "write `python -m elastic_runtime ...` there yourself, and use inject"


def wrap(command: Sequence[str], ranks: int) -> list[str]:
    """The command for `python -m elastic_runtime`; one that starts it already stays as it is.

    A script for torchrun is restarted in its pods. torchrun's options of rendezvous and numbers are
    left out: the coordinator decides on them. `ranks`: processes in each pod. Raises ValueError
    with what cannot be rewritten, and the cure.
    """
    folder, slash, program = (command[0] if command else "").rpartition("/")
    if program == "torchrun":
        # the Python of the environment that torchrun is installed in
        return [f"{folder}{slash}python", *_wrap_torchrun(command[1:], ranks)]
    if not PYTHON.fullmatch(program):
        shown = " ".join(command)
        raise ValueError(
            f"is {_shorten(shown)!r}, which neither starts torchrun nor python: {CURE}"
            if command
            else f"is not set, so it is the image's own, which nobody sees here: {CURE}"
        )
    return [command[0], *_wrap_python(command[1:], ranks)]


def _wrap_python(words: Sequence[str], ranks: int) -> list[str]:
    flags, rest = _split_flags(words)
    if rest[:2] == list(RUNTIME):
        return list(words)
    if lost := [flag for flag in flags if flag != KEPT_FLAG]:
        raise ValueError(
            f"has the option {_shorten(lost[0])!r} of python, without which the workers would "
            f"start: leave it out and set its environment variable, such as PYTHONOPTIMIZE or "
            f"PYTHONWARNINGS, or {CURE}"
        )
    match rest:
        case ["-m", module, *arguments] if module in TORCHRUN_MODULES:
            return [*flags, *_wrap_torchrun(arguments, ranks)]
        case ["-m", module, *_] if module in LAUNCHERS:
            raise ValueError(
                f"names the launcher {module!r}, which starts processes of its own, as the "
                f"runtime does: name your script in its place, or {CURE}"
            )
        case ["-m", _, *_]:
            return [*flags, *RUNTIME, *rest]
        case [script, *_] if not script.startswith("-"):
            return [*flags, *RUNTIME, "--", *rest]
        case [option, *_]:
            raise ValueError(f"has the option {_shorten(option)!r} of python: {CURE}")
    raise ValueError(f"names no script: {CURE}")


def _split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(Python's own options before the script, the rest)."""
    count = 0
    while count < len(words):
        if words[count] in PYTHON_VALUES:
            count += 2
        elif PYTHON_FLAGS.fullmatch(words[count]) or words[count].startswith(PYTHON_VALUES):
            count += 1
        else:
            break
    return list(words[:count]), list(words[count:])


def _wrap_torchrun(words: Sequence[str], ranks: int) -> list[str]:
    rest = list(words)
    is_module = False
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option, has_value, value = rest.pop(0).partition("=")
        name = option.lstrip("-").replace("_", "-")
        if option == "-m" or name == "module":
            is_module = True
        elif name in REPLACED:
            value = value if has_value or not rest else rest.pop(0)
            if name == PROCESSES:
                _check_processes(value, ranks)
        elif name != "standalone":
            raise ValueError(f"has torchrun's option {_shorten(option)!r}: leave it out, or {CURE}")
    script = rest[1:] if rest[:1] == ["--"] else rest
    if not script:
        raise ValueError(f"names no script for torchrun: {CURE}")
    module = ["-m"] if is_module else []
    return [*RUNTIME, "--restart", *module, "--", *script]


def _check_processes(value: str, ranks: int) -> None:
    if value not in (*BY_ACCELERATORS, str(ranks)):
        raise ValueError(
            f"has --nproc-per-node {_shorten(value)}, but an elastic job has {ranks} processes in "
            f"each pod, one for each accelerator of the container: make both numbers equal"
        )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
