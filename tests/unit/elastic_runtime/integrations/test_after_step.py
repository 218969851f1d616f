"""What follows a step is in the state as a whole, or not at all."""

from typing import Any

import pytest

from elastic_runtime.integrations.after_step import AfterStep


class Framework:
    def __init__(self) -> None:
        self.logs = list[str]()
        self.after_step = AfterStep(self.read, self.write)

    def read(self) -> dict[str, Any]:
        return {"logs": list(self.logs)}

    def write(self, state: dict[str, Any]) -> None:
        self.logs = state["logs"]


def joined(state: dict[str, Any]) -> Framework:
    """A worker that receives this state."""
    other = Framework()
    other.after_step.load_state_dict(state)
    return other


def test_who_joins_while_a_step_is_followed_has_nothing_of_it() -> None:
    framework = Framework()
    with framework.after_step.following(1):
        framework.logs.append("one")
        during = framework.after_step.state_dict()
    after = framework.after_step.state_dict()
    assert (joined(during).after_step.step, joined(during).logs) == (0, [])
    assert (joined(after).after_step.step, joined(after).logs) == (1, ["one"])


def test_a_step_whose_end_raised_an_error_is_not_followed() -> None:
    framework = Framework()
    with pytest.raises(OSError, match="disk"), framework.after_step.following(1):
        raise OSError("disk")
    assert framework.after_step.step == 0


def test_its_own_state_that_is_given_back_meanwhile_changes_nothing() -> None:
    framework = Framework()
    with framework.after_step.following(1):
        framework.logs.append("one")
        framework.after_step.load_state_dict(framework.after_step.state_dict())
        assert framework.logs == ["one"]
    assert framework.after_step.step == 1


def test_the_state_of_another_step_takes_its_place() -> None:
    framework = Framework()
    for step in (1, 2):
        with framework.after_step.following(step):
            framework.logs.append(str(step))
        if step == 1:
            old = framework.after_step.state_dict()
    with framework.after_step.following(3):
        framework.after_step.load_state_dict(old)
        assert framework.logs == ["1"]
        # As the session does when the step in flight is given up.
        present = framework.after_step.state_dict()
        framework.logs.append("lost")
    framework.after_step.load_state_dict(present)
    assert (framework.after_step.step, framework.logs) == (1, ["1"])
