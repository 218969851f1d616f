"""The summary of the demo: its figures, its table, and its defects."""

import json
import math

import pytest

from deploy.demo.record import Record, Step
from deploy.demo.summary import defects, measured, summary, table

GOOD = {
    "steps": 240,
    "steps_lost": 0,
    "samples_lost": 0,
    "samples_seen_twice": 0,
    "plain_steps_lost": 0,
    "pause_ms": 37.0,
}


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        pytest.param({}, [], id="good"),
        pytest.param({"steps_lost": 1}, ["steps_lost is 1"], id="a lost step"),
        pytest.param({"plain_steps_lost": 2}, ["plain_steps_lost is 2"], id="of the plain job"),
        pytest.param({"pause_ms": math.nan}, ["pause_ms was not measured"], id="not measured"),
        pytest.param({"steps": 0}, ["the job's journal holds no step"], id="an empty journal"),
    ],
)
def test_a_summary_without_evidence_is_a_defect(
    changed: dict[str, float], problems: list[str]
) -> None:
    assert defects(GOOD | changed) == problems


def test_json_has_null_for_a_figure_that_was_not_measured() -> None:
    assert json.dumps(measured({"a": math.nan, "b": 1.5})) == '{"a": null, "b": 1.5}'


def a_record() -> Record:
    """Ten steps on 8, ten on 4, ten on 8; and a killed job that repeats five steps."""
    steps = [Step(n, 1.0, 8, n * 0.5) for n in range(1, 11)]
    steps += [Step(n, 1.0, 4, n * 0.5, 1, pause_ms=50.0) for n in range(11, 21)]
    steps += [Step(n, 1.0, 8, n * 0.5, 2) for n in range(21, 31)]
    samples = [
        {
            "step": step.step,
            "micro_batch": 0,
            "generation": step.generation,
            "samples": [step.step],
        }
        for step in steps
    ]
    return Record(
        steps=steps,
        samples=samples,
        run={"micro_batches": 1, "micro_batch_size": 1, "samples": 1000},
        killed_steps=[Step(n, 1.0, 8, float(n)) for n in range(1, 26)]
        + [Step(n, 1.0, 8, 100.0 + n) for n in range(21, 30)],
        killed_at=25.5,
        restarted_at=110.0,
        plain_steps=[Step(n, 1.0, 4, n * 0.5) for n in range(1, 8)]
        + [Step(n, 1.0, 4, n * 0.5, 7) for n in range(8, 12)],
        owner_wait_s=2.0,
        owner_wait_killed_s=4.0,
        grew_back_s=9.0,
    )


def test_the_summary_of_a_good_run_has_no_defect() -> None:
    values = summary(a_record(), 8, {"cluster_s": 1.5})
    assert defects(values) == []
    assert (values["steps"], values["killed_steps_lost"], values["cluster_s"]) == (29, 5, 1.5)
    assert (values["plain_steps"], values["plain_saved_step"]) == (11, 7)
    assert (values["owner_wait_ratio"], values["step_4_s"], values["pause_ms"]) == (0.5, 0.5, 50.0)


def test_the_table_has_cede_beside_stock_kueue() -> None:
    rows = table(summary(a_record(), 8, {})).splitlines()
    assert rows[0].split() == ["with", "Cede", "stock", "Kueue"]
    assert rows[1].split() == ["steps", "lost", "0", "of", "29", "5"]
    assert rows[3].split() == ["owner's", "wait", "2.00", "s", "4.00", "s"]
