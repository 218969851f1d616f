"""Exchanges small states by way of a sum over all ranks that every step computes anyway.

Every rank sends a block of the same size. Each state has a slot in it, which its owner fills and
all other ranks leave zero, so the sum is what the owners have sent. A state longer than its slot is
sent in parts, one in each step. A rank that missed a part waits until the state is sent again.
"""

import ctypes
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from elastic_runtime.mistake import Mistake

# Step, length of the state, offset of this part, length of this part.
HEADER = struct.Struct("<IIII")
MAX_BLOCK_BYTES = 1 << 16
MAX_SLOT_BYTES = 1 << 10


def encode(number: int, state: Any) -> bytes:
    """The state of stream `number` as bytes.

    Raises Mistake if it would not be restored exactly.
    """
    try:
        text = json.dumps(state)
        is_exact = json.loads(text) == state
    except (TypeError, ValueError) as error:
        raise Mistake(
            f"state_dict() of stream {number} is not plain data ({error}): return what JSON can "
            f"hold"
        ) from error
    if not is_exact:
        raise Mistake(
            f"state_dict() of stream {number} would be restored differently: use lists instead of "
            f"tuples, and strings as keys"
        )
    return text.encode()


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A state of this rank that is being sent."""

    # The state is the one before this step.
    step: int
    encoded: bytes
    # How many bytes all ranks have.
    sent: int


@dataclass(frozen=True, slots=True)
class _Incoming:
    """The first parts of a state that is being received."""

    step: int
    encoded: bytes


class StateExchange:
    """Call `pack` and `unpack` on every rank, for every committed step, in order."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        slot_bytes = max(HEADER.size + 8, min(MAX_SLOT_BYTES, MAX_BLOCK_BYTES // slots))
        # An even number, because two bytes are sent as one float.
        self._slot_bytes = slot_bytes // 2 * 2
        # By slot.
        self._outgoing: dict[int, _Outgoing] = {}
        self._incoming: dict[int, _Incoming] = {}

    def pack(self, step: int, states: Mapping[int, Callable[[], Any]]) -> torch.Tensor:
        """This rank's block, to be summed: (half as many floats as the block has bytes,).

        Floats of two bytes each stay exact when zeros are added. `states`: those that this rank
        owns, by slot.
        """
        block = bytearray(self._slots * self._slot_bytes)
        self._outgoing = {
            number: outgoing for number, outgoing in self._outgoing.items() if number in states
        }
        for number, state in states.items():
            outgoing = self._outgoing.get(number)
            # A state of which no rank has a part yet is replaced by the newest one.
            if outgoing is None or outgoing.sent == 0:
                outgoing = _Outgoing(step, encode(number, state()), 0)
                self._outgoing[number] = outgoing
            part = outgoing.encoded[outgoing.sent :][: self._slot_bytes - HEADER.size]
            header = HEADER.pack(outgoing.step, len(outgoing.encoded), outgoing.sent, len(part))
            start = number * self._slot_bytes
            block[start : start + HEADER.size + len(part)] = header + part
        return torch.frombuffer(block, dtype=torch.int16).to(torch.float32)

    def unpack(self, summed: torch.Tensor) -> Iterator[tuple[int, int, Any]]:
        """(slot, step, state) of every state that is complete now. `summed`: all ranks' blocks."""
        words = summed.to("cpu", torch.int16).contiguous()
        block = ctypes.string_at(words.data_ptr(), words.nbytes)
        for number in range(self._slots):
            slot = block[number * self._slot_bytes : (number + 1) * self._slot_bytes]
            step, length, offset, size = HEADER.unpack_from(slot)
            if not length:
                continue
            received = self._receive(number, step, offset, slot[HEADER.size :][:size])
            if received is None:
                continue
            if number in self._outgoing:
                # This rank's own.
                own = self._outgoing[number].encoded
                self._outgoing[number] = _Outgoing(step, own, len(received))
            if len(received) < length:
                self._incoming[number] = _Incoming(step, received)
                continue
            self._outgoing.pop(number, None)
            yield number, step, json.loads(received)

    def _receive(self, number: int, step: int, offset: int, part: bytes) -> bytes | None:
        """The state's bytes up to the end of this part; None if an earlier part was missed."""
        before = _Incoming(step, b"")
        if offset:
            before = self._incoming.pop(number, before)
        if before.step != step or len(before.encoded) != offset:
            return None
        return before.encoded + part

    def clear(self) -> None:
        """Drop all states that are sent or received in part."""
        self._outgoing = {}
        self._incoming = {}
