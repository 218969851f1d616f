"""The workers of the model of elections: they form generations and commit steps.

They wait without end for the other members of their record, as the session does.
"""

import random
from collections.abc import Callable, Mapping

from elastic_runtime.messages import Record
from tests.harness.succession_pod import Pod


class Training:
    """`reaches(index, other)`: whether messages between these pods arrive."""

    def __init__(
        self, pods: Mapping[int, Pod], reaches: Callable[[int, int], bool], chance: random.Random
    ) -> None:
        self.pods = pods
        self.reaches = reaches
        self.random = chance
        # Epoch and number of a generation → its members.
        self.memberships = dict[tuple[int, int], tuple[str, ...]]()
        # The generations that committed steps, in order.
        self.committed = list[tuple[int, int]]()
        self.last_step = 0
        self.saved_step = 0
        # Of pods that end: the members, and the step.
        self.last_saves = list[tuple[tuple[int, ...], int]]()
        self.commits = 0
        # A coordinator has continued though others may train: decision 13 allows two halves then.
        self.may_be_split = False

    def pass_time(self, now: float) -> None:
        for pod in self.pods.values():
            workers = pod.workers
            if not pod.up:
                continue
            if workers.ready_at and now >= workers.ready_at:
                workers.ready_at = 0.0
            if workers.generation and not self.is_whole(pod):
                workers.broken = max(workers.broken, workers.generation)
            self.obey_record(pod)
            if pod.leaving and (workers.parked or workers.ready_at):
                pod.up = False
        for key in {pod.workers.trained for pod in self.pods.values() if pod.workers.generation}:
            if self.random.random() < 0.3:
                self.commit(key)

    def is_whole(self, pod: Pod) -> bool:
        """Whether all members of its generation train in it, and reach each other."""
        others = [self.pods[index] for index in pod.workers.members]
        return all(
            other.up
            and other.workers.trained == pod.workers.trained
            and other.workers.generation
            and self.reaches(pod.index, other.index)
            and self.reaches(other.index, pod.index)
            for other in others
        )

    def obey_record(self, pod: Pod) -> None:
        record, workers = pod.record, pod.workers
        is_new = record.generation > workers.tried and not record.electors
        if workers.ready_at or not is_new:
            return
        if pod.index not in record.members:
            workers.tried = record.generation
            workers.generation = 0
            return
        if record.incarnations[record.members.index(pod.index)] != workers.incarnation:
            return
        members = [self.pods[index] for index in record.members]
        if all(self.comes(other, record) and self.links(pod, other) for other in members):
            self.connect(record, members)

    def connect(self, record: Record, members: list[Pod]) -> None:
        """Whoever cannot connect gives the generation up. The others wait for it."""
        failing = [member.workers for member in members if member.workers.cannot_connect]
        for workers in failing:
            workers.cannot_connect = False
            workers.tried = workers.broken = record.generation
        if not failing:
            self.form(record, members)

    def links(self, pod: Pod, other: Pod) -> bool:
        return self.reaches(pod.index, other.index) and self.reaches(other.index, pod.index)

    def reaches_all(self, pod: Pod, others: list[Pod]) -> bool:
        return all(self.links(pod, other) for other in others)

    def comes(self, pod: Pod, record: Record) -> bool:
        name = record.incarnations[record.members.index(pod.index)]
        return (
            pod.up
            and not pod.workers.ready_at
            and pod.workers.incarnation == name
            and pod.record == record
            and pod.workers.tried < record.generation
        )

    def form(self, record: Record, members: list[Pod]) -> None:
        names = self.memberships.setdefault(record.order, record.incarnations)
        assert names == record.incarnations, f"{record.order} has two memberships"
        steps = [pod.workers.step for pod in members if pod.workers.step is not None]
        newest = max(steps, default=None)
        holders = [
            pod
            for pod in self.pods.values()
            if pod.up and not pod.is_frozen and pod.workers.step == self.last_step
        ]
        if newest is None:
            newest = self.saved_step
        if newest < self.last_step and not self.may_be_split:
            reachable = [pod for pod in holders if self.reaches_all(pod, members)]
            assert not reachable, f"{record} loses steps that pods {reachable} have"
            self.last_step = newest
        for pod in members:
            workers = pod.workers
            assert workers.trained[1] <= record.generation
            workers.step = newest
            workers.tried = workers.generation = record.generation
            workers.members = record.members
            workers.trained = record.order
            workers.parked = record.stop
        if record.stop:
            self.last_saves.append((record.members, newest))
            self.saved_step = max(self.saved_step, newest)

    def commit(self, key: tuple[int, int]) -> None:
        """All members commit the next step together, if none of them is lost."""
        pods = [pod for pod in self.pods.values() if pod.workers.trained == key]
        pods = [pod for pod in pods if pod.workers.generation and not pod.workers.parked]
        if not pods:
            return
        if not self.is_whole(pods[0]) or any(not self.is_whole(pod) for pod in pods):
            return
        if any(pod.is_frozen and not pod.trains_on for pod in pods):
            return
        if not self.may_be_split:
            is_last = not self.committed or self.committed[-1] == key
            assert is_last or key not in self.committed, f"{key} trains beside a newer generation"
            step = pods[0].workers.step or 0
            assert step == self.last_step, f"{key} commits step {step + 1} after {self.last_step}"
        if not self.committed or self.committed[-1] != key:
            self.committed.append(key)
        self.commits += 1
        for pod in pods:
            pod.workers.step = (pod.workers.step or 0) + 1
            self.last_step = pod.workers.step
        if self.random.random() < 0.05:
            self.saved_step = max(self.saved_step, self.last_step)
