"""When a Cession is said to release capacity at the latest, against when the simulator does it."""

import random
from functools import partial

from cede.api.objects import unix
from cede.api.policy import PolicySpec
from cede.causes.cession import why_cession
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import JobSpec
from scheduler.simulate.simulated_scheduler import SimulatedScheduler
from tests.builders.simulated import teams

TEAMS = ("vision", "research", "speech")
HOURS = 4
JOBS = 160
LEAST_CESSIONS = 20
LOOK_S = 2.0
HOLDS_IN = 0.8
"""The part of the estimates that must hold."""
ADMISSION_S = 5.0
"""From the release of the last target to the admission, in the simulator."""


def jobs(seed: int) -> list[JobSpec]:
    """Half of them elastic; of a few minutes to two hours."""
    chance = random.Random(seed)  # noqa: S311
    return [
        JobSpec(
            f"job-{number}",
            chance.choice(TEAMS),
            chance.uniform(0, HOURS * 3600),
            chance.choice((1, 2, 4)),
            chance.uniform(300, 7200),
            chance.choice((10, 50, 100)),
            chance.choice(((), (1, 2, 4, 8))),
        )
        for number in range(JOBS)
    ]


def submit(cluster: Cluster, spec: JobSpec) -> None:
    cluster.submit(spec)


def margins(seed: int) -> list[float]:
    """For each Cession that was admitted: how long before the latest time of its first estimate.
    Negative: it came too late."""
    cluster = Cluster(teams(vision=8, research=8, speech=8), Settings(), Assumptions())
    scheduler = SimulatedScheduler(cluster, PolicySpec())
    begin = cluster.now
    for spec in jobs(seed):
        cluster.clock.at_time(begin + spec.submit, partial(submit, cluster, spec))
    scheduler.start()
    latest = dict[str, float]()
    while cluster.now < begin + HOURS * 3600:
        cluster.clock.run(cluster.now + LOOK_S)
        for name, cession in scheduler.cessions.items():
            if cession.open and name not in latest:
                estimate = why_cession(cession, cluster.now).estimate
                if estimate:
                    latest[name] = unix(estimate.latest)
    times = {name: unix(entry.status.admittedTime) for name, entry in scheduler.cessions.items()}
    return [latest[name] - times[name] for name in latest if times.get(name)]


def test_the_latest_time_of_an_admission_holds() -> None:
    all_margins = [margin for seed in range(2) for margin in margins(seed)]
    assert len(all_margins) >= LEAST_CESSIONS, "too few Cessions to judge"
    holding = sum(margin >= -ADMISSION_S for margin in all_margins)
    assert holding / len(all_margins) >= HOLDS_IN, f"{holding} of {len(all_margins)}"
