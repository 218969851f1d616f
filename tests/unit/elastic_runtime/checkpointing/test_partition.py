"""Who writes what: every byte of the state by exactly one rank, read back whole by us and by torch
alone."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

from elastic_runtime.__main__ import verify
from elastic_runtime.checkpointing import restore, save_format
from elastic_runtime.checkpointing.partition import Writer, owned, share
from elastic_runtime.checkpointing.saver import SaveOrder, Saver
from tests.builders.saves import save


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(300, 301), torch.nn.BatchNorm1d(301), torch.nn.Linear(301, 7)
    ).to(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 300)).sum().backward()
    optimizer.step()
    return model, optimizer


def state() -> dict[str, Any]:
    model, optimizer = trained()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "also": []}


def savers(directory: Path, world: int, said: Callable[..., None]) -> list[Saver]:
    made = [Saver(directory, 0, said) for _ in range(world)]
    for rank, saver in enumerate(made):
        saver.enter_generation(Writer(rank, world, 0, "1-5000"), writer_left=False)
    return made


def save_all(made: list[Saver], step: int) -> None:
    """As ranks do: all at once."""
    live = state()
    threads = [threading.Thread(target=saver.save_and_wait, args=(step, lambda: live)) for saver in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9))), st.integers(1, 9))
def test_every_row_is_written_by_exactly_one_rank_and_no_rank_writes_much_more_than_its_share(
    tensors: list[tuple[int, int]], world: int
) -> None:
    shares = [share(tensors, rank, world) for rank in range(world)]
    for number, (rows, _) in enumerate(tensors):
        assert [row for mine in shares for row in range(*mine[number])] == list(range(rows))
    total = sum(rows * size for rows, size in tensors)
    for mine in shares:
        written = sum(
            max(last - first, 0) * size
            for (first, last), (_, size) in zip(mine, tensors, strict=True)
        )
        assert written <= total / world + 2 * max((size for _, size in tensors), default=0)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("world", [1, 3])
def test_what_several_ranks_wrote_is_read_by_us_whole_and_by_torch_alone(
    tmp_path: Path, world: int
) -> None:
    facts: dict[str, Any] = {}
    save_all(savers(tmp_path, world, lambda **more: facts.update(more)), 3)
    found = restore.newest(tmp_path)
    assert found
    assert (found.step, found.digest) == (facts["durable_step"], facts["digest"])
    assert len(list(found.path.glob("*.distcp"))) == world
    before = state()
    after = restore.load(found)
    assert after["optimizer"]["param_groups"] == before["optimizer"]["param_groups"]
    model, optimizer = trained()
    blank: dict[str, Any] = {
        "model": {k: torch.zeros_like(v) for k, v in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "step": 0,
    }
    dcp_load(blank, checkpoint_id=str(found.path), no_dist=True)
    assert blank["step"] == after["step"] == 3
    for name, tensor in before["model"].items():
        assert torch.equal(after["model"][name], tensor)
        assert torch.equal(blank["model"][name], tensor)
    for number, kinds in before["optimizer"]["state"].items():
        for kind, tensor in kinds.items():
            assert torch.equal(after["optimizer"]["state"][number][kind], tensor)


def test_a_rank_that_cannot_write_costs_this_save_only_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    made = savers(tmp_path, 2, lambda **facts: messages.append(facts.get("message", "")))
    save_all(made, 3)
    write = save_format.write_part

    def full(draft: Path, rank: int, *rest: Any) -> None:
        if rank == 1:
            raise OSError(28, "No space left on device")
        write(draft, rank, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(save_format, "write_part", full)
        save_all(made, 4)
    assert any(
        "rank 1 did not write its part" in message and "No space left" in message
        for message in messages
    )
    found = restore.newest(tmp_path)
    assert found
    assert found.step == 3
    save_all(made, 5)
    assert [p.name for p in save_format.saves(tmp_path)] == [
        save_format.folder(5),
        save_format.folder(3),
    ]


@pytest.mark.parametrize("known", ["it left", "its group was cut"])
def test_a_save_is_given_up_when_a_writer_is_gone(tmp_path: Path, known: str) -> None:
    messages: list[str] = []
    cut = threading.Event()
    leader = Saver(tmp_path, 0, lambda **facts: messages.append(facts["message"]))
    leader.enter_generation(Writer(0, 2, 0, "1-5000", cut.is_set), writer_left=False)
    leader.save_in_background(3, state)
    assert not leader.order_for(4, requests=1)
    if known == "it left":
        leader.enter_generation(Writer(0, 1, 0, "2-5001"), writer_left=True)
        assert leader.order_for(4, requests=1)
    else:
        cut.set()
        assert leader.is_needed(3)
        leader.enter_generation(Writer(0, 1, 0, "2-5001"), writer_left=True)
    leader.save_and_wait(4, state)
    assert "a rank was lost or left" in messages[0]
    assert [p.name for p in tmp_path.iterdir()] == [save_format.folder(4)]


def test_a_wish_that_comes_while_a_save_is_written_is_kept_until_that_one_is_over(
    tmp_path: Path,
) -> None:
    leader, other = savers(tmp_path, 2, lambda **_: None)
    leader.save_in_background(3, state)
    assert not leader.order_for(4, requests=1)
    other.save_and_wait(3, state)
    assert not leader.is_needed(3)
    assert leader.order_for(5, requests=1)
    for saver in (leader, other):
        saver.save_in_background(5, state)
    assert not leader.is_needed(5)
    assert not leader.order_for(6, requests=1)


def test_a_rank_still_writing_what_was_given_up_drops_it_for_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: between two blocks, not at the end of its file."""
    leader, other = savers(tmp_path, 2, lambda **_: None)
    begun = threading.Event()
    write = save_format.write_part

    def slow(
        draft: Path, rank: int, pieces: Any, extra: Any, desk: Any, given_up: Callable[[], bool]
    ) -> None:
        begun.set()
        while not given_up():
            pass
        raise OSError("given up")

    with monkeypatch.context() as context:
        context.setattr(save_format, "write_part", slow)
        other.save_in_background(3, state)
        assert begun.wait(10)
        context.setattr(save_format, "write_part", write)
        for saver in (other, leader):
            saver.save_in_background(4, state)
        assert not leader.is_needed(4)
    assert [p.name for p in tmp_path.iterdir()] == [save_format.folder(4)]


