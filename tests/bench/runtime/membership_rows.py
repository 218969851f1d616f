"""What is promised of shrink, growth, a killed and a frozen rank: one row for each peer."""

import os

from tests.bench.runtime.table import Row, Samples

# A rank that sends nothing for this long counts as lost.
HEARTBEAT_S = 1.0


def rows(measured: Samples) -> list[Row]:
    shrink_most = min(0.060, 0.2 * measured.median("shrink step", 0.3))
    width = int(os.environ["BENCH_WIDTH"])
    # Parameters and AdamW's two moments of the job.
    state_bytes = 3 * 4 * 12 * (width * width + width)
    grow_most = 0.060 + state_bytes / (0.5 * measured.median("memcpy", 6e9))
    kill_most = 0.25 + measured.median("kill step", 0.3)
    hang_most = HEARTBEAT_S + 0.1 + measured.median("hang step", 0.3)
    shrink_note = (
        f"median {measured.median('shrink redone'):g} steps redone; request to first commit "
        f"{measured.median('shrink total steps'):.2f} steps"
    )
    shrink = "planned shrink 4→2 DDP: survivors' pause"
    return [
        Row(
            "shrink",
            shrink,
            "≤ 60 ms and ≤ 0.2 step; ≤ 1/80 of torchft",
            "s",
            measured["shrink"],
            "torchft",
            measured["torchft shrink"],
            shrink_most,
            1 / 80,
            note=shrink_note,
        ),
        Row(
            "shrink",
            shrink,
            "≤ 1/250 of torchrun tuned",
            "s",
            measured["shrink"],
            "torchrun",
            measured["torchrun shrink"],
            shrink_most,
            1 / 250,
        ),
        Row(
            "shrink",
            "… by the job's own clock: last commit until the next step may begin",
            "≤ 60 ms",
            "s",
            measured["shrink own"],
            at_most=0.060,
        ),
        Row(
            "samples",
            "micro-batches not used exactly once, in all rows above",
            "0",
            "",
            measured["samples lost"],
            at_most=0.0,
            always=True,
        ),
        Row(
            "kill",
            "rank killed → next commit of all survivors",
            "≤ 0.25 s + 1 step; ≤ 1/10 of torchft",
            "s",
            measured["kill"],
            "torchft",
            measured["torchft kill"],
            kill_most,
            1 / 10,
            note=f"median {measured.median('kill redone'):g} steps redone",
        ),
        Row(
            "kill",
            "the same",
            "≤ 1/6 of NVRx",
            "s",
            measured["kill"],
            "NVRx (gloo timeout 2 s)",
            measured["NVRx kill"],
            kill_most,
            1 / 6,
        ),
        Row(
            "kill",
            "the same",
            "≤ 1/20 of torchrun",
            "s",
            measured["kill"],
            "torchrun",
            measured["torchrun kill"],
            kill_most,
            1 / 20,
        ),
        Row(
            "hang",
            "rank stopped (SIGSTOP) → next commit of all survivors",
            f"heartbeat limit ({HEARTBEAT_S:g} s) + 0.1 s + 1 step",
            "s",
            measured["hang"],
            at_most=hang_most,
            note="" if measured["hang"] else "not freed within 30 s",
        ),
        Row(
            "grow",
            "grow 2→4: survivors' pause",
            "≤ 60 ms + state/(0.5 × memcpy); ≤ 1/2 of torchft",
            "s",
            measured["grow"],
            "torchft",
            measured["torchft grow"],
            grow_most,
            1 / 2,
            note=f"bound {grow_most * 1000:.0f} ms",
        ),
        Row(
            "grow",
            "the same",
            "≤ 1/80 of torchrun",
            "s",
            measured["grow"],
            "torchrun",
            measured["torchrun grow"],
            grow_most,
            1 / 80,
        ),
        Row(
            "grow",
            "… by the job's own clock",
            "≤ 60 ms + state/(0.5 × memcpy)",
            "s",
            measured["grow own"],
            at_most=grow_most,
        ),
        Row(
            "grow",
            "the same",
            "the machine's floor",
            "s",
            measured["grow own"],
            "the state, bare over gloo",
            measured["gloo"],
        ),
        Row(
            "grow",
            "the same",
            "what shared memory could gain",
            "s",
            measured["grow own"],
            "the state, bare through shared memory",
            measured["shared"],
        ),
        Row(
            "grow",
            "grow 2→4: request → warm joiners' first commit",
            "≤ 1 s; ≤ 1/4 of torchft",
            "s",
            measured["grow joiner"],
            "torchft (cold)",
            measured["torchft grow joiner"],
            1.0,
            1 / 4,
        ),
        Row(
            "grow",
            "the same",
            "≤ 1/8 of torchrun",
            "s",
            measured["grow joiner"],
            "torchrun (cold)",
            measured["torchrun grow joiner"],
            1.0,
            1 / 8,
        ),
    ]
