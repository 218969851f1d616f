"""Whatever somebody changes in the records is detected."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.audit_chain import (
    FIRST,
    AuditRecord,
    Head,
    canonical,
    complaint,
    line_of,
    next_record,
    parse_head,
    parse_record,
)

Records = list[AuditRecord]


def chain(count: int = 5) -> Records:
    records: Records = []
    for number in range(count):
        last = records[-1].head if records else None
        content = canonical({"count": number})
        records.append(next_record(last, "2026-11-20T00:00:00Z", "Kind", f"n-{number}", content))
    return records


def rewritten(records: Records) -> Records:
    """All hashes are computed again, as somebody could who has the program."""
    result: Records = []
    for record in records:
        last = result[-1].head if result else None
        result.append(next_record(last, record.time, record.kind, record.name, record.content))
    return result


HEAD = chain()[-1].head


def test_records_that_nobody_changed_are_intact() -> None:
    assert complaint(chain(), HEAD) == ""
    assert complaint(chain(9), HEAD) == "", "more may follow what was noted"
    assert complaint([]) == ""


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        pytest.param(
            lambda r: [*r[:2], replace(r[2], content='{"count":9}'), *r[3:]],
            "record 3 was changed",
            id="edited",
        ),
        pytest.param(
            lambda r: [*r[:2], replace(r[2], name="other"), *r[3:]],
            "record 3 was changed",
            id="another object",
        ),
        pytest.param(
            lambda r: [*r[:2], replace(r[2], time="2026-11-21T00:00:00Z"), *r[3:]],
            "record 3 was changed",
            id="another time",
        ),
        pytest.param(lambda r: [*r[:2], *r[3:]], "record 3 is missing", id="deleted"),
        pytest.param(lambda r: r[1:], "record 1 is missing", id="the first deleted"),
        pytest.param(lambda r: [r[0], r[2], r[1], *r[3:]], "record 2 is missing", id="reordered"),
        pytest.param(
            lambda r: [r[0], replace(r[2], number=2), replace(r[1], number=3), *r[3:]],
            "record 2 does not follow",
            id="reordered and numbered again",
        ),
        pytest.param(lambda r: r[:-1], "record 4 is the last", id="the newest deleted"),
        pytest.param(lambda r: [], "there are none", id="all deleted"),
        pytest.param(
            lambda r: rewritten([*r[:2], replace(r[2], content="{}"), *r[3:]]),
            "record 5 is not the one that was noted",
            id="edited and all hashes written again",
        ),
        pytest.param(
            lambda r: rewritten([*r[:-1], r[-1], r[-1]][1:]),
            "record 5 is not the one that was noted",
            id="one deleted, one added, all hashes written again",
        ),
    ],
)
def test_each_way_to_change_them_is_named(
    tamper: Callable[[Records], Records], expected: str
) -> None:
    assert expected in complaint(tamper(chain()), HEAD)


FIELDS = st.sampled_from(["time", "kind", "name", "content", "previous", "hash"])


@given(st.integers(0, 4), FIELDS, st.text(max_size=5))
def test_no_field_can_change(index: int, field: str, text: str) -> None:
    records = chain()
    if getattr(records[index], field) == text:
        return
    records[index] = replace(records[index], **{field: text})  # type: ignore[arg-type]
    assert complaint(records, HEAD)


@given(st.lists(st.integers(0, 4), max_size=7))
def test_no_other_selection_of_the_records_passes(numbers: list[int]) -> None:
    records = chain()
    chosen = [records[number] for number in numbers]
    assert (complaint(chosen, HEAD) == "") == (numbers == [0, 1, 2, 3, 4])


def test_texts_cannot_pass_for_others() -> None:
    first = next_record(None, "t", "a", "bc", "{}")
    second = next_record(None, "t", "ab", "c", "{}")
    assert first.hash != second.hash
    assert first.previous == FIRST


def test_a_head_is_written_and_read() -> None:
    assert parse_head(f" {HEAD}\n") == HEAD


@pytest.mark.parametrize("text", ["", "12", "x:" + FIRST, "1:abc", f"-1:{FIRST}"])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no head of the audit"):
        parse_head(text)


def test_equal_contents_have_one_text() -> None:
    assert canonical({"b": 1, "a": "ü"}) == canonical({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'


def test_a_head_names_number_and_hash() -> None:
    assert str(Head(3, FIRST)) == f"3:{FIRST}"


@pytest.mark.parametrize("text", ["a\u2028b", "a\x85b", "größe"])
def test_a_record_is_one_line_whatever_its_texts_are(text: str) -> None:
    record = next_record(None, "2026-11-20T00:00:00Z", "Kind", "n", canonical({"text": text}))
    [line] = line_of(record).splitlines()
    assert line.isascii()
    assert parse_record(line) == record
