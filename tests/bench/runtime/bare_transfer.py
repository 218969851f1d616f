"""The machine's own time for moving the state of the job between processes."""

import statistics

from tests.bench.runtime.commits import lines
from tests.bench.runtime.processes import EVENT_S, WORKERS, Job
from tests.bench.runtime.table import Samples

ROUNDS = 5


def bare_transfer(shards: int, measured: Samples) -> None:
    """Adds the seconds in which two ranks at once send their state, or one of so many shards of it,
    to two others: `gloo`, and through `shared` memory."""
    with Job() as job:
        for rank in range(4):
            job.start(str(WORKERS / "transfer.py"), str(rank), str(ROUNDS), str(shards))
        job.wait(EVENT_S)
        rounds = [line["seconds"] for line in lines(job.folder, "events-0-*.jsonl")]
    for name in rounds[0]:
        measured.add(name, statistics.median(seconds[name] for seconds in rounds))
