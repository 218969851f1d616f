"""Small states that ride on a collective every step makes anyway: a block of equal size on every
rank, summed.

Each stream has a slot in the block, written by its owner and zero elsewhere, so the sum is what the
owners wrote. A state longer than its
slot goes in parts, one a step; whoever missed a part waits for the next whole one.
"""

import ctypes
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

# step, whole length, offset of this part, length of this part
HEAD = struct.Struct("<IIII")
BLOCK_BYTES = 1 << 16
SLOT_BYTES = 1 << 10


def encode(number: int, state: Any) -> bytes:
    """The state as bytes. Raises TypeError if it would not come back as it is."""
    try:
        raw = json.dumps(state)
        same = json.loads(raw) == state
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"state_dict() of stream {number} is not plain data ({error}): give what JSON holds"
        ) from error
    if not same:
        raise TypeError(
            f"state_dict() of stream {number} would come back changed: give lists for tuples, "
            f"and "
            f"strings as keys"
        )
    return raw.encode()


class Mail:
    """`write` what is to ride, `read` what has landed: on every rank, for every committed step, in
    order."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._bytes = max(HEAD.size + 8, min(SLOT_BYTES, BLOCK_BYTES // slots)) // 2 * 2
        # number → (step, whole state, how much of it has landed)
        self._going: dict[int, tuple[int, bytes, int]] = {}
        # number → (step, what has landed)
        self._coming: dict[int, tuple[int, bytes]] = {}

    def write(self, step: int, states: Mapping[int, Callable[[], Any]]) -> torch.Tensor:
        """(slots × half a slot's bytes,) of floats that a sum with zeros leaves exact."""
        block = bytearray(self._slots * self._bytes)
        self._going = {number: going for number, going in self._going.items() if number in states}
        for number, state in states.items():
            if number not in self._going or self._going[number][2] == 0:
                self._going[number] = (step, encode(number, state()), 0)
            of, whole, at = self._going[number]
            part = whole[at : at + self._bytes - HEAD.size]
            start = number * self._bytes
            block[start : start + HEAD.size + len(part)] = (
                HEAD.pack(of, len(whole), at, len(part)) + part
            )
        return torch.frombuffer(block, dtype=torch.int16).to(torch.float32)

    def read(self, said: torch.Tensor) -> Iterator[tuple[int, int, Any]]:
        """(number, step, state) of every state that is whole now."""
        there = said.to("cpu", torch.int16).contiguous()
        block = ctypes.string_at(there.data_ptr(), there.nbytes)
        for number in range(self._slots):
            slot = block[number * self._bytes : (number + 1) * self._bytes]
            step, length, at, size = HEAD.unpack_from(slot)
            if not length:
                continue
            before_step, before = self._coming.pop(number, (step, b"")) if at else (step, b"")
            if before_step != step or len(before) != at:
                # a part was missed
                continue
            so_far = before + slot[HEAD.size : HEAD.size + size]
            # ours
            if number in self._going:
                self._going[number] = (step, self._going[number][1], len(so_far))
            if len(so_far) < length:
                self._coming[number] = (step, so_far)
                continue
            self._going.pop(number, None)
            yield number, step, json.loads(so_far)

    def forget(self) -> None:
        """Of half-sent and half-heard states, nothing is left."""
        self._going = {}
        self._coming = {}
