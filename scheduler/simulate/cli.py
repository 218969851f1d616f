"""`python -m scheduler simulate TRACE --teams TEAMS`: what stock Kueue, Cede and private partitions
would make of a trace of jobs."""

import argparse
import gzip
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.simulate import chart
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.elastic import make_elastic
from scheduler.simulate.figures import figures
from scheduler.simulate.objects import JobSpec, TeamQuota
from scheduler.simulate.replay import Run, Way, Window, replay
from scheduler.simulate.report import Report
from scheduler.simulate.trace import TraceError, read_jobs, read_teams

DAY_S = 86400.0


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        prog="python -m scheduler simulate", description=__doc__, allow_abbrev=False
    )
    arguments.add_argument("trace", help="CSV of jobs: submit, duration, accelerators, team")
    arguments.add_argument("--teams", required=True, help="CSV of teams: team, quota")
    arguments.add_argument("--seed", type=int, default=0, help="which jobs are elastic")
    arguments.add_argument(
        "--elastic",
        type=_fraction,
        default=0.5,
        metavar="FRACTION",
        help="this part of the jobs with several accelerators is elastic; default 0.5",
    )
    arguments.add_argument(
        "--from",
        dest="start",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="begin of the part that is replayed",
    )
    arguments.add_argument(
        "--days", type=_seconds, metavar="DAYS", help="length of this part; default: all"
    )
    arguments.add_argument(
        "--checkpoint-interval",
        type=_seconds,
        metavar="SECONDS",
        help="between two checkpoints of a job; default 1800",
    )
    arguments.add_argument("-o", "--output", choices=("text", "json"), default="text")
    arguments.add_argument("--picture", metavar="FILE", help="write one picture, as SVG")
    return arguments


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return value


def main(arguments: Sequence[str]) -> None:
    """Prints the report. Exits with 1 and a sentence if a file cannot be read."""
    flags = parser().parse_args(arguments)
    try:
        teams = read_teams(text_of(flags.teams), flags.teams)
        jobs = read_jobs(text_of(flags.trace), flags.trace, teams)
    except (TraceError, OSError, UnicodeDecodeError) as error:
        sys.exit(str(error))
    last = max(job.submit for job in jobs)
    last_end = max(job.submit + job.duration for job in jobs)
    end = flags.start + flags.days * DAY_S if flags.days else last_end
    assumptions = Assumptions()
    if flags.checkpoint_interval:
        assumptions = replace(assumptions, checkpoint_s=flags.checkpoint_interval)
    if flags.start >= last:
        sys.exit(f"--from is {flags.start:g}: the last job of {flags.trace} is at {last:g}")
    jobs = make_elastic(jobs, flags.elastic, flags.seed)
    runs = _replay_all(jobs, teams, Window(flags.start, end), assumptions)
    results = tuple(figures(run) for run in runs)
    report = Report(
        trace=flags.trace,
        jobs=len(runs[0].jobs),
        earlier=len(runs[0].earlier),
        accelerators=sum(team.nominal for team in teams),
        days=(end - flags.start) / DAY_S,
        elastic_fraction=flags.elastic,
        elastic_jobs=sum(bool(job.sizes) for job in jobs),
        seed=flags.seed,
        assumptions=assumptions,
        results=results,
    )
    print(report.as_json() if flags.output == "json" else report.as_text())
    if flags.picture:
        samples = [run.samples for run in runs]
        Path(flags.picture).write_text(chart.draw(results, samples, report.accelerators))


def _replay_all(
    jobs: Sequence[JobSpec], teams: Sequence[TeamQuota], window: Window, assumptions: Assumptions
) -> list[Run]:
    runs = [replay(jobs, teams, window, way, assumptions, _show_progress) for way in Way]
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return runs


def _show_progress(way: Way, part: float) -> None:
    """One line that is written over, for people only."""
    if sys.stderr.isatty():
        print(f"\r{way.value}: {part:4.0%}    ", end="", file=sys.stderr, flush=True)


def text_of(file: str) -> str:
    """The file's text; of a name that ends in .gz, decompressed."""
    if file.endswith(".gz"):
        return gzip.decompress(Path(file).read_bytes()).decode()
    return Path(file).read_text()
