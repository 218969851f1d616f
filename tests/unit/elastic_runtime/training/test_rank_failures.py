"""What a rank does when a step fails or a generation does not form, and when it gives up."""

from typing import cast

import pytest

from elastic_runtime import messages
from elastic_runtime.distributed.group import Group
from elastic_runtime.messages import Record
from elastic_runtime.training.rank_lifecycle import Joined, LeftOut, RankLifecycle
from tests.fakes.rank_lifecycle import (
    FakeGroup,
    RecordingLink,
    fake_group,
    lifecycle,
    next_generation,
)

# --- a step ---------------------------------------------------------------------------------------


def test_a_job_of_one_cannot_recover_from_a_failed_step() -> None:
    with pytest.raises(RuntimeError, match="a step failed in a job of one"):
        RankLifecycle(None).abandon_step()


def test_the_other_ranks_learn_of_a_failed_step_by_the_aborted_group() -> None:
    group = fake_group()
    link = RecordingLink()
    lifecycle(link, group=group).abandon_step()
    assert group.is_aborted
    assert link.sent == [messages.Broken(1)]


def test_a_step_that_fails_again_and_again_ends_the_process() -> None:
    failing = lifecycle(RecordingLink(), group=fake_group())
    failing.abandon_step()
    failing.group = cast(Group, fake_group(2))
    failing.abandon_step()
    failing.group = cast(Group, fake_group(3))
    with pytest.raises(RuntimeError, match=r"a step failed 3 times in a row.*: a connection ended"):
        failing.abandon_step()


def test_a_step_whose_group_was_aborted_by_the_agent_does_not_count() -> None:
    """A rank was lost that was about to join: the processes of the step are the same."""
    link = RecordingLink()
    repeating = lifecycle(link)
    for generation in range(1, 5):
        group = fake_group(generation)
        group.abort()
        repeating.generation = generation
        repeating.group = cast(Group, group)
        repeating.abandon_step()
    assert link.sent == [messages.Broken(generation) for generation in range(1, 5)]


# --- a generation that forms ----------------------------------------------------------------------


def test_a_generation_that_does_not_form_is_given_up(made_groups: list[FakeGroup]) -> None:
    left_out = Record(3, (1,))
    link = RecordingLink(newer=(Record(2, (0, 1), store=FakeGroup.LOST_STORE), left_out))
    assert next_generation(lifecycle(link)) == LeftOut(left_out)
    assert link.sent == [messages.Joining(), messages.Broken(2)]
    assert link.guarded is None
    assert [(group.is_aborted, group.is_closed) for group in made_groups] == [(True, True)]


def lost(*generations: int) -> tuple[Record, ...]:
    return tuple(Record(number, (0, 1), store=FakeGroup.LOST_STORE) for number in generations)


def test_a_rank_without_a_group_ends_after_three_generations_that_do_not_form(
    made_groups: list[FakeGroup],
) -> None:
    """It may be the cause, and holds no state that would be lost."""
    link = RecordingLink(newer=lost(2, 3, 4, 5))
    with pytest.raises(
        ConnectionError, match="3 generations in a row did not form: a peer is lost"
    ):
        next_generation(lifecycle(link, generation=0))


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(
            tuple(
                Record(number, (0, 1), ("a", f"b{number}"), store=FakeGroup.LOST_STORE)
                for number in range(2, 6)
            ),
            id="another process is lost each time",
        ),
        pytest.param(
            tuple(Record(number, (0, 1), store=FakeGroup.ABORTED_STORE) for number in range(2, 6)),
            id="the agent tells of each loss",
        ),
    ],
)
def test_losses_of_others_do_not_end_a_rank_without_a_group(
    made_groups: list[FakeGroup], losses: tuple[Record, ...]
) -> None:
    link = RecordingLink(newer=(*losses, Record(6, (0,), store="host:1")))
    joined = next_generation(lifecycle(link, generation=0))
    assert isinstance(joined, Joined)
    assert link.sent == [messages.Joining(), *map(messages.Broken, range(2, 6))]


def test_a_rank_with_a_group_goes_on_and_the_status_says_why(made_groups: list[FakeGroup]) -> None:
    link = RecordingLink(newer=(*lost(2, 3, 4), Record(5, (0,), store="host:1")))
    joining = lifecycle(link, group=fake_group())
    joined = next_generation(joining)
    assert isinstance(joined, Joined)
    joining.enter(joined)
    sent = [message.message for message in link.sent if isinstance(message, messages.Progress)]
    assert sent == ["3 generations in a row did not form: a peer is lost", ""]
