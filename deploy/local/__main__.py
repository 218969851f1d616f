"""python -m deploy.local: a real cluster on this machine, as root: `up`, `down`, and drills in
between."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.local import binaries, cluster, images, kube, memory, nodes, requirements
from deploy.local.paths import GPUS, Failure, Places
from deploy.local.shell import say, stage


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, what: str, node: bool = False) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=what, description=what)
        if node:
            made.add_argument("node", help="n1, n2, ...")
        return made

    up = command(
        "up", "programs, images, nodes, Kueue and Cede: all that is missing or has changed"
    )
    up.add_argument(
        "--nodes", type=int, default=2, help=f"nodes with {GPUS} accelerators each (default 2)"
    )
    up.add_argument("--without-cede", action="store_true", help="Kueue only")
    command("down", "end the cluster; nothing is left but the cache of programs and images")
    status = command("status", "what runs")
    status.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command("kubeconfig", "the path of the administrator's kubeconfig")
    command("kubectl", "the cluster's own kubectl, as administrator; all that follows is for it")
    command("fail", "power a node off", node=True)
    command("join", "power a node on again", node=True)
    command("cut", "cut a node's network link", node=True)
    command("heal", "put the link back", node=True)
    made = command("images", "build the images that changed")
    made.add_argument(
        "--load",
        action="store_true",
        help="into the running nodes too, and restart Cede if its own changed",
    )
    fake = command(
        "add-fake-nodes", "more nodes that only pretend to run pods (kwok), tainted cede.dev/fake"
    )
    fake.add_argument("count", type=int)
    fake.add_argument("--gpus", type=int, default=8)
    fake.add_argument("--instance-type", default="fake-8gpu")
    command("rss", "memory of every process of the cluster")
    command("check", "say what this machine lacks")
    command("programs", "compile the cluster's programs")
    words = list(sys.argv[1:] if argv is None else argv)
    # all that follows is kubectl's, its options too
    if words[:1] == ["kubectl"]:
        return argparse.Namespace(command="kubectl", words=words[1:])
    return parser.parse_args(words)


def carry_out(places: Places, args: argparse.Namespace) -> None:
    match args.command:
        case "up":
            cluster.up(places, args.nodes, cede=not args.without_cede)
            say(f"ready: export KUBECONFIG={places.kubeconfig}")
        case "down":
            with stage("nothing is left"):
                cluster.down(places)
        case "fail":
            cluster.fail(places, args.node)
        case "join":
            nodes.start(places, args.node)
        case "cut" | "heal":
            nodes.cable(places, args.node, "down" if args.command == "cut" else "up")
        case "images":
            keys = images.prepare(places)
            if args.load and cluster.running(places):
                cluster.load_images(places, keys)
                if kube.has_cede(places):
                    kube.apply_cede(places, keys)
        case "add-fake-nodes":
            cluster.add_fake_nodes(places, args.count, args.gpus, args.instance_type)
        case "check":
            pass
        case "programs":
            binaries.build(places)


def answer(places: Places, args: argparse.Namespace) -> int | None:
    """Commands that only look, and need not wait for those that change: the exit code, or None for
    another command."""
    match args.command:
        case "status":
            found = cluster.status(places)
            print(json.dumps(found, indent=1) if args.output == "json" else in_words(found))
        case "kubeconfig":
            print(places.kubeconfig)
        case "kubectl":
            return subprocess.run(
                [places.kubectl, "--kubeconfig", places.kubeconfig, *args.words], check=False
            ).returncode
        case "rss":
            print(memory.table())
        case _:
            return None
    return 0


def in_words(found: dict[str, object]) -> str:
    if not found["running"]:
        return "no cluster runs: `python -m deploy.local up`"
    return "\n".join(
        f"{name:14} {json.dumps(value) if isinstance(value, dict) else value}"
        for name, value in found.items()
    )


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    authorities = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    places = Places(home / "cede", Path(authorities) if authorities else None)
    try:
        if (code := answer(places, args)) is not None:
            return code
        if missing := requirements.lacks(places):
            raise Failure(missing)
        with cluster.alone(places):
            carry_out(places, args)
    except (Failure, OSError) as failure:
        print(f"deploy.local {args.command}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
