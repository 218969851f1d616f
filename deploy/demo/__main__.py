"""python -m deploy.demo: tell the story on the cluster of a kubeconfig, and leave demo.json and
demo.png."""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cede.kube.connection import connect
from cede.kube.errors import ApiError
from deploy.demo import figures
from deploy.demo.chart import paint
from deploy.demo.cluster_watch import watch
from deploy.demo.kubectl import Failed, Kubectl
from deploy.demo.scenario import Record, Story
from deploy.demo.terminal import Screen

FULL = 8


async def tell(kubectl: Kubectl, screen: Screen) -> Record:
    """The whole story. Raises TimeoutError or Failed with what was being waited for."""
    wake = asyncio.Event()
    async with (
        connect(manager="cede-demo", kubeconfig=kubectl.kubeconfig) as client,
        watch(client, wake.set) as watching,
    ):
        story = Story(kubectl, watching, wake, screen, FULL)
        await story.clean()
        try:
            await story.share()
            await story.mode("Enforce", "Never")
            await story.gentle()
            await story.killed()
        finally:
            await story.clean()
        return story.record


def summary(record: Record, stages: dict[str, float]) -> dict[str, float]:
    """The figures, flat, names with units; `nan` where the log does not hold what a figure needs,
    null in demo.json."""
    run = record.run
    counted = figures.account(
        record.steps, record.samples, run["micro_batches"], run["micro_batch_size"], run["samples"]
    )
    pause = figures.pause_of_shrink(record.steps)
    kill = figures.lost_by_kill(record.killed_steps, record.killed_at, record.restarted_at, FULL)
    found = {
        "steps": counted.steps,
        "samples": counted.samples,
        "steps_lost": counted.steps_lost,
        "samples_lost": counted.samples_lost,
        "samples_seen_twice": counted.samples_seen_twice,
        "owner_wait_s": record.owner_wait_s,
        "owner_wait_killed_s": record.owner_wait_killed_s,
        "owner_wait_ratio": record.owner_wait_s / record.owner_wait_killed_s,
        "pause_ms": pause.ms,
        "pause_steps": pause.steps,
        "pause_gap_ms": pause.gap_ms,
        "step_8_s": figures.step_seconds(figures.merged(record.steps), FULL),
        "step_4_s": figures.step_seconds(figures.merged(record.steps), FULL // 2),
        "grew_back_s": record.grew_back_s,
        "accelerator_seconds_lost": figures.lost_by_ceding(record.steps, record.joined_at),
        "killed_steps_lost": kill.steps_lost,
        "killed_accelerator_seconds_lost": kill.accelerator_seconds_lost,
    }
    return {name: round(value, 4) for name, value in (found | stages).items()}


def in_words(found: dict[str, float]) -> str:
    rows = [
        ("", "with Cede", "stock Kueue"),
        (
            "steps lost",
            f"{found['steps_lost']:.0f} of {found['steps']:.0f}",
            f"{found['killed_steps_lost']:.0f}",
        ),
        (
            "samples lost / seen twice",
            (
                f"{found['samples_lost']:.0f} / {found['samples_seen_twice']:.0f} of "
                f"{found['samples']:.0f}"
            ),
            "",
        ),
        ("owner's wait", f"{found['owner_wait_s']:.2f} s", f"{found['owner_wait_killed_s']:.2f} s"),
        ("  against a kill", f"{found['owner_wait_ratio']:.2f} times", ""),
        (
            "survivors' pause",
            f"{found['pause_ms']:.0f} ms, {found['pause_steps']:.2f} steps",
            "killed",
        ),
        ("  between the two commits", f"{found['pause_gap_ms']:.0f} ms more than a step", ""),
        (
            "accelerators' time lost",
            f"{found['accelerator_seconds_lost']:.0f} s",
            f"{found['killed_accelerator_seconds_lost']:.0f} s",
        ),
        ("grew back after", f"{found['grew_back_s']:.1f} s", ""),
    ]
    return "\n".join(f"  {name:28}{ours:24}{stock}" for name, ours, stock in rows)


def bad(found: dict[str, float]) -> list[str]:
    """What a reader should not believe, or not accept."""
    out = [
        f"{name} is {found[name]:.0f}"
        for name in ("steps_lost", "samples_lost", "samples_seen_twice")
        if found[name]
    ]
    out += [f"{name} was not measured" for name, value in found.items() if not math.isfinite(value)]
    return out if found["steps"] else ["the job's journal holds no step"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description=__doc__)
    parser.add_argument(
        "--kubeconfig",
        required=True,
        help="of the cluster that runs Kueue and Cede, with 8 accelerators",
    )
    parser.add_argument("--kubectl", default="kubectl", help="which kubectl to type with")
    parser.add_argument(
        "--out", type=Path, default=Path(), help="where demo.json and demo.png go (default: here)"
    )
    parser.add_argument(
        "--stages",
        default="{}",
        help='stage times to keep in demo.json, as JSON: {"cluster_s": 9.1}',
    )
    args = parser.parse_args(argv)
    screen = Screen(FULL)
    began = time.time()
    # an earlier run's are not this one's
    for name in ("demo.json", "demo.png"):
        (args.out / name).unlink(missing_ok=True)
    try:
        record = asyncio.run(tell(Kubectl(args.kubectl, args.kubeconfig), screen))
        found = summary(record, json.loads(args.stages) | {"story_s": time.time() - began})
    except (TimeoutError, Failed, ValueError, LookupError, ApiError) as error:
        screen.say(f"The story stopped: {error or type(error).__name__}")
        print("  look with: cede status; kubectl get cq,ca,ces,workloads,pods -A", file=sys.stderr)
        return 1
    measured = {name: value if math.isfinite(value) else None for name, value in found.items()}
    (args.out / "demo.json").write_text(json.dumps(measured, indent=1) + "\n")
    paint(
        args.out / "demo.png",
        record.holdings,
        record.marks,
        record.steps,
        FULL,
        "research cedes 4 of 8 accelerators to vision",
    )
    print(
        (
            f"\n{record.cession}\n{in_words(found)}\n\n  demo.json and demo.png are in "
            f"{args.out.resolve()}"
        ),
        flush=True,
    )
    if wrong := bad(found):
        print(f"  That is a defect: {'; '.join(wrong)}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
