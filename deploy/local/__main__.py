"""python -m deploy.local: starts, stops and disturbs a real cluster on this machine, as root."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from deploy.local import (
    additions,
    binaries,
    cells,
    cluster,
    images,
    kube,
    memory,
    nodes,
    requirements,
)
from deploy.local.paths import GPUS, Failure, Paths
from deploy.local.shell import report_progress, stage


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add_command(name: str, purpose: str, node: bool = False) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=purpose, description=purpose)
        if node:
            command.add_argument("node", help="n1, n2, ...")
        return command

    up = add_command(
        "up", "start the cluster, Kueue and Cede; build and start what is missing or has changed"
    )
    up.add_argument(
        "--nodes", type=int, default=2, help=f"nodes with {GPUS} accelerators each (default 2)"
    )
    up.add_argument(
        "--with",
        dest="additions",
        default="",
        metavar="NAMES",
        help=f"add controllers too, with commas: {', '.join(additions.ADDITIONS)}",
    )
    up.add_argument("--without-cede", action="store_true", help="start Kueue only")
    add_command("down", "stop the cluster; only the cache of programs and images stays")
    remove = add_command("remove", "remove controllers that `up --with` added")
    remove.add_argument("additions", metavar="NAMES", help="with commas")
    status = add_command("status", "show what runs")
    status.add_argument("-o", "--output", choices=["text", "json"], default="text")
    add_command("kubeconfig", "print the path of the administrator's kubeconfig")
    add_command("kubectl", "run the cluster's kubectl as administrator, with all that follows")
    add_command("fail", "power a node off", node=True)
    add_command("join", "power a node on again", node=True)
    add_command("cut", "cut a node's network link", node=True)
    add_command("heal", "restore a node's network link", node=True)
    build = add_command("images", "build the images that have changed")
    build.add_argument(
        "--load",
        action="store_true",
        help="also load them into the running nodes, and restart Cede if its image has changed",
    )
    fake = add_command(
        "add-fake-nodes", "add nodes that only simulate pods (kwok), with taint cede.dev/fake"
    )
    fake.add_argument("count", type=int)
    fake.add_argument("--gpus", type=int, default=8)
    fake.add_argument("--instance-type", default="fake-8gpu")
    add_command("rss", "show the memory of every process of the cluster")
    add_command("check", "show what this machine lacks for the cluster")
    add_command("programs", "compile the cluster's programs")
    words = list(sys.argv[1:] if argv is None else argv)
    # the rest of the line is kubectl's, with its options
    if words[:1] == ["kubectl"]:
        return argparse.Namespace(command="kubectl", words=words[1:])
    return parser.parse_args(words)


def change(paths: Paths, args: argparse.Namespace) -> None:
    match args.command:
        case "up":
            chosen = additions.parse(args.additions)
            cluster.up(paths, args.nodes, cede=not args.without_cede)
            additions.add(paths, chosen)
            report_progress(f"ready: export KUBECONFIG={paths.kubeconfig}")
        case "remove":
            additions.remove(paths, additions.parse(args.additions))
        case "down":
            with stage("cluster stopped"):
                cluster.down(paths)
        case "fail":
            cluster.fail(paths, args.node)
        case "join":
            nodes.start(paths, args.node)
        case "cut" | "heal":
            nodes.set_link(paths, args.node, "down" if args.command == "cut" else "up")
        case "images":
            keys = images.update(paths)
            if args.load and cluster.running(paths):
                cluster.load_images(paths, keys)
                if kube.cede_is_installed(paths):
                    kube.apply_cede(paths, keys)
        case "add-fake-nodes":
            cluster.add_fake_nodes(paths, args.count, args.gpus, args.instance_type)
        case "check":
            pass
        case "programs":
            binaries.build(paths)


def query(paths: Paths, args: argparse.Namespace) -> int | None:
    """Runs a command that changes nothing; returns its exit code, or None for any other command.

    Such a command does not wait for one that changes the cluster.
    """
    match args.command:
        case "status":
            status = cluster.status(paths)
            print(json.dumps(status, indent=1) if args.output == "json" else status_text(status))
        case "kubeconfig":
            print(paths.kubeconfig)
        case "kubectl":
            return subprocess.run(
                [paths.kubectl, "--kubeconfig", paths.kubeconfig, *args.words], check=False
            ).returncode
        case "rss":
            print(memory.table())
        case _:
            return None
    return 0


def status_text(status: dict[str, object]) -> str:
    if not status["running"]:
        return "no cluster runs: start one with `python -m deploy.local up`"
    return "\n".join(
        f"{name:14} {json.dumps(value) if isinstance(value, dict) else value}"
        for name, value in status.items()
    )


def chosen_cell() -> cells.Cell:
    """What CEDE_CELL names. Raises Failure if there is none of this name."""
    name = os.environ.get("CEDE_CELL") or cells.DEFAULT_NAME
    if name not in cells.CELLS:
        raise Failure(f"CEDE_CELL is {name}: use one of {', '.join(cells.CELLS)}")
    return cells.CELLS[name]


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    try:
        paths = Paths.of_user(chosen_cell())
        if (code := query(paths, args)) is not None:
            return code
        if missing := requirements.missing(paths):
            raise Failure(missing)
        with cluster.exclusive(paths):
            change(paths, args)
    except (Failure, OSError) as failure:
        print(f"deploy.local {args.command}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
