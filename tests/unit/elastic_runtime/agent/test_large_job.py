"""What a coordinator does for 1,000 pods at once."""

import asyncio
from unittest import mock

from elastic_runtime.agent import membership
from elastic_runtime.agent.coordination import RECORD_PATH, MemberReport
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.membership_view import Limits
from tests.fakes.agents import HOST, report_to

PODS = 1000


async def test_a_thousand_pods_start_in_one_generation_with_few_plans() -> None:
    """A plan surveys all pods: one for each report would be a million looks at a pod."""
    # Each reports once, which may take long on a busy machine.
    job = Coordinator(PODS, Limits(silent_s=600.0))
    with mock.patch.object(membership, "plan", wraps=membership.plan) as plan:
        deciding = asyncio.create_task(job.run())
        try:
            for index in range(PODS):
                await report_to(job, ready(index))
                # as between two requests of the control port
                await asyncio.sleep(0)
            plans_meanwhile = plan.call_count
            async with asyncio.timeout(60):
                while not job.view.record.members:
                    await job.handle("GET", f"{RECORD_PATH}?after={job.revision}", b"")
        finally:
            deciding.cancel()
    assert job.view.record.generation == 1
    assert job.view.record.members == tuple(range(PODS))
    assert 0 < plans_meanwhile < PODS / 3


def ready(index: int) -> MemberReport:
    return MemberReport(index, f"life-{index}", address=HOST, ready=True)
