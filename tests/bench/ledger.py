"""Measures the ledger: its sums on a real trace, and what it costs beside a large cluster.

    python -m tests.bench.ledger cost
    python -m tests.bench.ledger replay TRACE --teams TEAMS --from SECONDS --days DAYS

`replay` runs the trace on the simulated cluster under Cede, with a ledger beside it, and under
private partitions, to compare the ledger's estimate with.
"""

import argparse
import asyncio
import itertools
import json
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update

from cede.api.kueue import Workload
from cede.api.objects import Json
from cede.api.team_days import MONTHS
from ledger import books
from ledger.accounting import Entries
from ledger.bookkeeper import Batch, Bookkeeper
from ledger.claims import ClaimKey
from ledger.database import Database
from ledger.day_sums import read_days
from ledger.months import Month, last_months
from ledger.tables import Book, LossRow
from ledger.timeline import SECOND
from scheduler.simulate.cli import text_of
from scheduler.simulate.elastic import make_elastic
from scheduler.simulate.replay import Way, Window
from scheduler.simulate.trace import read_jobs, read_teams
from tests.builders.ledger import KIND, NOW, allocation, policy, seen_at, workload
from tests.harness.ledger_replay import LedgerReplay
from tests.harness.running_ledger import ledger_world

TEAMS = 100
RUNNING = 10_000
ENDED = 10_000
CHANGES = 100
DAY_S = 86_400.0


def main() -> None:
    arguments = parser().parse_args()
    figures = arguments.measure(arguments)
    print(json.dumps(figures, indent=2))


def parser() -> argparse.ArgumentParser:
    program = argparse.ArgumentParser(prog="python -m tests.bench.ledger", description=__doc__)
    commands = program.add_subparsers(required=True)
    commands.add_parser("cost").set_defaults(measure=cost)
    replay = commands.add_parser("replay")
    replay.set_defaults(measure=compare)
    replay.add_argument("trace")
    replay.add_argument("--teams", required=True)
    replay.add_argument("--from", dest="start", type=float, required=True)
    replay.add_argument("--days", type=float, required=True)
    return program


# --- a real trace ---------------------------------------------------------------------------------
def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    teams = read_teams(text_of(arguments.teams), arguments.teams)
    jobs = read_jobs(text_of(arguments.trace), arguments.trace, teams)
    jobs = make_elastic(jobs, 0.5, 0)
    window = Window(arguments.start, arguments.start + arguments.days * DAY_S)
    replays = {}
    for way in (Way.CEDE, Way.PRIVATE):
        replays[way] = LedgerReplay(teams, way)
        replays[way].run(jobs, window)
    shared = replays[Way.CEDE]
    total = shared.ledger.total
    capacity = shared.capacity * (shared.ledger.books.written - shared.started) / SECOND
    teams_sums = list(total.teams.values())
    used = sum(sums["used"] for sums in teams_sums) / SECOND
    idle = sum(s["available"] - s["used"] + s["borrowed"] - s["lent"] for s in teams_sums)
    return {
        "accelerators": shared.capacity,
        "jobs": len(total.jobs),
        "looks": shared.looks,
        "take_back_hours": sum(s["taken_back"] for s in total.claims.values()) / SECOND / 3600,
        "capacity_hours": capacity / 3600,
        "used_and_idle_hours": (used + idle / SECOND) / 3600,
        "difference_percent": 100 * (used + idle / SECOND - capacity) / capacity,
        "used_percent_by_the_ledger": 100 * used / capacity,
        "used_percent_by_the_cluster": 100 * shared.used / capacity,
        "private_percent_estimated": 100
        * sum(sums["private"] for sums in teams_sums)
        / SECOND
        / capacity,
        "private_percent_replayed": 100 * replays[Way.PRIVATE].used / capacity,
    }


