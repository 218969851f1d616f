"""python -m elastic_runtime: the agent of a training pod, or a whole job on this machine."""

import argparse
import asyncio
import errno
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import (
    external_command,
    injection,
    job_report,
    local_job,
    restarted_rank,
    settings,
)
from elastic_runtime.agent.agent import Agent
from elastic_runtime.agent.console import CONSOLE, ConsoleHandler
from elastic_runtime.arguments import WORDS, make_parser, make_request_parser
from elastic_runtime.contract import SizeRequest, Status
from elastic_runtime.json_logging import JsonLineFormatter, log_to
from elastic_runtime.launchers import launcher_mistakes


def verify(directory: Path, *, as_json: bool) -> int:
    """Print the step and digest of the newest intact checkpoint. 1 if there is none.

    The digest is the one in the job's status.
    """
    # Imports torch, which an agent does not need.
    from elastic_runtime.checkpointing import restore

    if saved := restore.newest_intact(directory):
        facts = {"durableStep": saved.step, "digest": saved.digest, "path": str(saved.path)}
        words = f"{saved.path} is intact: step {saved.step}, digest {saved.digest}"
        print(json.dumps(facts) if as_json else words)
        return 0
    print(
        f"elastic_runtime: no checkpoint in {directory} is intact: check the path, and the log "
        "above for what is damaged",
        file=sys.stderr,
    )
    return 1


def list_saves(directory: Path, *, as_json: bool) -> int:
    """Print all checkpoints, newest first. 1 if there is none."""
    from elastic_runtime.checkpointing import save_listing

    listed = save_listing.saves(directory)
    print(save_listing.as_json(listed) if as_json else save_listing.table(listed, directory))
    return 0 if listed else 1


def request(args: argparse.Namespace) -> int:
    """Run one of `WORDS`, which `args.script` begins with. Returns an exit code."""
    parser = make_request_parser()
    args = parser.parse_args(args.script, args)
    as_json = args.output == "json"

    def send(method: str, path: str, words: Callable[[Status], str], body: bytes = b"") -> int:
        def show(reply: bytes) -> str:
            return reply.decode() if as_json else words(contract.decode_status(reply))

        return local_job.request(args.directory, args.port, method, path, body, show)

    match args.word:
        case "status":
            return send("GET", contract.STATUS_PATH, job_report.table)
        case "save":
            return send("POST", contract.CHECKPOINT_PATH, job_report.answer_to_save)
        case "verify":
            log_to(sys.stderr)
            return verify(args.checkpoints, as_json=as_json)
        case "saves":
            return list_saves(args.checkpoints, as_json=as_json)
    if len(args.pods) != 1 or not args.pods[0].isdecimal():
        parser.error(f"resize to how many pods? `resize 2`, not `{' '.join(args.script)}`")
    size = int(args.pods[0])
    return send(
        "PUT",
        contract.SIZE_PATH,
        lambda status: job_report.answer_to_resize(status, size),
        contract.encode(SizeRequest(size)),
    )


def missing_file(path: Path) -> str:
    """Why Python cannot run it; empty if it can. It runs a folder with a __main__.py too."""
    if not path.exists():
        return f"there is no {path} in {Path.cwd()}: check the path of the script"
    if path.is_dir() and not (path / "__main__.py").exists():
        return f"{path} is a folder without a __main__.py: name the script in it"
    return ""


def missing_script(name: str, *, is_module: bool) -> str:
    """Why it cannot be run; empty if it exists. Imports nothing of it."""
    if not is_module:
        return missing_file(Path(name))
    top, *below = name.split(".")
    # Also asks the finders of editable installs. One that is there knows all below.
    spec = importlib.util.find_spec(top) if top else None
    if spec and not PathFinder.find_spec(top):
        return ""
    for part in below:
        # With its folders a module below is listed as a top one is: its parent is not imported.
        folders = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(part, folders) if folders else None
    if spec:
        return ""
    return f"there is no module {name}: check its name, and that it is installed or in {Path.cwd()}"


def missing_torch() -> str:
    """Why no script can train with this Python; empty if torch is there. Does not import it."""
    if importlib.util.find_spec("torch"):
        return ""
    return (
        f"there is no torch for Python {sys.version.split()[0]} ({sys.executable}): use an image "
        f"that has torch 2.13 to 2.15, or name its other Python in the command"
    )


def run_agent(
    parser: argparse.ArgumentParser, args: argparse.Namespace, script: Sequence[str]
) -> int:
    handler = ConsoleHandler()
    handler.setFormatter(JsonLineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        pod = settings.from_environment(os.environ)
    except (KeyError, OSError) as error:
        parser.error(
            f"not in a pod of an elastic job ({error} is missing): use --local N, or put "
            f"cede.dev/sizes on the Job"
        )
    if warning := injection.other_runtime(sys.path):
        logging.getLogger(__name__).warning("two runtimes", extra={"why": warning})
    pod = replace(pod, log_dir=args.log_dir, tee=args.tee)
    if args.signal and not args.restart:
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
    finally:
        CONSOLE.flush()


def pod_options(args: argparse.Namespace) -> list[str]:
    """Those of a local job's options that each of its pods has too."""
    options = ["-m"] if args.module else []
    if args.log_dir:
        options += ["--log-dir", str(args.log_dir)]
    if args.tee:
        options += ["--tee", str(args.tee)]
    if args.restart:
        options.append("--restart")
    if args.signal:
        options += ["--signal", args.signal, "--done", args.done or ""]
    return options


def main() -> int:
    parser = make_parser()
    args = parser.parse_args()
    if args.script in ([], ["--"]):
        parser.error("which script? `--local 2 train.py` runs it here; see --help")
    if args.script[0] in WORDS and not args.module:
        return request(args)
    if args.output:
        parser.error(f"--output is for {', '.join(WORDS)}, not for a script")
    if sys.platform != "linux":
        parser.error(
            f"pods run on Linux only, not on {sys.platform}: here `python train.py` trains as a "
            "job of one"
        )
    if args.module and args.signal and not args.restart:
        parser.error("-m is for training scripts; with --signal write `-- python -m ...`")
    if args.restart and args.done:
        parser.error("--done is for --signal alone: with --restart a script saves, and then ends")
    script = args.script[1:] if args.script[0] == "--" else args.script
    options = ["-m"] if args.module else []
    if args.log_dir:
        try:
            args.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--log-dir cannot be made: {error}")
    if contract.JOB_ENV not in os.environ:
        # A pod's own environment may hold anything, and its agent is one process.
        for mistake in launcher_mistakes(os.environ, " ".join([*options, *script])):
            parser.error(mistake)
    is_command = args.signal and not args.restart
    is_script = not (is_command or script[0].startswith("-"))
    if is_script and (reason := missing_script(script[0], is_module=args.module)):
        parser.error(reason)
    if not is_command and (reason := missing_torch()):
        parser.error(reason)
    script = [*options, *script]
    try:
        if args.restart:
            script = restarted_rank.script(args.signal or "TERM", script)
        elif args.signal:
            script = external_command.script(args.signal, args.done or "", script)
    except ValueError as error:
        parser.error(str(error))
    if args.local:
        arguments = [*pod_options(args), *args.script]
        return local_job.run(
            args.local,
            args.port,
            args.directory,
            arguments,
            os.environ,
            is_shared=not is_command,
            on_terminal=sys.stderr.isatty(),
        )
    return run_agent(parser, args, script)


if __name__ == "__main__":
    sys.exit(main())
