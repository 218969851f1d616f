"""The arguments of `python -m elastic_runtime`."""

import argparse
from pathlib import Path

from elastic_runtime import contract

MAX_PORT = 65_535
WORDS = ("status", "resize", "save", "verify", "saves")
EXAMPLES = """\
on this machine:
  python -m elastic_runtime --local 4 train.py --epochs 3   four "pods"; Ctrl-C saves and stops
                                                            them, the same command resumes
and then, in the same directory of another terminal:
  python -m elastic_runtime status          state, size, step, loss, ...; as JSON with `-o json`
  python -m elastic_runtime resize 2        train on with two pods; `resize 4` brings two back
  python -m elastic_runtime save            save now, while the job trains
  python -m elastic_runtime verify save     check the checkpoints in the folder `save`
  python -m elastic_runtime saves save      list them, with the best
in a pod of an elastic Job (cede.dev/sizes), in place of torchrun:
  python -m elastic_runtime train.py --epochs 3
  python -m elastic_runtime -m package.train --epochs 3
a script that was written for torchrun, restarted in its pods at each new size:
  python -m elastic_runtime --restart -- train.py --epochs 3
a command that cannot be changed, asked to save by SIGUSR1 before it is stopped:
  python -m elastic_runtime --signal USR1 --done saved.txt -- any command

How to port a script: docs/porting.md in Cede's repository."""


def _pods(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= contract.MAX_SIZE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of pods from 1 to {contract.MAX_SIZE}"
        )
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port up to {MAX_PORT}")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m elastic_runtime",
        description="Run a training script whose job can change size while it runs.",
        usage="%(prog)s [options] [-m] train.py ...",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-m",
        "--module",
        action="store_true",
        help="the script is the name of a module, as with `python -m`",
    )
    parser.add_argument(
        "--local",
        type=_pods,
        metavar="N",
        help="run N pods on this machine instead of one in a cluster",
    )
    parser.add_argument(
        "--port", type=_port, default=contract.PORT, help="control port of a local job"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".elastic_runtime"),
        help="where a local job keeps its key",
    )
    # Also after the word.
    parser.add_argument("-o", "--output", choices=["json"], help="of a word: for programs")
    parser.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="each worker's output goes to DIR/POD/stdout.log and stderr.log",
    )
    parser.add_argument(
        "-t",
        "--tee",
        type=int,
        choices=[1, 2, 3],
        default=0,
        help="what of it also goes to the console, with the pod before each line: 1 stdout, "
        "2 stderr, 3 both",
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
        "--restart",
        action="store_true",
        help="for a script that was written for torchrun: at a new size each rank is asked to stop "
        "by a signal (--signal, or TERM), saves and ends, and is started again",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="train.py ...",
        help="the script and its arguments, or one of the words below",
    )
    return parser


def make_request_parser() -> argparse.ArgumentParser:
    """Of the words that are no script, and their options."""
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("-o", "--output", choices=["json"], help="for programs")
    options.add_argument("--port", type=_port, help="control port of the local job")
    options.add_argument("--directory", type=Path, help="where the local job keeps its key")
    parser = argparse.ArgumentParser(prog="python -m elastic_runtime")
    words = parser.add_subparsers(dest="word", required=True)
    words.add_parser("status", parents=[options], help="state, size, step, loss, ...")
    words.add_parser("save", parents=[options], help="save now, while the job trains")
    resize = words.add_parser("resize", parents=[options], help="train on with so many pods")
    resize.add_argument("pods", nargs="*")
    for word, purpose in (("verify", "check the checkpoints"), ("saves", "list the checkpoints")):
        reader = words.add_parser(word, parents=[options], help=purpose)
        reader.add_argument("checkpoints", type=Path, metavar="DIRECTORY")
    return parser
