"""When a leader counts as stalled."""

import asyncio
import time

from cede.kube.progress import Progress
from tests.harness.fast_loop import fast


def test_a_leader_without_a_whole_pass_for_so_long_is_stalled() -> None:
    async def test() -> None:
        progress = Progress(limit_s=30.0)
        progress.begin()
        assert not progress.is_stalled
        await asyncio.sleep(31)
        assert progress.is_stalled
        assert progress.last_pass == 0.0
        progress.finish_pass()
        assert not progress.is_stalled
        assert abs(progress.last_pass - time.time()) < 5

    fast(test())
