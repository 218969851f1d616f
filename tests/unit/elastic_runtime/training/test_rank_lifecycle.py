"""What a rank knows of its place in the job, and when."""

from typing import cast

import pytest

from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.rank_lifecycle import Seat, Training


def test_a_rank_is_not_told_before_anybody_knows_it() -> None:
    seat = Seat(cast(AgentLink, object()), cast(Training, None))
    with pytest.raises(
        ValueError,
        match=(
            r"session.rank and session.world are known only inside the loop over session.steps: "
            r"move code that a single process runs into the loop"
        ),
    ):
        print(seat.place)


def test_the_only_rank_of_a_plain_run_is_the_first_from_the_start() -> None:
    assert Seat(None, cast(Training, None)).place == (0, 1)
