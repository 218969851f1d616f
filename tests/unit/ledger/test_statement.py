"""The statement of a month: its tables, whose sums are the capacity, and what was not recorded."""

import csv
import json
from collections import Counter
from decimal import Decimal
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.accounting import Gap
from ledger.claims import ClaimKey
from ledger.months import parse_month
from ledger.statement import as_csv, as_json
from ledger.statement_tables import COLUMNS, TABLES, MonthSums, idle
from ledger.timeline import SECOND
from tests.builders.ledger import KIND, NOW, Ledger, allocation, cession, policy, seen_at, workload

HOUR = 3600 * SECOND
NOVEMBER = parse_month("2026-11")
ALLOCATIONS = (allocation("research", 8), allocation("vision", 8), allocation("down", 4, 0))
CESSION = cession(("sweep", 4, 2), phase="Completed", released=True)


def month() -> MonthSums:
    """Two hours: research borrows 4 from vision and 4 that nobody owns; `sweep` misses 2 in the
    second one, which a gap of a quarter follows."""
    ledger = Ledger()
    gpt = workload("gpt", pods=12)
    for hour, pods in ((0, 4), (1, 2)):
        sweep = workload("sweep", pods=pods, since=NOW + SECOND, priority_class="sweep")
        for now in range(NOW + hour * HOUR, NOW + (hour + 1) * HOUR + 1, 20 * SECOND):
            asked = cession(("sweep", 4, 2))
            ledger.look(
                seen_at(
                    now,
                    cluster_policy=policy(20),
                    allocations=ALLOCATIONS,
                    workloads=[gpt, sweep],
                    cessions=[CESSION if hour else asked],
                )
            )
    end = NOW + 2 * HOUR + HOUR // 4
    for now in (end, end + 20 * SECOND):
        ledger.look(
            seen_at(now, cluster_policy=policy(20), allocations=ALLOCATIONS), refuses=now == end
        )
    # up to the end of the gap
    total = ledger.total
    return MonthSums(
        NOVEMBER,
        began=NOW,
        written=ledger.books.written,
        gaps=tuple(total.gaps),
        pools={KIND: ledger.pool},
        teams={(name, KIND): ledger.team(name) for name in ("down", "research", "vision")},
        jobs={key: sums for (_, key), sums in total.jobs.items()},
        claims={key: sums for (_, key), sums in total.claims.items()},
    )


def rows(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(as_csv(month(), table))))


def figures(table: str, *columns: str) -> list[tuple[str, ...]]:
    """These columns of every row."""
    return [tuple(map(short, map(row.get, columns))) for row in rows(table)]


def short(text: str | None) -> str:
    """A number without the zeros at its end."""
    assert text is not None
    return f"{Decimal(text).normalize():f}" if text[:1].isdigit() else text


def test_by_team() -> None:
    """20 s after the gap, the teams are idle: 0.005556 h of what they have."""
    names = ("team", "owned", "available", "used", "borrowed", "lent", "idle")
    assert figures("team", *names) == [
        ("down", "8.022222", "0", "0", "0", "0", "0"),
        ("research", "16.044444", "16.044444", "30", "14", "0", "0.044444"),
        ("vision", "16.044444", "16.044444", "0", "0", "6", "10.044444"),
        ("(unallocated)", "0", "8.022222", "0", "0", "8", "0.022222"),
    ]
    assert figures("team", "team", "taken_back", "claimed", "gained") == [
        ("down", "0", "0", "0"),
        ("research", "2", "0", "13.955556"),
        ("vision", "0", "2", "0"),
        ("(unallocated)", "0", "0", "0"),
    ]


def test_by_type() -> None:
    names = ("capacity", "allocated", "used", "excess", "borrowed", "private", "gained")
    assert figures("type", *names, "used_percent", "private_percent") == [
        ("40.111111", "32.088889", "30", "0", "14", "16.044444", "13.955556", "74.79", "40")
    ]


def test_by_job() -> None:
    names = ("job", "priority_class", "used", "borrowed", "taken_back")
    assert figures("job", *names) == [
        ("gpt", "training", "24", "8", "0"),
        ("sweep", "sweep", "6", "6", "2"),
    ]


def test_by_class() -> None:
    assert figures("class", "priority_class", "team", "used", "borrowed") == [
        ("sweep", "research", "6", "6"),
        ("training", "research", "24", "8"),
    ]


def test_by_claim() -> None:
    assert figures("claim", "team", "claimant", "taken_back") == [("research", "vision", "2")]


def test_a_job_that_waited_all_the_month_has_a_row() -> None:
    sums = month()
    waited = MonthSums(NOVEMBER, NOW, NOW + HOUR, claims=sums.claims)
    [row] = TABLES["job"](waited)
    assert (row["job"], row["used"], row["taken_back"]) == ("sweep", "0.000000", "2.000000")


