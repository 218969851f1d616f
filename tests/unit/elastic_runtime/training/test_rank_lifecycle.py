"""What a rank knows about its place in the job, and when."""

from typing import cast

import pytest

from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.rank_lifecycle import RankLifecycle


def test_a_rank_is_unknown_before_it_has_joined_a_generation() -> None:
    lifecycle = RankLifecycle(cast(AgentLink, object()))
    with pytest.raises(
        ValueError,
        match=(
            "session.rank and session.world are known only inside the loop over session.steps: "
            "move code that a single process runs into the loop"
        ),
    ):
        print(lifecycle.rank_and_world)


def test_a_script_without_an_agent_is_rank_0_of_1() -> None:
    assert RankLifecycle(None).rank_and_world == (0, 1)
