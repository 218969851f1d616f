"""The worker process that runs an external command."""

import pytest

from elastic_runtime.agent.external_command import is_worker, script


@pytest.mark.parametrize("name", ["USR1", "SIGUSR1"])
def test_signal_is_named_with_or_without_its_prefix(name: str) -> None:
    module = "elastic_runtime.agent.external_command"
    expected = ["-m", module, "SIGUSR1", "done", "sleep", "9"]
    assert script(name, "done", ["sleep", "9"]) == expected
    assert is_worker(expected)
    assert not is_worker(["train.py", "external_command"])


def test_unknown_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="name of a signal, such as USR1"):
        script("BANG", "", ["sleep", "9"])
