"""Whatever is lost with the coordinator: pods that are told to end save, and disturb no others."""

import pytest

from tests.harness.succession_pod import Pod
from tests.harness.succession_world import World

PODS = 5
# Of Kubernetes, by default, less what the agent keeps for its own end.
GRACE_S = 28.0
CAUSES = ("without power", "frozen", "behind a cut link")


def world_without_three(cause: str, seed: int) -> tuple[World, list[Pod]]:
    """A job that has lost its coordinator and two other pods, and those that are left."""
    world = World(seed, PODS)
    world.pass_time(8)
    [leader] = [pod for pod in world.pods.values() if pod.view]
    others = [index for index in world.pods if index != leader.index]
    lost = {leader.index, *world.random.sample(others, 2)}
    rest = [pod for pod in world.pods.values() if pod.index not in lost]
    for pod in (world.pods[index] for index in lost):
        pod.up = cause != "without power"
        pod.is_frozen = cause == "frozen"
        # A node without power does not answer that nobody listens.
        cut = {(pod.index, other.index) for other in rest}
        world.cut |= cut | {(other, index) for index, other in cut}
    return world, rest


def stop(*pods: Pod) -> None:
    """They receive SIGTERM."""
    for pod in pods:
        pod.leaving = True


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("delay_s", [0.5, 2.0, 10.0, 30.0])
@pytest.mark.parametrize("cause", CAUSES)
def test_pods_that_cannot_elect_save_when_they_end(cause: str, delay_s: float, seed: int) -> None:
    world, rest = world_without_three(cause, seed)
    world.pass_time(delay_s)
    last_step = max(pod.workers.step or 0 for pod in rest)
    stop(*rest)
    world.pass_time(GRACE_S)
    members = tuple(pod.index for pod in rest)
    [(saved_by, step)] = world.training.last_saves
    assert saved_by == members
    assert step >= last_step
    assert not any(pod.up for pod in rest), "they have ended"


@pytest.mark.parametrize("seed", range(6))
def test_nobody_who_trains_follows_pods_that_save_and_end(seed: int) -> None:
    """Their link heals when one of them has just begun its epoch, which is above the others'."""
    world, rest = world_without_three("behind a cut link", seed)
    world.pass_time(30)
    [leader] = [pod for pod in world.pods.values() if pod.view]
    epoch, commits = leader.epoch, world.training.commits
    stop(*rest)
    while not any(pod.view for pod in rest):
        world.pass_time(0.1)
    assert max(pod.epoch for pod in rest) > epoch
    world.heal()
    steps = [world.training.last_step]
    for _ in range(100):
        world.pass_time(0.1)
        steps.append(leader.workers.step or 0)
    assert leader.view
    assert leader.epoch == epoch
    assert world.training.commits > commits
    assert steps[1:] == sorted(steps[1:])


@pytest.mark.parametrize("seed", range(6))
def test_a_pod_that_misses_one_answer_is_not_left_out(seed: int) -> None:
    """The link between the two that are left is cut for a moment, when they are about to save."""
    world, rest = world_without_three("without power", seed)
    world.pass_time(10)
    first, second = (pod.index for pod in rest)
    link = {(first, second), (second, first)}
    stop(*rest)
    world.pass_time(world.random.uniform(8, 11))
    world.cut |= link
    world.pass_time(1.5)
    world.cut -= link
    world.pass_time(GRACE_S)
    assert [members for members, _ in world.training.last_saves] == [(first, second)]
