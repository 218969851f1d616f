"""The messages between the pods of the model of elections: late, lost or doubled."""

import random
from collections.abc import Callable

from tests.harness.succession_pod import Pod

MAX_DELAY_S = 0.8


class Network:
    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.now = 0.0
        self.pods = dict[int, Pod]()
        # Links on which nothing arrives, from and to.
        self.cut = set[tuple[int, int]]()
        # Of all messages: lost, and doubled.
        self.loss = 0.0
        self.doubled = 0.0
        self.messages = list[tuple[float, int, Callable[[Pod], None]]]()

    def reaches(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut

    def send(self, source: int, target: int, act: Callable[[Pod], None]) -> None:
        for _ in range(2 if self.random.random() < self.doubled else 1):
            is_lost = self.random.random() < self.loss
            if self.reaches(source, target) and not is_lost:
                delay_s = self.random.random() ** 3 * MAX_DELAY_S
                self.messages.append((self.now + delay_s, target, act))

    def call(
        self, source: Pod, target: int, act: Callable[[Pod], Callable[[Pod], None] | None]
    ) -> None:
        """`act` at the target gives what its answer does at the source, if that still runs."""

        def answer(pod: Pod) -> None:
            if then := act(pod):
                self.send(
                    target, source.index, lambda caller: then(caller) if caller is source else None
                )

        self.send(source.index, target, answer)

    def deliver(self) -> None:
        due = [message for message in self.messages if message[0] <= self.now]
        self.messages = [message for message in self.messages if message[0] > self.now]
        self.random.shuffle(due)
        for due_at, target, act in due:
            pod = self.pods[target]
            if pod.is_frozen:
                self.messages.append((due_at, target, act))
            elif pod.up:
                act(pod)
