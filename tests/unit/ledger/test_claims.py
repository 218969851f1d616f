"""What a job misses since a take-back is counted by the claim of the team that got it."""

from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.resources import Quota
from ledger.claims import claims, follow, jobs_of, missing
from ledger.picture import PictureReader
from ledger.timeline import SECOND
from tests.builders.ledger import KIND, NOW, Ledger, cession, policy, seen_at, workload

HOUR = 3600 * SECOND


def hour(ledger: Ledger, start: int, workloads: list[Workload], cessions: list[Cession]) -> None:
    for now in range(start, start + HOUR + 1, 20 * SECOND):
        ledger.look(seen_at(now, workloads=workloads, cessions=cessions))


def after(*stages: tuple[list[Workload], list[Cession]]) -> Ledger:
    """Each stage lasts an hour."""
    ledger = Ledger()
    for number, (workloads, cessions) in enumerate(stages):
        hour(ledger, NOW + number * HOUR, workloads, cessions)
    return ledger


ASKED = cession(("gpt", 8, 4))
RELEASED = cession(("gpt", 8, 4), phase="Completed", released=True)


def gpt(pods: int, *, waits: bool = False) -> list[Workload]:
    return [workload("gpt", pods=pods, waits=waits)]


def test_a_job_that_shrank_misses_the_rest_until_it_has_it_again() -> None:
    ledger = after(
        (gpt(8), [ASKED]), (gpt(4), [RELEASED]), (gpt(6), [RELEASED]), (gpt(8), [RELEASED])
    )
    assert ledger.claim("gpt", "vision") == (4 + 2) * HOUR


def test_what_it_misses_is_counted_after_the_cession_was_deleted() -> None:
    ledger = after((gpt(8), [ASKED]), (gpt(4), [RELEASED]), (gpt(4), []), (gpt(8), []))
    assert ledger.claim("gpt", "vision") == 8 * HOUR


def test_a_job_that_was_stopped_misses_all_while_it_waits() -> None:
    stopped = cession(("gpt", 8, 0), phase="Completed", released=True)
    ledger = after(
        (gpt(8), [cession(("gpt", 8, 0))]), (gpt(8, waits=True), [stopped]), (gpt(8), [stopped])
    )
    assert ledger.claim("gpt", "vision") == 8 * HOUR


def test_a_job_that_ended_misses_nothing() -> None:
    ledger = after((gpt(8), [ASKED]), (gpt(4), [RELEASED]), ([], [RELEASED]), (gpt(4), [RELEASED]))
    assert ledger.claim("gpt", "vision") == 4 * HOUR


def test_a_cession_that_was_cancelled_before_it_took_anything_counts_nothing() -> None:
    cancelled = cession(("gpt", 8, 4), phase="Cancelled")
    ledger = after((gpt(8), [ASKED]), (gpt(8), [cancelled]), (gpt(4), [cancelled]))
    assert ledger.claim("gpt", "vision") == 0


def test_two_take_backs_share_what_a_job_misses() -> None:
    later = cession(("gpt", 4, 2), name="later", claimant="speech")
    released = cession(
        ("gpt", 4, 2), name="later", claimant="speech", phase="Completed", released=True
    )
    ledger = after(
        (gpt(8), [ASKED]),
        (gpt(4), [RELEASED, later]),
        (gpt(2), [RELEASED, released]),
        (gpt(5), [RELEASED, released]),
        (gpt(8), [RELEASED, released]),
    )
    assert ledger.claim("gpt", "vision") == (4 + 4 + 3) * HOUR
    assert ledger.claim("gpt", "speech") == 2 * HOUR


def test_a_restart_changes_nothing_but_a_gap() -> None:
    ledger = after((gpt(8), [ASKED]), (gpt(4), [RELEASED]))
    ledger.restart(NOW + 3 * HOUR)
    hour(ledger, NOW + 3 * HOUR, gpt(4), [])
    assert ledger.claim("gpt", "vision") == 8 * HOUR
    assert ledger.gap == HOUR


def test_a_size_that_nobody_saw_is_not_guessed() -> None:
    """The ledger did not run when the job was stopped."""
    stopped = cession(("gpt", 8, 0), phase="Released", released=True)
    ledger = after((gpt(8, waits=True), [stopped]), (gpt(8, waits=True), [stopped]))
    assert ledger.claim("gpt", "vision") == 0


def test_a_shrink_that_began_unseen_is_counted_by_the_size_that_is_left() -> None:
    ledger = after((gpt(4), [cession(("gpt", 8, 4), phase="Released", released=True)]))
    assert ledger.claim("gpt", "vision") == 4 * HOUR


def test_a_target_may_be_named_by_its_workload() -> None:
    picture = PictureReader().read(policy(), [], gpt(8))
    jobs = jobs_of(picture)
    named = ASKED.model_copy(deep=True)
    named.spec.targets[0].uid = "uid-gpt"
    [take_back] = follow({}, {"c": named}, jobs).values()
    assert take_back.uid == "job-gpt"
    assert claims([take_back], jobs, picture.kinds) == {}


def test_a_job_misses_nothing_beyond_what_was_taken() -> None:
    """It was left 4, and has shrunk further by itself."""
    before = jobs_of(PictureReader().read(policy(), [], gpt(8)))
    [take_back] = follow({}, {"c": ASKED}, before).values()
    now = jobs_of(PictureReader().read(policy(), [], gpt(1)))
    assert missing(take_back, now["job-gpt"]) == Quota({KIND: 4})
