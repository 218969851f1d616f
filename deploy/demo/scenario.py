"""The halves of the demo: jobs give way gently with Cede, and one is killed with stock Kueue."""

import time

from deploy.demo.cluster_watch import PLAIN_JOB
from deploy.demo.driver import ELASTIC_JOB, OWNER_JOB, STOCK_JOB, Driver
from deploy.demo.record import Record

PLAIN_STEPS = 5
"""The plain job has done so many when it is stopped."""
KILL_AFTER_STEP = 47
"""The kill comes a second or two later, about half-way between two checkpoints."""


async def share(driver: Driver) -> None:
    """Two teams share the cluster."""
    driver.screen.report(
        "The admin writes a policy and two allocations: vision and research own half each, and "
        "lend what is idle."
    )
    await driver.apply_policy_and_allocations()
    await driver.set_mode("Enforce", "Never")


async def cede(driver: Driver, record: Record, full_size: int) -> None:
    """A plain job is stopped for vision and comes back. Then an elastic job cedes half of the
    cluster, and gets it back."""
    driver.screen.report(
        "Research sends a Job that knows nothing of Cede: a script under torchrun, for 4 "
        "accelerators (examples/gentle)."
    )
    await driver.submit("gentle/job.yaml")
    # it needs a whole node
    await driver.wait_until(
        lambda: bool(driver.watch.running("research", PLAIN_JOB)), "the plain job's pod to run", 60
    )
    driver.screen.report("And an elastic one, of 2 to 8 pods: examples/gpt/job.yaml.")
    await driver.submit("gpt/job.yaml")
    async with driver.following(ELASTIC_JOB):
        await _stop_gently(driver, record, full_size)
        await _grow(driver, full_size)
        survivors = await _shrink(driver, record, full_size)
        await _grow_back(driver, record, full_size, survivors)
        await driver.wait_for_steps(5)
        pod = driver.watch.running("research", ELASTIC_JOB)[0]
        record.steps, record.samples, record.run = await driver.read_journal(pod)
    record.holdings = list(driver.watch.holdings)
    await driver.delete_job("vision", OWNER_JOB)
    await driver.delete_job("research", ELASTIC_JOB)
    await driver.wait_for_end("research", ELASTIC_JOB)


async def _stop_gently(driver: Driver, record: Record, full_size: int) -> None:
    """The plain job is stopped for vision, comes back, and is deleted."""
    await driver.wait_until(
        lambda: driver.trains_on(full_size // 2), "the elastic job to train on 4", 150
    )

    async def plain_trains() -> bool:
        return len(await driver.plain_steps()) >= PLAIN_STEPS

    await driver.poll(plain_trains, f"{PLAIN_STEPS} steps of the plain job", 180)
    driver.screen.report(
        "Both train, on 4 each. Now vision wants its 4 back. To shrink the elastic job to 2 would "
        "not be enough: the plain one, of a lower class, is told to save and to end."
    )
    record.marks["plain is told"] = time.time()
    record.plain_owner_wait_s = await driver.submit_owner_job()
    driver.screen.report(f"Vision runs after {record.plain_owner_wait_s:.2f} s, and is done soon.")
    await driver.end_owner_job()
    await _resume(driver, record)
    await driver.delete_job("research", PLAIN_JOB)


async def _resume(driver: Driver, record: Record) -> None:
    freed = time.time()

    async def plain_trains_again() -> bool:
        record.plain_steps = await driver.plain_steps()
        return any(step.time > freed for step in record.plain_steps)

    await driver.poll(plain_trains_again, "the plain job to train again", 180)
    again = next(step for step in record.plain_steps if step.time > freed)
    record.plain_back_s = again.time - freed
    record.marks["plain trains again"] = again.time
    driver.screen.report(
        f"The plain job is back by itself, and continues after step {again.generation}, which it "
        f"had saved. It is deleted now."
    )


async def _grow(driver: Driver, full_size: int) -> None:
    driver.screen.report("4 accelerators are idle, so the elastic job grows.")
    await driver.wait_until(
        lambda: driver.trains_on(full_size), f"research to train on all {full_size}", 150
    )
    await driver.wait_for_steps(10)


async def _shrink(driver: Driver, record: Record, full_size: int) -> set[str]:
    """Returns the uids of the pods that stay."""
    driver.screen.report("It trains on all 8, half of them vision's. Now vision wants its 4 back.")
    record.marks["vision asks"] = time.time()
    record.owner_wait_s = await driver.submit_owner_job()
    record.marks["vision runs"] = time.time()
    driver.screen.report(
        f"Vision runs {record.owner_wait_s:.2f} s after its Workload was created; research "
        f"keeps training."
    )
    await driver.wait_until(
        lambda: driver.trains_on(full_size // 2), "research to train on half", 30
    )
    survivors = {pod.metadata.uid for pod in driver.watch.running("research", ELASTIC_JOB)}
    record.cession = await driver.newest_cession()
    driver.screen.report(record.cession)
    return survivors


async def _grow_back(driver: Driver, record: Record, full_size: int, survivors: set[str]) -> None:
    await driver.wait_for_end("vision", OWNER_JOB)
    ended = time.time()
    record.marks["vision is done"] = ended
    driver.screen.report("Vision is done. Research gets the idle accelerators again.")
    await driver.wait_until(lambda: driver.trains_on(full_size), "research to grow back", 150)
    record.grew_back_s = time.time() - ended
    record.marks["research grew back"] = time.time()
    record.joined_at = [
        driver.watch.running_at[pod.metadata.uid]
        for pod in driver.watch.running("research", ELASTIC_JOB)
        if pod.metadata.uid not in survivors
    ]


async def kill(driver: Driver, record: Record, full_size: int) -> None:
    """The same training without Cede: Kueue preempts the whole job."""
    driver.screen.report(
        "Now stock Kueue (mode Observe), and the same training with plain torch.distributed, which "
        "saves every 20 steps."
    )
    await driver.set_mode("Observe", "Any")
    await driver.submit("gpt/job-torchrun.yaml")
    try:
        async with driver.following(STOCK_JOB):
            await _preempt(driver, record)
            await _restart(driver, record, full_size)
    finally:
        await driver.delete_job("vision", OWNER_JOB)
        await driver.delete_job("research", STOCK_JOB)
        await driver.set_mode("Enforce", "Never")


async def _preempt(driver: Driver, record: Record) -> None:
    await driver.wait_until(
        lambda: driver.has_reached(KILL_AFTER_STEP),
        f"{KILL_AFTER_STEP} steps of the ordinary job",
        180,
    )
    workload = driver.watch.workload_of("research", STOCK_JOB)
    assert workload
    record.owner_wait_killed_s = await driver.submit_owner_job()
    record.killed_at = driver.watch.evicted_at[workload.metadata.uid]
    driver.screen.report(
        f"Vision runs after {record.owner_wait_killed_s:.2f} s; all 8 pods of research are killed."
    )


async def _restart(driver: Driver, record: Record, full_size: int) -> None:
    steps_before = len(driver.steps)
    await driver.wait_for_end("vision", OWNER_JOB)
    await driver.wait_until(
        lambda: len(driver.watch.running("research", STOCK_JOB)) >= full_size,
        "the killed job to run again",
        120,
    )
    pods = driver.watch.running("research", STOCK_JOB)
    record.restarted_at = min(driver.watch.running_at[pod.metadata.uid] for pod in pods)

    def trains_again() -> bool:
        return any(step.time > record.restarted_at for step in driver.steps[steps_before:])

    await driver.wait_until(trains_again, "the killed job to train again", 120)
    record.killed_steps = list(driver.steps)
