"""Under any faults of pods and links one generation trains at a time, and the job goes on."""

import pytest

from tests.harness.succession_pod import Pod
from tests.harness.succession_world import World

PODS = 5
SEEDS = 12
FAULTS = 8
# Without faults: from any of them until a step is committed, with much to spare. With most members
# silent the rest waits for 20 s.
RECOVERY_S = 75.0
# The same with a majority that can talk, beside what a round of messages takes.
MAJORITY_S = 10.0


def live(seed: int) -> None:
    """One random life of a job, and then all faults end."""
    world = World(seed, PODS)
    world.pass_time(8)
    assert world.training.commits, "a new job does not start"
    for _ in range(FAULTS):
        happen(world)
        world.pass_time(world.random.choice((0.3, 1, 3, 8, 30)))
        if world.random.random() < 0.4:
            world.heal()
            world.pass_time(world.random.choice((0.5, 3, 15)))
    world.heal()
    world.pass_time(RECOVERY_S)
    commits = world.training.commits
    world.pass_time(10)
    leader = agreed_leader(world)
    assert leader, "pods follow different coordinators"
    assert world.training.commits > commits, "training stands still"
    view = leader.view
    assert view
    wanted = view.wanted or PODS
    assert view.record.members == tuple(range(wanted))
    newest = max(pod.kept.ordered_at for pod in world.pods.values())
    assert view.ordered_at == newest


def happen(world: World) -> None:
    """Something bad, mostly to the coordinator."""
    rng = world.random
    leaders = [pod.index for pod in world.pods.values() if pod.view]
    index = rng.choice(leaders) if leaders and rng.random() < 0.5 else rng.randrange(PODS)
    pod = world.pods[index]
    match rng.randrange(10):
        case 0:
            pod.up = False
        case 1:
            world.start_pod(index)
        case 2:
            freeze(world, pod)
        case 3:
            split(world, {index}, both_ways=True)
        case 4:
            split(world, {index}, both_ways=False)
        case 5:
            split(world, set(rng.sample(range(PODS), rng.randint(2, 3))), both_ways=True)
        case 6:
            world.loss = world.doubled = 0.2
        case 7:
            pod.start_workers(world.now + 0.5)
        case 8:
            ask_for_size(world)
        case 9:
            pod.workers.cannot_connect = True


def ask_for_size(world: World) -> None:
    """A new order and an old one, in any order, at whoever coordinates."""
    world.signed_at += 10
    orders = [(world.random.randint(1, PODS), world.signed_at - late_s) for late_s in (0, 5)]
    world.random.shuffle(orders)
    for size, signed_at in orders:
        for index in world.pods:
            world.request_size(index, size, signed_at)


def freeze(world: World, pod: Pod) -> None:
    pod.is_frozen = True
    pod.trains_on = world.random.random() < 0.5


def lose_two(world: World) -> None:
    """The coordinator and another pod, which a majority of five can do without."""
    leader = agreed_leader(world)
    assert leader
    other = world.random.choice([index for index in world.pods if index != leader.index])
    lost = {leader.index, other}
    match world.random.randrange(4):
        case 0:
            split(world, lost, both_ways=True)
        case 1:
            for index in lost:
                split(world, {index}, both_ways=True)
        case 2:
            for index in lost:
                world.pods[index].up = False
        case 3:
            for index in lost:
                freeze(world, world.pods[index])


def split(world: World, part: set[int], *, both_ways: bool) -> None:
    """Cut the links from this part of the pods to the others."""
    rest = set(world.pods) - part
    world.cut |= {(index, other) for index in part for other in rest}
    if both_ways:
        world.cut |= {(other, index) for index in part for other in rest}


def agreed_leader(world: World) -> Pod | None:
    """The coordinator, if all pods follow it in its epoch."""
    leaders = [pod for pod in world.pods.values() if pod.view]
    epochs = {pod.epoch for pod in world.pods.values()}
    return leaders[0] if len(leaders) == len(epochs) == 1 else None


@pytest.mark.parametrize("seed", range(4))
def test_a_majority_that_can_talk_trains_on(seed: int) -> None:
    world = World(seed, PODS)
    world.pass_time(8)
    for _ in range(4):
        lose_two(world)
        world.pass_time(MAJORITY_S)
        commits = world.training.commits
        world.pass_time(3)
        assert world.training.commits > commits
        world.heal()
        world.pass_time(40)
    assert not world.training.may_be_split


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_lives(seed: int) -> None:
    live(seed)
