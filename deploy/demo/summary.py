"""PURE. The figures of one run of the demo: as JSON, as a table, and whether to believe them."""

import math

from deploy.demo import figures
from deploy.demo.record import Record

MUST_BE_ZERO = ("steps_lost", "samples_lost", "samples_seen_twice", "plain_steps_lost")


def summary(record: Record, full_size: int, stages: dict[str, float]) -> dict[str, float]:
    """The figures and the durations of `stages`, with units in their names.

    A figure that the journals do not contain is nan.
    """
    run = record.run
    counts = figures.account(
        record.steps, record.samples, run["micro_batches"], run["micro_batch_size"], run["samples"]
    )
    pause = figures.pause_of_shrink(record.steps)
    kill = figures.lost_by_kill(
        record.killed_steps, record.killed_at, record.restarted_at, full_size
    )
    plain = figures.gentle_stop(record.plain_steps)
    ordered = figures.merged(record.steps)
    values = {
        "steps": counts.steps,
        "samples": counts.samples,
        "steps_lost": counts.steps_lost,
        "samples_lost": counts.samples_lost,
        "samples_seen_twice": counts.samples_seen_twice,
        "owner_wait_s": record.owner_wait_s,
        "owner_wait_killed_s": record.owner_wait_killed_s,
        "owner_wait_ratio": record.owner_wait_s / record.owner_wait_killed_s,
        "pause_ms": pause.ms,
        "pause_steps": pause.steps,
        "pause_gap_ms": pause.gap_ms,
        "step_8_s": figures.step_seconds(ordered, full_size),
        "step_4_s": figures.step_seconds(ordered, full_size // 2),
        "grew_back_s": record.grew_back_s,
        "accelerator_seconds_lost": figures.lost_by_ceding(record.steps, record.joined_at),
        "plain_steps": plain.steps,
        "plain_steps_lost": plain.steps_lost,
        "plain_saved_step": plain.saved_step,
        "plain_owner_wait_s": record.plain_owner_wait_s,
        "plain_back_s": record.plain_back_s,
        "killed_steps_lost": kill.steps_lost,
        "killed_accelerator_seconds_lost": kill.accelerator_seconds_lost,
    }
    return {name: round(value, 4) for name, value in (values | stages).items()}


def measured(values: dict[str, float]) -> dict[str, float | None]:
    """The figures for JSON, which has no nan."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def table(values: dict[str, float]) -> str:
    """The figures for people, with Cede beside stock Kueue."""
    rows = [
        ("", "with Cede", "stock Kueue"),
        (
            "steps lost",
            "{steps_lost:.0f} of {steps:.0f}",
            "{killed_steps_lost:.0f}",
        ),
        (
            "samples lost / seen twice",
            "{samples_lost:.0f} / {samples_seen_twice:.0f} of {samples:.0f}",
            "",
        ),
        ("owner's wait", "{owner_wait_s:.2f} s", "{owner_wait_killed_s:.2f} s"),
        ("  compared with a kill", "{owner_wait_ratio:.2f} times", ""),
        ("survivors' pause", "{pause_ms:.0f} ms, {pause_steps:.2f} steps", "killed"),
        ("  between the two commits", "{pause_gap_ms:.0f} ms more than a step", ""),
        (
            "accelerator time lost",
            "{accelerator_seconds_lost:.0f} s",
            "{killed_accelerator_seconds_lost:.0f} s",
        ),
        ("grew back after", "{grew_back_s:.1f} s", ""),
        ("the plain job: steps lost", "{plain_steps_lost:.0f} of {plain_steps:.0f}", ""),
        ("  it continued after step", "{plain_saved_step:.0f}", ""),
        ("  owner's wait for it", "{plain_owner_wait_s:.2f} s", ""),
        ("  it trained again after", "{plain_back_s:.1f} s", ""),
    ]
    return "\n".join(
        f"  {name:28}{cede.format(**values):24}{stock.format(**values)}"
        for name, cede, stock in rows
    )


def defects(values: dict[str, float]) -> list[str]:
    """What contradicts the promises of Cede, or was not measured."""
    if not values["steps"]:
        return ["the job's journal holds no step"]
    losses = [f"{name} is {values[name]:.0f}" for name in MUST_BE_ZERO if values[name]]
    unmeasured = [
        f"{name} was not measured" for name, value in values.items() if not math.isfinite(value)
    ]
    return losses + unmeasured
