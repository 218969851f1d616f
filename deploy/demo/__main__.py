"""python -m deploy.demo: runs the demo on a cluster; leaves demo.json, demo.png, demo.svg, and a
picture of the page."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cede.kube.connection import connect
from cede.kube.errors import ApiError
from deploy.demo import page, scenario
from deploy.demo.browser import chromium
from deploy.demo.camera import NO_BROWSER, camera
from deploy.demo.chart import draw, save
from deploy.demo.cluster_watch import watch_cluster
from deploy.demo.driver import Driver
from deploy.demo.kubectl import Kubectl, KubectlFailed
from deploy.demo.record import Record
from deploy.demo.summary import defects, measured, summary, table
from deploy.demo.terminal import Screen

FULL_SIZE = 8
"""The accelerators of the cluster."""
TITLE = "research cedes 4 of 8 accelerators to vision"
OUTPUTS = ("demo.json", "demo.png", "demo.svg")
PICTURE = "demo-page.png"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description=__doc__)
    parser.add_argument(
        "--kubeconfig",
        required=True,
        help="kubeconfig of a cluster with Kueue, Cede and 8 accelerators",
    )
    parser.add_argument("--kubectl", default="kubectl", help="the kubectl to use")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        help=f"folder for {', '.join(OUTPUTS)} (default: this one)",
    )
    parser.add_argument(
        "--stages",
        default="{}",
        help='durations of earlier stages for demo.json, as JSON: {"cluster_s": 9.1}',
    )
    return parser


async def run(
    kubectl: Kubectl, screen: Screen, picture: Path
) -> tuple[Record, list[str], list[str]]:
    """Runs all of the demo beside its page: what was measured, sentences about the page, and its
    defects. Raises TimeoutError, KubectlFailed or ApiError."""
    try:
        shown = page.start(kubectl.kubeconfig)
    except page.NoPage as error:
        return await story(kubectl, screen), [f"There is no page: {error}."], []
    screen.report(f"All of it live on a page: {shown.address}")
    stays = f"The page stays until `make down`: {shown.address}"
    if not chromium():
        return await story(kubectl, screen), [NO_BROWSER, stays], []
    async with camera(shown.address, picture) as taking:
        record = await story(kubectl, screen)
        sentences = [await taking.outcome(), stays]
        return record, sentences, [f"on the page: {error}" for error in taking.errors]


async def story(kubectl: Kubectl, screen: Screen) -> Record:
    """Raises TimeoutError, KubectlFailed or ApiError."""
    record = Record()
    wake = asyncio.Event()
    async with (
        connect(manager="cede-demo", kubeconfig=kubectl.kubeconfig) as client,
        watch_cluster(client, wake.set) as watch,
    ):
        driver = Driver(kubectl, watch, wake, screen)
        await driver.clean_up()
        try:
            await scenario.share(driver)
            await scenario.cede(driver, record, FULL_SIZE)
            await scenario.kill(driver, record, FULL_SIZE)
        finally:
            await driver.clean_up()
    return record


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    screen = Screen(FULL_SIZE)
    started = time.time()
    # those of an earlier run
    for name in (*OUTPUTS, PICTURE):
        (args.out / name).unlink(missing_ok=True)
    try:
        kubectl = Kubectl(args.kubectl, args.kubeconfig)
        record, sentences, page_defects = asyncio.run(
            run(kubectl, screen, args.out.resolve() / PICTURE)
        )
        stages = json.loads(args.stages) | {"story_s": time.time() - started}
        values = summary(record, FULL_SIZE, stages)
    except (TimeoutError, KubectlFailed, ValueError, LookupError, ApiError) as error:
        screen.report(f"The demo stopped: {str(error) or type(error).__name__}")
        print("  see: cede status; kubectl get cq,ca,ces,workloads,pods -A", file=sys.stderr)
        return 1
    (args.out / "demo.json").write_text(json.dumps(measured(values), indent=1) + "\n")
    save(draw(record.holdings, record.marks, record.steps, FULL_SIZE, TITLE), args.out, "demo")
    print(f"\n{record.cession}\n{table(values)}\n")
    print(f"  {', '.join(OUTPUTS)} are in {args.out.resolve()}")
    print("".join(f"  {sentence}\n" for sentence in sentences), end="", flush=True)
    if problems := defects(values) + page_defects:
        print(f"  This is a defect: {'; '.join(problems)}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
