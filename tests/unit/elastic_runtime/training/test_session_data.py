"""`Session(data=...)` and `step.data`: as with a loader or streams of the session."""

import gc
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from elastic_runtime import Session
from elastic_runtime.data import samples_digest
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.step import Step
from tests.builders.sessions import small_model

INPUTS = torch.arange(32.0).reshape(16, 2)


def session_of(data: Any, **options: Any) -> Session:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Session(model, optimizer, data=data, micro_batches=2, **options)


def taken(session: Session) -> list[list[float]]:
    """The samples of the micro-batches of two steps."""
    taken = []
    for step in session.steps(2):
        for (inputs,) in step.data:
            taken.append(inputs.flatten().tolist())
            step.backward(session.model(torch.ones(1, 2)).square().mean())
    return taken


def samples_of(number: int, count: int, epoch: int) -> Iterator[tuple[torch.Tensor]]:
    yield from ((row,) for row in INPUTS[number::count])


def test_a_data_loader_gives_dataset_and_batch_size() -> None:
    dataset = TensorDataset(INPUTS)
    session = session_of(DataLoader(dataset, batch_size=4, shuffle=True))
    assert (session.samples, session.micro_batch_size) == (16, 4)
    expected = taken(session_of(dataset, micro_batch_size=4))
    assert taken(session) == expected
    assert sorted(chain.from_iterable(expected)) == INPUTS.flatten().tolist()


def test_workers_compare_the_dataset_of_their_first_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_digest, "compute", len)
    session = session_of(TensorDataset(INPUTS), micro_batch_size=4)
    monkeypatch.setattr(samples_digest, "compute", lambda dataset: 1 + len(dataset))
    session.loader(TensorDataset(INPUTS.clone()))
    assert session._generations._rank_state().samples_digest == 16


@pytest.mark.parametrize(
    ("seed", "sent"),
    [(1337, 1337), (-1, -1), ((1 << 63) - 1, (1 << 63) - 1), ((1 << 64) - 1, -1), (1 << 70, 0)],
)
def test_workers_compare_what_decides_on_samples(seed: int, sent: int) -> None:
    session = session_of(TensorDataset(INPUTS), micro_batch_size=4, seed=seed)
    own = session._generations._rank_state()
    assert own[-4:] == (16, 2, 4, sent)
    assert torch.tensor(own).tolist()[-1] == sent


def test_further_loaders_read_the_same_number_of_samples() -> None:
    dataset = TensorDataset(INPUTS)
    session = session_of(dataset, micro_batch_size=4)
    flipped = session.loader(TensorDataset(INPUTS.flip(1)))
    batches = [batch for step in session.steps(1) for batch in both(session, step, flipped)]
    assert all(torch.equal(own, other.flip(1)) for own, other in batches)


def both(
    session: Session, step: Step, other: Loader
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each micro-batch of the step as the session and as the other loader reads it."""
    for batch in step:
        step.backward(session.model(torch.ones(1, 2)).square().mean())
        (others,) = other.read(step, batch)
        yield INPUTS[batch.indices], others


EVALUATE = r"evaluate other data by session.evaluate\(dataset, function\)"


@pytest.mark.parametrize("given", [{"data": TensorDataset(INPUTS)}, {"data": None, "samples": 16}])
def test_a_loader_with_another_number_of_samples_is_refused(given: dict[str, Any]) -> None:
    session = session_of(**given)
    message = f"this loader has 8 samples, and the session trains on 16: {EVALUATE}"
    with pytest.raises(Mistake, match=message):
        session.loader(TensorDataset(INPUTS[:8]))
    assert session.samples == 16


def test_streams_are_the_only_data_of_a_session() -> None:
    session = session_of(samples_of)
    with pytest.raises(Mistake, match=f"streams would replace it: .*{EVALUATE}"):
        session.streams(samples_of)
    with pytest.raises(Mistake, match=f"trains on samples of streams: {EVALUATE}"):
        session.loader(TensorDataset(INPUTS))
    with pytest.raises(Mistake, match=f"streams would replace it: .*{EVALUATE}"):
        session_of(TensorDataset(INPUTS)).streams(samples_of)
    assert session._state.stateful == [session._transaction.streams]


def test_a_function_opens_streams() -> None:
    batches = taken(session_of(samples_of, micro_batch_size=2))
    rows = INPUTS.tolist()
    assert batches[:2] == [rows[0] + rows[2], rows[1] + rows[3]]
    assert batches[2:] == [rows[4] + rows[6], rows[5] + rows[7]]


def test_a_class_may_open_streams() -> None:
    class Part:
        def __init__(self, number: int, count: int, epoch: int) -> None:
            self.rows = INPUTS[number::count]

        def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
            yield from ((row,) for row in self.rows)

    assert taken(session_of(Part)) == taken(session_of(samples_of))


def test_data_that_is_neither_is_refused() -> None:
    with pytest.raises(ValueError, match=r"generator has no length or no \[index\]: give data"):
        session_of(samples_of(0, 1, 0))


def test_a_session_without_data_says_how_to_give_it() -> None:
    session = session_of(None, samples=16)
    with pytest.raises(ValueError, match=r"was given no data: give it, Session\(data=...\), or"):
        _ = next(session.steps(1)).data


def gradient_of_first_step(own: float | None, **options: Any) -> float:
    """Its norm, as the optimizer saw it. `own`: the norm that the step itself clips to."""
    torch.manual_seed(0)
    session = session_of(None, samples=16, **options)
    gradients = list[torch.Tensor]()
    session.optimizer.register_step_pre_hook(
        lambda *_: gradients.extend(
            parameter.grad.clone()
            for parameter in session.model.parameters()
            if parameter.grad is not None
        )
    )
    for step in session.steps(1):
        for _ in step:
            step.backward(100 * session.model(torch.ones(1, 2)).square().mean())
        if own:
            step.clip(own)
    return float(torch.nn.utils.get_total_norm(gradients))


def test_every_step_is_clipped_to_the_norm_of_the_session() -> None:
    whole = gradient_of_first_step(None)
    assert whole > 1
    assert gradient_of_first_step(None, clip=0.5) == pytest.approx(0.5, rel=1e-4)
    assert gradient_of_first_step(None, clip=2 * whole) == pytest.approx(whole)


def test_a_step_may_be_clipped_to_another_norm() -> None:
    assert gradient_of_first_step(0.25, clip=0.5) == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TensorDataset(INPUTS), id="dataset"),
        pytest.param(DataLoader(TensorDataset(INPUTS)), id="DataLoader"),
        pytest.param(samples_of, id="streams"),
    ],
)
def test_an_interrupted_loop_ends_with_its_session(data: Any) -> None:
    """As in a notebook's cell that is run again, before the garbage collector runs."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gc.disable()
    try:
        for _ in range(2):
            session = Session(model, optimizer, data=data, micro_batches=2)
            step = session.begin(2)
            assert step
            with suppress(KeyboardInterrupt):
                for (inputs,) in step.data:
                    step.backward(model(inputs).square().mean())
                    raise KeyboardInterrupt
    finally:
        gc.enable()
