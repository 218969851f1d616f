"""A step is committed by all ranks or by none."""

from collections.abc import Iterator
from typing import NoReturn, cast

import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.meetings import Meetings
from elastic_runtime.messages import Progress, WorkerMessage
from elastic_runtime.training import replica_check
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.step import Step
from elastic_runtime.training.transaction import Outcome
from tests.builders.sessions import join
from tests.fakes.rank_lifecycle import RecordingLink
from tests.harness.thread_ranks import run_ranks


def make_session() -> Session:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return Session(model, optimizer, samples=10, micro_batches=2)


def weight(session: Session) -> torch.Tensor:
    return next(session.model.parameters()).detach().clone()


@pytest.fixture
def session() -> Session:
    return make_session()


def begin(session: Session) -> Step:
    """A step whose passes are done."""
    steps: Iterator[Step] = session.steps(5)
    step = next(steps)
    for _ in step:
        step.backward(session.model(torch.ones(1, 2)).square().mean())
    return step


def test_a_committed_step_updates_the_state(session: Session) -> None:
    before = weight(session)
    step = begin(session)
    assert session._transaction.commit(step) is Outcome.COMMITTED
    assert session.step == 1
    assert session.loss == pytest.approx(float(step.loss))
    assert not torch.equal(weight(session), before)
    assert not session._transaction.gradients_reduced


def test_a_failed_step_leaves_the_state_unchanged(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = weight(session)
    step = begin(session)
    monkeypatch.setattr(session.strategy, "reduce", lambda numbers, max_norm: False)
    assert session._transaction.commit(step) is Outcome.FAILED
    assert (session.step, session.loss) == (0, None)
    assert torch.equal(weight(session), before)


class LostGroup:
    """A peer is lost in the last reduction of a step."""

    def __init__(self) -> None:
        self.meetings = Meetings(2, lambda: False)

    def all_reduce(self, tensor: torch.Tensor) -> NoReturn:
        raise PeerLost("a peer is lost")


class EqualRanks:
    """A group of two whose other rank votes as this one does."""

    def __init__(self) -> None:
        self.vote_sizes = list[int]()
        self.meetings = Meetings(2, lambda: False)

    def all_reduce(self, tensor: torch.Tensor) -> "EqualRanks":
        self.vote_sizes.append(tensor.numel())
        own = tensor[-2 * replica_check.DIGEST_SIZE :]
        own[replica_check.DIGEST_SIZE :] = own[: replica_check.DIGEST_SIZE]
        return self

    def wait(self) -> None:
        """Nothing to do."""


@pytest.fixture
def group(session: Session, monkeypatch: pytest.MonkeyPatch) -> EqualRanks:
    """Every step's parameters are compared in it."""
    group = EqualRanks()
    monkeypatch.setattr(session._parts.lifecycle, "world", 2)
    monkeypatch.setattr(replica_check, "CHECK_INTERVAL", 1)
    numbers = torch.tensor([0.5, 0.5, -1.0, -1.0])
    monkeypatch.setattr(session.strategy, "reduce", lambda numbers, max_norm: True)
    monkeypatch.setattr(session.strategy, "summed", lambda: numbers)
    monkeypatch.setattr(session.strategy, "write_gradients", lambda factor: None)
    return group


def commit_in(group: EqualRanks, session: Session, step: Step) -> Outcome:
    session._parts.lifecycle.group = group  # type: ignore[assignment]
    return session._transaction.commit(step)


def test_parameters_whose_bits_cannot_be_read_do_not_end_the_job(
    session: Session,
    group: EqualRanks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    step = begin(session)
    assert commit_in(group, session, step) is Outcome.COMMITTED

    def fail(*_: object) -> NoReturn:
        raise NotImplementedError("view of a quantized tensor")

    monkeypatch.setattr(replica_check, "_sum_of_bits", fail)
    for _ in range(2):
        assert session._transaction.commit(step) is Outcome.COMMITTED
    assert len(set(group.vote_sizes)) == 1, "every rank must send votes of the same length"
    warnings = [text for text in caplog.messages if "cannot be read (NotImplementedError)" in text]
    assert len(warnings) == 1


def test_the_first_check_of_a_generation_clears_what_another_leading_rank_reported(
    session: Session, group: EqualRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = begin(session)
    reports = list[Progress]()

    def send(message: WorkerMessage) -> None:
        if isinstance(message, Progress):
            reports.append(message)

    monkeypatch.setattr(session._parts.lifecycle, "send", send)
    for generation, count in ((3, 1), (3, 1), (4, 2)):
        session._parts.lifecycle.generation = generation
        commit_in(group, session, step)
        assert reports == [Progress(message="")] * count


def test_a_replica_that_differs_is_reported_by_the_leading_rank() -> None:
    def body(group: Group) -> list[str]:
        session = make_session()
        with torch.no_grad():
            for parameter in session.model.parameters():
                parameter.fill_(1.5 if group.rank == 1 else 1.0)
        step = begin(session)
        join(session, group)
        link = RecordingLink()
        session._parts.lifecycle.link = cast(AgentLink, link)
        assert session._transaction.commit(step) is Outcome.COMMITTED
        return [sent.message or "" for sent in link.sent if isinstance(sent, Progress)]

    [report], *others = run_ranks(3, body)
    assert report.startswith("worker 1 has other parameters than the rest at step 0")
    assert others == [[], []]


def test_a_step_whose_last_reduction_fails_can_still_be_committed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rank may have committed it."""
    before = weight(session)
    step = begin(session)
    monkeypatch.setattr(session._parts.lifecycle, "group", LostGroup())
    assert session._transaction.commit(step) is Outcome.FAILED
    assert session._transaction.gradients_reduced
    assert torch.equal(weight(session), before)
    session._transaction.apply()
    assert session.step == 1
    assert not torch.equal(weight(session), before)


def test_a_broken_step_is_not_reduced(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    step = begin(session)
    monkeypatch.setattr(Step, "broken", True)
    monkeypatch.setattr(session.strategy, "reduce", None)
    assert session._transaction.commit(step) is Outcome.FAILED
    assert not session._transaction.gradients_reduced


def test_a_step_is_committed_before_the_ranks_join_the_next_generation(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = begin(session)
    orders = torch.tensor([3.0, 0.0, 0.0])
    monkeypatch.setattr(session._parts.lifecycle, "next_orders", lambda *, save, stop: orders)
    assert session._transaction.commit(step) is Outcome.RESIZE
    assert session.step == 1


def test_a_save_is_ordered_for_the_state_after_the_step(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[tuple[int, int]] = []
    saver = session._parts.saver
    monkeypatch.setattr(saver, "order_for", lambda step, requests: 2)
    monkeypatch.setattr(
        saver, "save_in_background", lambda step, state, order: saved.append((step, order))
    )
    session._transaction.commit(begin(session))
    assert saved == [(1, 2)]


def test_files_are_written_once_all_ranks_have_voted_in_the_next_step(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then all have copied their pieces."""
    calls: list[str] = []
    saver = session._parts.saver
    monkeypatch.setattr(saver, "order_for", lambda step, requests: 2)
    monkeypatch.setattr(saver, "save_in_background", lambda *_: calls.append("copy"))
    monkeypatch.setattr(saver, "begin_writing", lambda: calls.append("begin to write"))
    session._transaction.commit(begin(session))
    # Those of the save before, and then the copies of the next one.
    assert calls == ["begin to write", "copy"]
