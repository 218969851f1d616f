"""Every byte of the state is written by exactly one rank."""

from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_runtime.checkpointing.partition import rank_pieces, split_rows
from tests.builders.saves import trained_state


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9))), st.integers(1, 9))
def test_every_row_has_one_writer_and_no_writer_much_more_than_its_share(
    tensors: list[tuple[int, int]], world: int
) -> None:
    bounds_by_rank = [split_rows(tensors, rank, world) for rank in range(world)]
    for number, (rows, _) in enumerate(tensors):
        written_rows = [row for bounds in bounds_by_rank for row in range(*bounds[number])]
        assert written_rows == list(range(rows))
    total = sum(rows * size for rows, size in tensors)
    for bounds in bounds_by_rank:
        written = sum(
            max(last - first, 0) * size
            for (first, last), (_, size) in zip(bounds, tensors, strict=True)
        )
        assert written <= total / world + 2 * max((size for _, size in tensors), default=0)


def test_the_first_rank_writes_small_tensors() -> None:
    def names_of(rank: int) -> set[str]:
        return {piece.name for piece in rank_pieces(trained_state(), rank, 2)}

    names = [names_of(0), names_of(1)]
    assert "model.1.running_mean" in names[0] - names[1]
    # A large tensor is divided where the halves meet.
    assert "optimizer.state.0.exp_avg" in names[0] & names[1]
