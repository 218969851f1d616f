"""The process of a controller: its flags, and its loop over synced caches."""

import argparse
import asyncio
from typing import Any

from cede.api.objects import JOBS
from cede.kube import service
from cede.kube.cache import Cache
from tests.fakes.api_server import ApiServer


def flags(*arguments: str) -> service.Flags:
    parser = argparse.ArgumentParser()
    service.add_flags(parser, "pod-1")
    return service.read_flags(parser.parse_args(arguments))


def test_every_flag_has_a_default() -> None:
    assert flags() == service.Flags("pod-1", None, 8080, "INFO")


def test_every_flag_can_be_set() -> None:
    given = flags("--identity", "me", "--kubeconfig", "k", "--port", "0", "--log-level", "DEBUG")
    assert given == service.Flags("me", "k", 0, "DEBUG")


class Recording:
    """A controller that records whether its cache was synced at each pass."""

    def __init__(self, cache: Cache[Any]) -> None:
        self.wake = asyncio.Event()
        self.caches = [cache]
        self.synced = list[bool]()
        self.reconciled = asyncio.Event()

    async def reconcile(self) -> float:
        self.synced.append(self.caches[0].synced.is_set())
        self.reconciled.set()
        return 60.0


async def test_the_first_pass_waits_for_the_caches() -> None:
    async with ApiServer() as server, server.client() as client:
        controller = Recording(Cache(client, JOBS, dict))
        running = asyncio.create_task(service.run_controller(controller, after=controller.caches))
        await asyncio.wait_for(controller.reconciled.wait(), 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert controller.synced == [True]
