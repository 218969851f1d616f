"""Why a script ends reaches its agent in one line, and a mistake is printed in one line."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from elastic_runtime.integrations import lightning, transformers
from elastic_runtime.messages import Failed, Progress
from elastic_runtime.mistake import Mistake
from elastic_runtime.training import failure_report
from elastic_runtime.training.failure_report import (
    MAX_REASON,
    TEXTS,
    describe,
    one_line,
    report_failures,
    without_secrets,
    without_values,
)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Failed]:
    """What an exception that ends the process sends; Python's own hook prints the traceback."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    failures: list[Failed] = []
    report_failures(failures.append)
    return failures


def end_by(error: BaseException) -> None:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001
        sys.excepthook(type(raised), raised, raised.__traceback__)


def test_a_mistake_is_one_line(sent: list[Failed], capsys: pytest.CaptureFixture[str]) -> None:
    end_by(Mistake("samples is 0: give the length of the dataset"))
    [failure] = sent
    assert failure.is_mistake
    assert failure.reason.startswith("test_failure_report.py, line ")
    assert failure.reason.endswith(": samples is 0: give the length of the dataset")
    assert capsys.readouterr().err == f"elastic_runtime: {failure.reason}\n"


def step_without_gradients() -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    scaler.step(torch.optim.SGD([torch.nn.Parameter(torch.ones(()))]))


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        pytest.param(torch.distributed.barrier, "remove the call, or Dist", id="barrier"),
        pytest.param(torch.distributed.get_rank, "session.rank and session.world are", id="rank"),
        pytest.param(
            lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)),
            "or DistributedDataParallel; workers meet at the end of each step",
            id="DDP",
        ),
        pytest.param(
            lambda: torch.distributed.init_process_group("gloo"),
            "the script calls init_process_group, but the session connects the workers: remove",
            id="init_process_group",
        ),
        pytest.param(
            torch.amp.GradScaler("cpu").update,
            "remove the calls, and pass it to the session, grad_scaler=scaler",
            id="GradScaler",
        ),
        pytest.param(
            step_without_gradients,
            "remove the calls, and pass it to the session, grad_scaler=scaler",
            id="GradScaler, whose gradients the session has taken",
        ),
    ],
)
def test_torchs_own_error_for_what_a_port_leaves_in_becomes_a_line_with_the_cure(
    sent: list[Failed],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: Callable[[], object],
    cure: str,
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises((ValueError, AssertionError), match=r"not|No") as raised:
        call()
    sys.excepthook(raised.type, raised.value, raised.tb)
    [failure] = sent
    assert failure.is_mistake
    assert failure.reason.startswith("test_failure_report.py, line "), "not torch's own"
    assert cure in capsys.readouterr().err


@pytest.mark.parametrize("name", ["LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR"])
def test_a_variable_of_torchrun_that_a_port_still_reads_becomes_a_line_with_the_cure(
    sent: list[Failed],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeyError) as raised:
        os.environ[name]
    sys.excepthook(raised.type, raised.value, raised.tb)
    [failure] = sent
    assert failure.is_mistake
    assert failure.reason.startswith("test_failure_report.py, line "), "not Python's own"
    output = capsys.readouterr().err
    assert f"the script reads {name}, but elastic_runtime sets none of torchrun's vari" in output
    assert "use elastic_runtime.device(), and session.rank and session.world in the loop" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("values", "name"),
    [
        pytest.param({}, "RANK", id="the script's own table"),
        pytest.param(os.environ, "DATA_OF_NOBODY", id="the script's own variable"),
    ],
)
def test_another_key_that_is_missing_is_no_variable_of_torchrun(
    sent: list[Failed], values: Mapping[str, str], name: str
) -> None:
    with pytest.raises(KeyError) as raised:
        values[name]
    sys.excepthook(raised.type, raised.value, raised.tb)
    assert [failure.is_mistake for failure in sent] == [False]
    assert sent[0].reason.startswith("test_failure_report.py, line ")