AMOUNTS = st.integers(0, 10**6).map(lambda number: number * HOUR)
KINDS = st.sampled_from([KIND, ("p4", "nvidia.com/gpu")])
TEAMS = st.sampled_from("abc")


@given(
    st.lists(st.tuples(TEAMS, TEAMS, KINDS, AMOUNTS)),
    st.dictionaries(st.tuples(TEAMS, KINDS), st.tuples(AMOUNTS, AMOUNTS)),
)
def test_what_was_claimed_is_what_was_taken_back_and_all_gains_are_that_of_the_type(
    claimed: list[tuple[str, str, tuple[str, str], int]],
    uses: dict[tuple[str, tuple[str, str]], tuple[int, int]],
) -> None:
    """Also if a team took, or gave, what it had no quota of."""
    sums = MonthSums(
        NOVEMBER,
        NOW,
        NOW,
        pools={kind: Counter(capacity=1) for _, kind in uses},
        teams={key: Counter(used=used, private=private) for key, (used, private) in uses.items()},
        claims={
            ClaimKey(team, team, f"job-{number}", "uid", claimant, *kind): Counter(taken_back=value)
            for number, (team, claimant, kind, value) in enumerate(claimed)
        },
    )
    taken_back = added(TABLES["team"](sums), "taken_back")
    assert taken_back == added(TABLES["team"](sums), "claimed")
    assert taken_back == added(TABLES["claim"](sums), "taken_back")
    assert added(TABLES["team"](sums), "gained") == added(TABLES["type"](sums), "gained")


def added(table: list[dict[str, str]], column: str) -> dict[str, Decimal]:
    """The sums of a column by type, without those that are 0."""
    result: dict[str, Decimal] = {}
    for row in table:
        name = row["instance_type"]
        result[name] = result.get(name, Decimal()) + Decimal(row[column])
    return {name: value for name, value in result.items() if value}


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_the_columns_and_how_much_was_recorded(table: str) -> None:
    head = ["month", "recorded_hours", "not_recorded_hours"]
    for row in rows(table):
        assert list(row) == [*head, *COLUMNS[table]]
        assert (row["month"], row["recorded_hours"]) == ("2026-11", "2.005556")
        # 19 days before the books began, and the gap
        assert row["not_recorded_hours"] == f"{19 * 24 + 0.25:.6f}"


def test_as_json_everything_is_there_and_the_sums_are_the_capacity() -> None:
    statement = json.loads(as_json(month()))
    assert set(statement) == {
        *("month", "recordedHours", "notRecordedHours", "writtenUntil", "gaps", "balance"),
        *("byTeam", "byType", "byJob", "byClass", "byClaim", "byClaimant", "byLoss"),
    }
    [balance] = statement["balance"]
    assert (balance["capacity"], balance["sum"]) == ("40.111111", "40.111111")
    assert balance["difference"] == "0.000000"
    assert statement["gaps"] == [
        {
            "begin": "2026-11-01T00:00:00Z",
            "end": "2026-11-20T00:00:00Z",
            "reason": "the books had not begun",
        },
        {
            "begin": "2026-11-20T02:00:00Z",
            "end": "2026-11-20T02:15:00Z",
            "reason": "the ledger made no pass",
        },
    ]


@pytest.mark.parametrize(
    ("began", "written", "gaps", "recorded", "passed"),
    [
        pytest.param(NOVEMBER.begin - HOUR, NOVEMBER.end + HOUR, (), 720, 720, id="all of it"),
        pytest.param(NOVEMBER.end + 1, NOVEMBER.end + HOUR, (), 0, 720, id="before the books"),
        pytest.param(NOVEMBER.begin - 9, NOVEMBER.begin - 1, (), 0, 0, id="in the future"),
        pytest.param(NOVEMBER.begin, NOVEMBER.begin + HOUR, (), 1, 1, id="its first hour"),
        pytest.param(
            NOVEMBER.begin,
            NOVEMBER.begin + 9 * HOUR,
            (Gap(NOVEMBER.begin, NOVEMBER.begin + 2 * HOUR, ""),),
            7,
            9,
            id="a gap",
        ),
    ],
)
def test_how_much_of_a_month_was_recorded(
    began: int, written: int, gaps: tuple[Gap, ...], recorded: int, passed: int
) -> None:
    sums = MonthSums(NOVEMBER, began, written, gaps)
    assert (sums.recorded, sums.passed) == (recorded * HOUR, passed * HOUR)


def test_an_empty_month_has_headers_only() -> None:
    sums = MonthSums(NOVEMBER, NOW, NOW)
    assert as_csv(sums, "team").count("\n") == 1
    assert json.loads(as_json(sums))["balance"] == []


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_idle_is_what_is_left(used: int, available: int, lent: int) -> None:
    borrowed = max(0, used - available)
    free = max(0, available - used)
    sums = Counter(available=available, used=used, borrowed=borrowed, lent=min(lent, free))
    assert idle(sums) == free - min(lent, free)
