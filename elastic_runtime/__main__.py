"""python -m elastic_runtime [--local N] [--signal NAME [--done FILE] --] train.py …: a pod's
parent, or N pods on this machine."""

import argparse
import asyncio
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import control_server, external_command
from elastic_runtime.agent.agent import Parent
from elastic_runtime.agent.hang_detection import Patience
from elastic_runtime.agent.pod_state import Settings
from elastic_runtime.contract import SizeRequest
from elastic_runtime.json_logging import Lines, write_lines

# host of pod 0 when all pods are on one machine
LOCAL_ENV = "CEDE_LOCAL"
EXAMPLES = """\
on this machine:
  python -m elastic_runtime --local 4 train.py --epochs 3   four "pods"; Ctrl-C saves and stops, the same command goes on
and then, in the same directory of another terminal:
  python -m elastic_runtime status                          one line of JSON: state, size, step, loss, durableStep, ...
  python -m elastic_runtime resize 2                        the job goes on with two; `resize 4` brings the others back
  python -m elastic_runtime save                            a save now, while it trains
  python -m elastic_runtime verify save                     the newest save in the folder `save` that reads back whole
in a pod of an elastic Job (cede.dev/sizes), in place of torchrun:
  python -m elastic_runtime train.py --epochs 3
what cannot be changed, asked to save by SIGUSR1 before it is stopped:
  python -m elastic_runtime --signal USR1 --done saved.txt -- any command

How to port a script: docs/runtime.md in Cede's repository."""


def settings(env: dict[str, str]) -> Settings:
    """What the webhook, or `--local`, wrote into the environment. Raises KeyError or OSError naming
    what is missing."""
    index = int(env.get(contract.INDEX_ENV, "0"))
    job = env[contract.JOB_ENV]
    port = int(env.get(contract.PORT_ENV, contract.PORT))
    sizes = [int(size) for size in env.get(contract.SIZES_ENV, "1").split(",")]
    key = Path(env.get(contract.KEY_FILE_ENV, contract.KEY_FILE))
    local_host = env.get(LOCAL_ENV)
    return Settings(
        index=index,
        job=job,
        job_uid=env[contract.JOB_UID_ENV],
        key=key.read_bytes().strip(),
        address=env.get(contract.POD_IP_ENV, "127.0.0.1"),
        coordinator=local_host or f"{job}-0.{env.get(contract.PEERS_ENV, '')}",
        coordinator_port=port,
        port=port if index == 0 or not local_host else 0,
        smallest=min(sizes),
        ranks=int(env.get(contract.RANKS_ENV, "1")),
        grace_s=float(env.get(contract.GRACE_ENV, "30")),
        patience=Patience(
            answer_s=float(env.get(contract.ANSWER_ENV, Patience().answer_s)),
            step_s=float(env.get(contract.PROGRESS_ENV, Patience().step_s)),
        ),
    )


def local(pods: int, port: int, directory: Path, script: list[str]) -> int:
    """`pods` pods of this machine; their control port and key are said, so that `resize` finds
    them. The first failure is its own."""
    directory.mkdir(parents=True, exist_ok=True)
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_hex(32))
    # else each would take every core, and all be slow
    threads = max(1, (os.cpu_count() or 1) // pods)
    env = {
        contract.SIZES_ENV: "1",
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        contract.JOB_ENV: "local",
        contract.JOB_UID_ENV: "local",
        LOCAL_ENV: "127.0.0.1",
    }
    env |= {contract.KEY_FILE_ENV: str(key), contract.PORT_ENV: str(port)}
    command = [sys.executable, "-m", "elastic_runtime", *script]
    children = [
        subprocess.Popen(command, env={**env, contract.INDEX_ENV: str(i)}) for i in range(pods)
    ]
    (directory / "pids").write_text("\n".join(str(child.pid) for child in children) + "\n")

    def pass_on(number: int, _: object) -> None:
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, pass_on)
    # if it was killed the others may well come to their end
    if (first := children[0].wait()) > 0 and first != contract.LEFT:
        print(
            (
                f"elastic_runtime: pod 0 gave up (exit code {first}), see above: the others are "
                f"ended "
                f"too"
            ),
            file=sys.stderr,
        )
        pass_on(signal.SIGTERM, None)
    # those that are left train on without another one that died
    codes = [child.wait() for child in children]
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def ask(directory: Path, port: int, method: str, path: str, body: bytes = b"") -> int:
    """Print a local job's answer."""
    try:
        key = (directory / "key").read_bytes().strip()
    except OSError:
        print(
            (
                f"elastic_runtime: no local job was started in this directory: {directory}/key is "
                f"not "
                f"there"
            ),
            file=sys.stderr,
        )
        return 1
    try:
        print(
            asyncio.run(
                control_server.call("127.0.0.1", port, key, "local", method, path, body)
            ).decode()
        )
    except (OSError, control_server.Refused) as error:
        print(f"elastic_runtime: no answer on port {port}: {error}", file=sys.stderr)
        return 1
    return 0


def verify(directory: Path) -> int:
    """Say the newest save whose every byte reads back as it was written, and its digest, which is
    the status's. 1 if there is none."""
    # brings torch, which a parent does without
    from elastic_runtime.checkpointing import restore

    if saved := restore.newest(directory):
        print(
            json.dumps({"durableStep": saved.step, "digest": saved.digest, "path": str(saved.path)})
        )
        return 0
    print(f"elastic_runtime: no save in {directory} is whole", file=sys.stderr)
    return 1


def main() -> int:
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
        help="run a command that knows nothing of us, and ask it to go by this signal, as USR1",
    )
    parser.add_argument(
        "--done",
        metavar="FILE",
        help="with --signal: it has saved when it touches this file, or ends",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="train.py ...",
        help="the script and its arguments, or a word from below",
    )
    args = parser.parse_args()
    match args.script:
        case ["resize", *rest] if len(rest) != 1 or not rest[0].isdecimal():
            parser.error(f"resize to how many pods? `resize 2`, not `{' '.join(args.script)}`")
        case ["resize", size]:
            return ask(
                args.directory,
                args.port,
                "PUT",
                contract.SIZE_PATH,
                contract.encode(SizeRequest(int(size))),
            )
        case ["status"]:
            return ask(args.directory, args.port, "GET", contract.STATUS_PATH)
        case ["save"]:
            return ask(args.directory, args.port, "POST", contract.CHECKPOINT_PATH)
        case ["verify", directory]:
            write_lines(sys.stderr)
            return verify(Path(directory))
        case []:
            parser.error("which script? `--local 2 train.py` runs it here; see --help")
    script = args.script[1:] if args.script[0] == "--" else args.script
    if args.signal:
        try:
            script = external_command.script(args.signal, args.done or "", script)
        except ValueError as error:
            parser.error(str(error))
    if args.local:
        options = ["--signal", args.signal, "--done", args.done or ""] if args.signal else []
        return local(args.local, args.port, args.directory, [*options, *args.script])
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        found = settings(dict(os.environ))
    except (KeyError, OSError) as error:
        parser.error(
            f"not in a pod of an elastic job ({error} is missing): use --local N, or put "
            f"cede.dev/sizes on the Job"
        )
    # a command of its own: one, not started again behind its back
    if args.signal:
        found = replace(found, ranks=1, restarts=0)
    return asyncio.run(Parent(found, script).run())


if __name__ == "__main__":
    sys.exit(main())