def test_another_exception_keeps_its_traceback(
    sent: list[Failed], capsys: pytest.CaptureFixture[str]
) -> None:
    end_by(KeyError("x" * 2 * MAX_REASON))
    [failure] = sent
    assert not failure.is_mistake
    assert "KeyError: 'xxx" in failure.reason
    assert len(failure.reason) == MAX_REASON
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "may_heal"),
    [
        (FileNotFoundError("/shared/data is not mounted"), True),
        (LookupError("no checkpoint can be read"), True),
        (KeyError("loss"), False),
        (ImportError("no module named x"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_cause_outside_the_script_may_heal(
    sent: list[Failed], error: Exception, may_heal: bool
) -> None:
    end_by(error)
    assert [failure.may_heal for failure in sent] == [may_heal]


@pytest.mark.parametrize(
    ("package", "name", "is_watched"),
    [
        pytest.param(lightning, "fit", True, id="fit"),
        pytest.param(lightning, "RestartCallback", False, id="Lightning under torchrun"),
        pytest.param(transformers, "ElasticTrainer", True, id="ElasticTrainer"),
        pytest.param(transformers, "RestartCallback", False, id="Trainer under torchrun"),
    ],
)
def test_the_import_of_what_creates_the_session_reports_a_mistake_before_it(
    monkeypatch: pytest.MonkeyPatch, package: ModuleType, name: str, is_watched: bool
) -> None:
    """In a script for torchrun, torch's own errors have another cure."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(failure_report, "_reports_early", False)
    # The frameworks need not be there.
    monkeypatch.setattr("importlib.import_module", lambda _: SimpleNamespace(**{name: None}))
    getattr(package, name)
    assert (sys.excepthook != sys.__excepthook__) == is_watched


def test_an_agent_that_has_ended_hides_no_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def send(failure: Failed) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    report_failures(send)
    end_by(Mistake("no data"))
    assert capsys.readouterr().err.endswith(": no data\n")


def test_a_hook_that_the_script_sets_later_sends_nothing_again(
    sent: list[Failed], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = sys.excepthook
    monkeypatch.setattr(sys, "excepthook", lambda *error: ours(*error))
    report_failures(sent.append)
    end_by(KeyError("loss"))
    assert len(sent) == 1


def test_only_the_first_line_of_an_exception_is_sent() -> None:
    error = RuntimeError("401 Unauthorized\nheaders: {'Authorization': 'Bearer x'}")
    assert describe(error, None) == "RuntimeError: 401 Unauthorized"


def test_values_of_the_environment_are_not_sent(
    sent: list[Failed], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    monkeypatch.setenv("DATA", str(tmp_path))
    end_by(RuntimeError(f"hf_0123456789 may not read {tmp_path}"))
    assert sent[0].reason.endswith(f"RuntimeError: $HF_TOKEN may not read {tmp_path}")


def test_short_values_and_the_longest_match() -> None:
    environment = {"A": "part", "B": "password", "C": "password-and-more"}
    text = "a part of password-and-more, and password"
    assert without_values(text, environment) == "a part of $C, and $B"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("postgresql://trainer:pa55word@db.example/runs", id="address"),
        pytest.param("host=db user=trainer password=pa55word sslmode=require", id="settings"),
        pytest.param("Server=db;Pwd='pa55word';", id="quoted"),
        pytest.param('{"user": "trainer", "api_token": "pa55word"}', id="JSON"),
        pytest.param("team=x,authorization=Bearer pa55word", id="header"),
    ],
)
def test_a_password_inside_a_value_is_not_sent(value: str) -> None:
    text = "db.example: password authentication of trainer failed with pa55word"
    expected = text.replace("pa55word", "$LOGIN")
    assert without_values(text, {"LOGIN": value}) == expected


def test_a_password_is_found_as_it_is_and_as_the_address_has_it() -> None:
    environment = {"PROXY": "http://me:pa%2F55word@proxy:3128"}
    text = without_values("pa/55word, pa%2F55word", environment)
    assert text == "$PROXY, $PROXY"


def test_a_variable_that_is_named_a_password_may_be_shorter() -> None:
    environment = {"DB_PASSWORD": "hunter2", "LEVEL": "verbose", "USE_TOKEN": "false"}
    assert without_values("hunter2 verbose false", environment) == "$DB_PASSWORD verbose false"


def test_what_a_worker_reports_for_the_status_has_no_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORE_LOGIN", "s3://me:pa55word@store/bucket")
    texts: dict[str, Any] = {name: f"{name}: pa55word" for name in TEXTS}
    sent = without_secrets(Progress(step=7, **texts))
    assert [getattr(sent, name) for name in TEXTS] == [f"{name}: $STORE_LOGIN" for name in TEXTS]
    assert sent.step == 7


def test_every_text_of_a_report_is_looked_through() -> None:
    """But for the digest of a checkpoint."""
    texts = {field.name for field in fields(Progress) if "str" in str(field.type)}
    assert texts - {"digest"} == {*TEXTS}


def test_a_long_text_becomes_one_line() -> None:
    text = "Error(s) in loading:\n\tsize of a\n\tsize of b\n\tsize of c\n\tsize of d"
    assert one_line(RuntimeError(text)) == "Error(s) in loading: size of a size of b and 2 more"