def test_verify_says_the_newest_whole_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(tmp_path) == 1
    saved = save(tmp_path, 3, state())
    torn = save(tmp_path, 4, state()).path / "__0_0.distcp"
    torn.write_bytes(torn.read_bytes()[:-1])
    assert verify(tmp_path) == 0
    assert saved.digest in capsys.readouterr().out


def test_small_tensors_are_the_first_ranks_own() -> None:
    names = [{piece.name for piece in owned(state(), rank, 2)} for rank in (0, 1)]
    assert "model.1.running_mean" in names[0] - names[1]
    # a large one is cut where the halves meet
    assert "optimizer.state.0.exp_avg" in names[0] & names[1]


def test_a_rank_without_a_piece_of_its_own_is_waited_for_no_longer_than_it_takes_to_say_so(
    tmp_path: Path,
) -> None:
    small = {"model": {"w": torch.ones(3)}, "optimizer": {}, "step": 3, "also": []}
    made = savers(tmp_path, 2, lambda **_: None)
    for saver in reversed(made):
        saver.save_and_wait(3, lambda: small)
    found = restore.newest(tmp_path)
    assert found
    assert torch.equal(restore.load(found)["model"]["w"], torch.ones(3))


@pytest.mark.parametrize("leads", ["who led", "the other"])
def test_a_save_that_a_loss_interrupts_is_made_again(tmp_path: Path, leads: str) -> None:
    made = savers(tmp_path, 2, lambda **_: None)
    left = made[0 if leads == "who led" else 1]
    left.save_in_background(3, state)
    left.enter_generation(Writer(0, 1, 0, "2-5001"), writer_left=True)
    assert left.order_for(4, requests=0) == SaveOrder.SHARED
    left.save_and_wait(4, state)
    left.enter_generation(Writer(0, 1, 0, "3-5002"), writer_left=True)
    assert left.order_for(5, requests=0) == SaveOrder.NONE


def test_a_loss_after_a_save_makes_no_other(tmp_path: Path) -> None:
    leader, other = savers(tmp_path, 2, lambda **_: None)
    save_all([leader, other], 3)
    leader.enter_generation(Writer(0, 1, 0, "2-5001"), writer_left=True)
    assert leader.order_for(4, requests=0) == SaveOrder.NONE


def test_saves_are_due_at_every_interval(tmp_path: Path) -> None:
    saver = Saver(tmp_path, 3, lambda **_: None)
    due = []
    for step in range(1, 8):
        if saver.order_for(step, requests=0):
            due.append(step)
            saver.save_and_wait(step, state)
    assert due == [3, 6]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_disk_that_hangs_stops_no_step_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    messages: list[str] = []
    saver = savers(tmp_path, 2, lambda **facts: messages.append(facts.get("message", "")))[rank]
    answers = threading.Event()
    write = save_format.write_part

    def hangs(*_: Any) -> None:
        answers.wait(60)

    monkeypatch.setattr("elastic_runtime.checkpointing.saver.STUCK_S", 0.01)
    monkeypatch.setattr("elastic_runtime.checkpointing.saver.PATIENCE_S", 0.0)
    monkeypatch.setattr(save_format, "write_part", hangs)
    saver.save_in_background(3, state)
    assert saver.order_for(4, requests=1) == SaveOrder.NONE
    # a part waits behind the one that hangs, no second one does
    for step in (4, 5):
        saver.save_in_background(step, state)
        assert saver.order_for(step + 1, requests=1) == SaveOrder.NONE
    assert "step 3 is still being written" in messages[0]
    monkeypatch.setattr(save_format, "write_part", write)
    answers.set()
    saver.wait()
    assert saver.order_for(7, requests=2) == SaveOrder.SHARED


def test_a_rank_whose_last_part_is_still_on_its_way_writes_the_next_one_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left its part out, and the others waited for it for minutes."""
    answers = threading.Event()
    write = save_format.write_part

    def slow(draft: Path, rank: int, *words: Any) -> None:
        if rank and save_format.folder(3) in draft.name:
            answers.wait(60)
        write(draft, rank, *words)

    monkeypatch.setattr("elastic_runtime.checkpointing.saver.STUCK_S", 0.5)
    monkeypatch.setattr(save_format, "write_part", slow)
    made = savers(tmp_path, 2, lambda **_: None)
    for step in (3, 4):
        for saver in made:
            saver.save_in_background(step, state)
    answers.set()
    for saver in made:
        saver.wait()
    found = restore.newest(tmp_path)
    assert found
    assert found.step == 4
