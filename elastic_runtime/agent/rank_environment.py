"""PURE. The environment that torchrun gives to the processes of a training script."""

from collections.abc import Mapping

from elastic_runtime.messages import Record

# How many micro-batches a step has, if the job says it; and how many of them each rank computes.
MICRO_BATCHES_ENV = "CEDE_MICRO_BATCHES"
ACCUMULATION_ENV = "CEDE_ACCUMULATION_STEPS"


def rank_environment(
    record: Record, position: int, local_rank: int, ranks: int, job: str, starts: int
) -> dict[str, str]:
    """What torchrun sets whatever the user has (torch 2.15, distributed/elastic/agent/server/
    local_elastic_agent.py).

    `record`: with its store, which is where the ranks meet: rank 0 listens there. `position`: of
    this pod among the members. `ranks`: in each pod. `starts`: of the script in this pod before.
    """
    host, _, port = record.store.rpartition(":")
    pods = len(record.members)
    rank = str(position * ranks + local_rank)
    world = str(pods * ranks)
    return {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": str(position),
        "GROUP_WORLD_SIZE": str(pods),
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": job,
        "TORCHELASTIC_RESTART_COUNT": str(starts),
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # The store is the script's own, not one that an agent keeps.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


# The names of the variables that torchrun sets.
VARIABLES = frozenset(
    rank_environment(Record(), position=0, local_rank=0, ranks=1, job="", starts=0)
)


def with_defaults(env: Mapping[str, str], ranks: int) -> dict[str, str]:
    """`env` with what torchrun sets unless the user has (the same file, and distributed/run.py).
    Without OMP_NUM_THREADS, each of the `ranks` in a pod would have a thread for every core."""
    defaults = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    if ranks > 1:
        defaults["OMP_NUM_THREADS"] = "1"
    return {**defaults, **env}


def accumulation_environment(env: Mapping[str, str], world: int) -> dict[str, str]:
    """`CEDE_ACCUMULATION_STEPS`, if `env` has `CEDE_MICRO_BATCHES`. Raises ValueError if that is no
    number, or cannot be shared evenly."""
    text = env.get(MICRO_BATCHES_ENV, "")
    if not text:
        return {}
    if not text.isdecimal():
        raise ValueError(f"{MICRO_BATCHES_ENV} is {text!r}: write a number, such as 16")
    return {ACCUMULATION_ENV: str(share(int(text), world))}


def share(micro_batches: int, world: int) -> int:
    """How many of the micro-batches of one step each of so many ranks computes. Raises ValueError
    if they cannot be shared evenly."""
    if micro_batches < 1 or micro_batches % world:
        raise ValueError(
            f"{micro_batches} micro-batches cannot be shared evenly by {world} ranks: allow only "
            f"sizes that divide their number, or choose another one"
        )
    return micro_batches // world


def is_loss(before: Record, after: Record) -> bool:
    """Whether a member of `before` was lost or restarted, or left."""
    present = {*zip(after.members, after.incarnations, strict=True)}
    return not {*zip(before.members, before.incarnations, strict=True)} <= present


def without(env: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """`env` without the variables that have their value in `defaults`."""
    return {name: value for name, value in env.items() if defaults.get(name) != value}
