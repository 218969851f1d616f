"""Which local checkpoints are complete."""

from elastic_runtime.checkpointing.local_parts import LocalPart, complete_checkpoints


def test_a_checkpoint_is_complete_if_every_part_exists_and_the_newest_is_first() -> None:
    older = "step-000000007.2-50.2"
    newer = "step-000000009.2-50.2"
    torn = "step-000000011.2-50.3"
    parts_by_rank = [
        [LocalPart(older, 0, 5, 1), LocalPart(newer, 0, 5, 1), LocalPart(torn, 0, 5, 1)],
        [
            LocalPart(older, 1, 6, 1),
            LocalPart(newer, 1, 6, 1),
            LocalPart(torn, 2, 6, 1),
            # Rank 0 has this one too, so it need not be sent.
            LocalPart(newer, 0, 5, 1),
        ],
    ]
    assert complete_checkpoints(parts_by_rank, newer_than=3) == [
        (newer, {0: (0, 5, 1), 1: (1, 6, 1)}),
        (older, {0: (0, 5, 1), 1: (1, 6, 1)}),
    ]
    later = complete_checkpoints(parts_by_rank, newer_than=7)
    assert [folder for folder, _ in later] == [newer]
    assert complete_checkpoints(parts_by_rank, newer_than=9) == []
