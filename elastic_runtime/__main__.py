"""python -m elastic_runtime: the agent of a training pod, or a whole job on this machine."""

import argparse
import asyncio
import errno
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import external_command, local_job, settings
from elastic_runtime.agent.agent import Agent
from elastic_runtime.contract import SizeRequest
from elastic_runtime.json_logging import JsonLineFormatter, log_to
from elastic_runtime.launchers import launcher_mistakes

EXAMPLES = """\
on this machine:
  python -m elastic_runtime --local 4 train.py --epochs 3   four "pods"; Ctrl-C saves and stops
                                                            them, the same command resumes
and then, in the same directory of another terminal:
  python -m elastic_runtime status          one line of JSON: state, size, step, loss, ...
  python -m elastic_runtime resize 2        train on with two pods; `resize 4` brings two back
  python -m elastic_runtime save            save now, while the job trains
  python -m elastic_runtime verify save     check the checkpoints in the folder `save`
in a pod of an elastic Job (cede.dev/sizes), in place of torchrun:
  python -m elastic_runtime train.py --epochs 3
a command that cannot be changed, asked to save by SIGUSR1 before it is stopped:
  python -m elastic_runtime --signal USR1 --done saved.txt -- any command

How to port a script: docs/porting.md in Cede's repository."""


def verify(directory: Path) -> int:
    """Print the step and digest of the newest intact checkpoint. 1 if there is none.

    The digest is the one in the job's status.
    """
    # Imports torch, which an agent does not need.
    from elastic_runtime.checkpointing import restore

    if saved := restore.newest_intact(directory):
        print(
            json.dumps({"durableStep": saved.step, "digest": saved.digest, "path": str(saved.path)})
        )
        return 0
    print(
        f"elastic_runtime: no checkpoint in {directory} is intact: check the path, and the log "
        "above for what is damaged",
        file=sys.stderr,
    )
    return 1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m elastic_runtime",
        description="Run a training script whose job can change size while it runs.",
        usage="%(prog)s [options] train.py ...",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--local",
        type=int,
        metavar="N",
        help="run N pods on this machine instead of one in a cluster",
    )
    parser.add_argument(
        "--port", type=int, default=contract.PORT, help="control port of a local job"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".elastic_runtime"),
        help="where a local job keeps its key",
    )
    parser.add_argument(
        "--signal",
        metavar="NAME",
        help="run any command, and ask it to stop by this signal, such as USR1",
    )
    parser.add_argument(
        "--done",
        metavar="FILE",
        help="with --signal: the command has saved when it touches this file, or ends",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="train.py ...",
        help="the script and its arguments, or one of the words below",
    )
    return parser


def request(args: argparse.Namespace) -> int | None:
    """Run one of the words `resize`, `status`, `save`, `verify`. None if the script is none."""
    match args.script:
        case ["resize", size]:
            body = contract.encode(SizeRequest(int(size)))
            return local_job.request(args.directory, args.port, "PUT", contract.SIZE_PATH, body)
        case ["status"]:
            return local_job.request(args.directory, args.port, "GET", contract.STATUS_PATH)
        case ["save"]:
            return local_job.request(args.directory, args.port, "POST", contract.CHECKPOINT_PATH)
        case ["verify", directory]:
            log_to(sys.stderr)
            return verify(Path(directory))
    return None


def run_agent(
    parser: argparse.ArgumentParser, script: Sequence[str], *, is_external_command: bool
) -> int:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        pod = settings.from_environment(os.environ)
    except (KeyError, OSError) as error:
        parser.error(
            f"not in a pod of an elastic job ({error} is missing): use --local N, or put "
            f"cede.dev/sizes on the Job"
        )
    if is_external_command:
        # One process per pod. A command that fails may not be started twice.
        pod = replace(pod, ranks=1, max_restarts=0)
    try:
        return asyncio.run(Agent(pod, script).run())
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            parser.error(
                f"port {pod.port} is taken, perhaps by another job on this machine: give this one "
                "a --port and a --directory of its own"
            )
        raise


def main() -> int:
    parser = make_parser()
    args = parser.parse_args()
    match args.script:
        case [] | ["--"]:
            parser.error("which script? `--local 2 train.py` runs it here; see --help")
        case ["resize", *sizes] if len(sizes) != 1 or not sizes[0].isdecimal():
            parser.error(f"resize to how many pods? `resize 2`, not `{' '.join(args.script)}`")
    code = request(args)
    if code is not None:
        return code
    script = args.script[1:] if args.script[0] == "--" else args.script
    if contract.JOB_ENV not in os.environ:
        # A pod's own environment may hold anything, and its agent is one process.
        for mistake in launcher_mistakes(os.environ, " ".join(script)):
            parser.error(mistake)
    if not (args.signal or script[0].startswith("-") or Path(script[0]).exists()):
        parser.error(f"there is no {script[0]} in {Path.cwd()}: check the path of the script")
    options = list[str]()
    if args.signal:
        options = ["--signal", args.signal, "--done", args.done or ""]
        try:
            script = external_command.script(args.signal, args.done or "", script)
        except ValueError as error:
            parser.error(str(error))
    if args.local:
        arguments = [*options, *args.script]
        return local_job.run(args.local, args.port, args.directory, arguments, os.environ)
    return run_agent(parser, script, is_external_command=bool(args.signal))


if __name__ == "__main__":
    sys.exit(main())
