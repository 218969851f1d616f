"""Act: what should exist is written where it differs, what should not goes, and an edit of our
objects is put back and told."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    SECRETS,
    Json,
    Key,
    Kind,
    version,
)
from cede.kube.client import (
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from cede.kube.gather import bounded
from quota_controller.desired.conflicts import Live, Problems, owner_of
from quota_controller.desired.drift import edits, in_words, lowers
from quota_controller.desired.kueue_objects import SHARED, Target
from quota_controller.desired.plan import Plan, Seen

log = logging.getLogger("quota_controller")

At = tuple[Kind, Key]
Edits = dict[At, tuple[str, str]]
"""What was put back: object → (owner, sentence)."""
LAG_S = 5.0
"""A watch that has not shown a write of ours by then never will: somebody has deleted the object
since."""


class Acts:
    """The writing hand. It remembers what it wrote, which the watches may not have shown yet, and
    what it said of each object."""

    def __init__(
        self, client: Client, clock: Callable[[], float], wrote: Callable[[Kind, Key, Json], None]
    ) -> None:
        self.client = client
        self.clock = clock
        self.wrote = wrote
        self.written: dict[At, tuple[Json, float]] = {}
        self._said: dict[At, Json] = {}
        # of the last pass
        self.edits: Edits = {}
        # of the last pass: owner → what stands in the way
        self.clashes: Problems = {}

    def overlay(self, live: dict[At, Json], now: float) -> None:
        """The picture shows our last writes too, where the watches have not caught up with them."""
        self.written = {
            at: (body, when)
            for at, (body, when) in self.written.items()
            if now - when < LAG_S and version(body) > version(live.get(at))
        }
        live.update({at: body for at, (body, _) in self.written.items()})

    async def carry_out(self, seen: Seen, decided: Plan) -> None:
        """Writes what differs and nothing else; `clashes` and `edits` say what was met.

        What gives up quota comes first, so that no sum is ever too much; then what all share; then
        the teams side by side.
        Raises ApiError when the server cannot be worked with.
        """
        self.clashes = {}
        self.edits = {}
        first, shared, teams = self._sorted(seen, decided)
        await bounded(self._write_all([one], seen) for one in first)
        await bounded(self._write_all([one], seen) for one in shared)
        await bounded(
            self._serve(a, teams.get(a.metadata.name, []), seen) for a in seen.allocations
        )
        await bounded(
            self._delete(kind, key, uid)
            for kind, key, uid in decided.unwanted(seen.live)
            if not _going(seen.live[kind, key])
        )
        await bounded(self._leave(key, uid) for key, uid in decided.abandoned)
        await self._let_go(seen, decided)

    def _sorted(
        self, seen: Seen, decided: Plan
    ) -> tuple[list[Target], list[Target], dict[str, list[Target]]]:
        """What differs: what gives up quota, what is shared, and the rest by team."""
        first = list[Target]()
        shared = list[Target]()
        teams = dict[str, list[Target]]()
        said = dict[At, Json]()
        for target in decided.targets:
            live = seen.live.get(target.at)
            if target.is_said_by(live):
                said[target.at] = target.content
                continue
            if target.at in self._said:
                said[target.at] = self._said[target.at]
            if lowers(live, target.body):
                first.append(target)
            elif target.owner == SHARED:
                shared.append(target)
            else:
                teams.setdefault(target.owner, []).append(target)
        self._said = said
        return first, shared, teams

    async def _serve(self, a: ComputeAllocation, targets: list[Target], seen: Seen) -> None:
        await self._hold_on(a)
        await self._write_all(targets, seen)

    async def _write_all(self, targets: Iterable[Target], seen: Seen) -> None:
        """In order, up to what stands in the team's way."""
        for target in targets:
            if target.owner in self.clashes and target.owner != SHARED:
                return
            if why := await self._write(target, seen):
                self.clashes[target.owner] = why
                log.warning(
                    "in the way", extra={"owner": target.owner, "reason": why[0], "why": why[1]}
                )

    async def _write(self, target: Target, seen: Seen) -> tuple[str, str] | None:
        """Applies the target, unless what is there is not ours. Returns why not: the reason in a
        word, and a sentence."""
        live = seen.live.get(target.at)
        said = self._said.pop(target.at, None)
        try:
            if live is None and not _in_new_ground(target, seen.live):
                live = await self._there(target)
            # of namespaces the plan has judged
            if live is not None and target.kind != NAMESPACES and not _is_ours(live):
                return (
                    "NotOurs",
                    f"{target.words} exists and is not ours, so it is left alone: {_cure(target)}",
                )
            log.info(
                "apply",
                extra={
                    "kind": target.kind.kind,
                    "key": "/".join(target.key),
                    "owner": target.owner,
                },
            )
            body = await self.client.apply(target.kind, target.key, target.body)
        except (Invalid, Forbidden) as error:
            return "Refused", f"{target.words} was refused: {error.message}"
        except (NotFound, Conflict):
            return "TriedAgain", f"{target.words} changed meanwhile: it is tried again"
        except ApiError as error:
            if (
                isinstance(error, Unreachable | Unauthorized | TooManyRequests)
                or error.status == 503
            ):
                # it will be the same for all others
                raise
            return (
                "TriedAgain",
                f"{target.words} could not be written and is tried again: {error.message}",
            )
        self.wrote(target.kind, target.key, body)
        self.written[target.at] = (body, self.clock())
        self._said[target.at] = target.content
        self._note(target, live, said)
        return None

    def _note(self, target: Target, live: Json | None, said: Json | None) -> None:
        """What somebody else had done to it."""
        if live is None:
            what = "deleted, and is made again" if said else ""
        else:
            changed = edits(live, target.content, said, manager=names.QUOTA_CONTROLLER)
            what = (
                in_words(
                    live, changed, manager=names.QUOTA_CONTROLLER, secret=target.kind == SECRETS
                )
                if changed
                else ""
            )
        if what:
            self.edits[target.at] = (target.owner, f"{target.words} was {what}")

    async def _there(self, target: Target) -> Json | None:
        try:
            return await self.client.get(target.kind, dict, target.key)
        except NotFound:
            return None

    async def _hold_on(self, a: ComputeAllocation) -> None:
        """An allocation that is not going carries our finalizer, before anything is made for it."""
        if a.metadata.deletionTimestamp or names.ALLOCATION_FINALIZER in a.metadata.finalizers:
            return
        finalizers = [*a.metadata.finalizers, names.ALLOCATION_FINALIZER]
        body = {
            "metadata": {"finalizers": finalizers, "resourceVersion": a.metadata.resourceVersion}
        }
        # the next pass sees it as it is
        with suppress(NotFound, Conflict):
            self.wrote(
                ALLOCATIONS,
                a.metadata.key,
                await self.client.patch(ALLOCATIONS, a.metadata.key, body),
            )

    async def _delete(self, kind: Kind, key: Key, uid: str) -> None:
        log.info("delete", extra={"kind": kind.kind, "key": "/".join(key)})
        with suppress(NotFound, Conflict):
            await self.client.delete(kind, key, uid=uid)
        self.written.pop((kind, key), None)

    async def _leave(self, key: Key, uid: str) -> None:
        log.info("leave namespace", extra={"namespace": key[1]})
        # who made it stays true
        labels = {names.TEAM: None, names.ALLOCATION: None}
        with suppress(NotFound, Conflict):
            await self.client.patch(NAMESPACES, key, {"metadata": {"uid": uid, "labels": labels}})

    async def _let_go(self, seen: Seen, decided: Plan) -> None:
        """An allocation of which nothing is left loses our finalizer, and so goes."""
        owned = {owner_of(obj) for obj in seen.live.values()}
        for a in seen.allocations:
            name = a.metadata.name
            finalizers = a.metadata.finalizers
            if (
                name in decided.leaving
                and name not in owned
                and names.ALLOCATION_FINALIZER in finalizers
            ):
                at = f"/metadata/finalizers/{finalizers.index(names.ALLOCATION_FINALIZER)}"
                steps: list[Json] = [
                    {"op": "test", "path": at, "value": names.ALLOCATION_FINALIZER},
                    {"op": "remove", "path": at},
                ]
                with suppress(NotFound, Conflict, Invalid):
                    await self.client.patch(ALLOCATIONS, a.metadata.key, steps)


def _going(live: Json) -> bool:
    return bool(live["metadata"].get("deletionTimestamp"))


def _is_ours(there: Json) -> bool:
    """Whether it carries our label, or has lost it and is ours all the same."""
    managers = {entry.get("manager") for entry in there["metadata"].get("managedFields") or []}
    return bool(owner_of(there)) or names.QUOTA_CONTROLLER in managers


def _cure(target: Target) -> str:
    if target.key[0]:
        return "delete it, or give the team another namespace"
    whose = {
        CLUSTER_QUEUES: "the allocation",
        RESOURCE_FLAVORS: "the instance type",
        PRIORITY_CLASSES: "the priority class",
    }
    return (
        f"delete it, or name {whose[target.kind]} otherwise"
        if target.kind in whose
        else "delete it"
    )


def _in_new_ground(target: Target, live: Live) -> bool:
    """Whether nobody else can have been there: a namespace that does not exist (we see all of
    them), and what is in one."""
    namespace = target.key[1] if target.kind == NAMESPACES else target.key[0]
    return bool(namespace) and (NAMESPACES, ("", namespace)) not in live
