"""PURE. The environment that torchrun gives to the processes of a training script."""

from collections.abc import Mapping

from elastic_runtime.messages import Record


def rank_environment(
    record: Record, position: int, local_rank: int, ranks: int, job: str, starts: int
) -> dict[str, str]:
    """All variables of `torch.distributed.elastic` (torch 2.15, agent/server/local_elastic_agent).

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


def is_loss(before: Record, after: Record) -> bool:
    """Whether a member of `before` was lost or restarted, or left."""
    present = {*zip(after.members, after.incarnations, strict=True)}
    return not {*zip(before.members, before.incarnations, strict=True)} <= present


def without(env: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """`env` without the variables that have their value in `defaults`."""
    return {name: value for name, value in env.items() if defaults.get(name) != value}