# --- cost -----------------------------------------------------------------------------------------
def cost(_: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return pass_times(Path(folder)) | {
            "bytes_per_1000_jobs": bytes_per_1000_jobs(Path(folder)),
            "page_of_a_year_s": page_of_a_year(Path(folder)),
            **asyncio.run(requests(Path(folder))),
        }


def cluster(count: int) -> list[Workload]:
    return [workload(f"job-{number}", f"team-{number % TEAMS}", 8) for number in range(count)]


def pass_times(folder: Path) -> dict[str, Any]:
    """Of passes that see one change of a cluster with many jobs, and of a write of all of them."""
    database = Database(f"sqlite:///{folder}/large.db")
    allocations = [allocation(f"team-{number}", 800) for number in range(TEAMS)]
    cluster_policy = policy(80_000)
    workloads = cluster(RUNNING)
    bookkeeper = Bookkeeper(books.open_books(database, NOW), NOW)
    passes = []
    writes = []
    for number in range(CHANGES):
        workloads[number] = workload(f"job-{number}", f"team-{number % TEAMS}", 4)
        seen_objects = seen_at(
            NOW + number * SECOND,
            cluster_policy=cluster_policy,
            allocations=allocations,
            workloads=workloads,
        )
        passes.append(seconds(partial(bookkeeper.look, seen_objects)))
        begin = time.process_time()
        if batch := bookkeeper.batch():
            books.add(database, batch)
            bookkeeper.has_written(batch)
            writes.append(time.process_time() - begin)
    return {
        "running_jobs": RUNNING,
        "teams": TEAMS,
        "pass_median_ms": 1000 * statistics.median(passes[1:]),
        "first_pass_ms": 1000 * passes[0],
        "write_median_ms": 1000 * statistics.median(writes),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def seconds(work: Callable[[], object]) -> float:
    """Of one core; the machine may be busy."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def bytes_per_1000_jobs(folder: Path) -> float:
    """Of jobs that run for less than a day each."""
    database = Database(f"sqlite:///{folder}/jobs.db")
    bookkeeper = Bookkeeper(books.open_books(database, NOW), NOW)
    for number in range(ENDED // 1000):
        jobs = [
            workload(f"training-{number}-{index}", f"team-{index % TEAMS}", 8)
            for index in range(1000)
        ]
        for second in (0, 20):
            now = NOW + (number * 40 + second) * SECOND
            allocations = [allocation(f"team-{team}", 80) for team in range(TEAMS)]
            bookkeeper.look(
                seen_at(now, cluster_policy=policy(8000), allocations=allocations, workloads=jobs)
            )
            if batch := bookkeeper.batch():
                books.add(database, batch)
                bookkeeper.has_written(batch)
    with database.transaction() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return (folder / "jobs.db").stat().st_size / (ENDED / 1000)


def page_of_a_year(folder: Path) -> float:
    """What the page reads in one request: 30 days, and the statements of 12 months. In each month
    10,000 jobs missed something on two days, and lost something."""
    database = Database(f"sqlite:///{folder}/year.db")
    months = last_months(0, NOW, MONTHS)
    began = months[-1].begin
    books.open_books(database, began)
    for month in months:
        books.add(database, Batch(began, began, busy_month(month), (), ()))
        with database.transaction() as connection:
            connection.execute(insert(LossRow), losses_of(month))
    with database.transaction() as connection:
        connection.execute(update(Book).values(written=NOW))
    return seconds(partial(read_days, database, NOW))


def busy_month(month: Month) -> Entries:
    days = [f"{month.name}-{day:02}" for day in range(1, 29)]
    teams = [f"team-{number}" for number in range(TEAMS)]
    entries = Entries(pools={(day, KIND): Counter(capacity=SECOND) for day in days})
    for day, team in itertools.product(days, teams):
        entries.teams[day, (team, KIND)] = Counter(used=SECOND, available=SECOND)
    for number, day in itertools.product(range(RUNNING), days[:2]):
        job = (teams[number % TEAMS], "namespace", f"job-{number}", f"uid-{number}")
        entries.claims[day, ClaimKey(*job, teams[0], *KIND)] = Counter(taken_back=SECOND)
    return entries


def losses_of(month: Month) -> list[Json]:
    """One of each job."""
    type_name, resource = KIND
    common = {
        "target": 0,
        "instance_type": type_name,
        "resource": resource,
        "number": 1,
        "released": f"{month.name}-02T00:00:00Z",
        "uid": "",
        "how": "Stop",
        "from_size": 8,
        "to_size": 0,
        "lost_steps": 1,
        "lost": SECOND,
        "claimant": "team-0",
        "claimant_job": "team-0/claim",
    }
    return [
        common
        | {"cession": f"{month.name}-{number}", "cession_uid": f"{month.name}-{number}"}
        | {"job": f"namespace/job-{number}"}
        | {"team": f"team-{number % TEAMS}"}
        for number in range(RUNNING)
    ]


async def requests(folder: Path) -> dict[str, Any]:
    """Of an hour of passes, without the lease, which is renewed every 2 s."""
    async with ledger_world(Database(f"sqlite:///{folder}/quiet.db")) as world:
        async with world.running():
            await world.passes(3600)
        return {"requests_in_an_hour": dict(world.server.count())}


if __name__ == "__main__":
    main()
