"""Deletes the priority classes that were taken out of the policy, once no job has them."""

import logging

from cede.api.kueue import Workload
from cede.api.objects import PRIORITY_CLASSES, WORKLOADS
from cede.api.policy import ClusterPolicy
from cede.kube.client import Client
from cede.kube.errors import ApiError, Conflict, NotFound
from quota_controller.desired.desired_object import LiveObjects
from quota_controller.desired.kueue_objects import classes_in_use, removed_classes

log = logging.getLogger("quota_controller")
CHECK_INTERVAL_S = 60.0
"""Each check lists all Workloads. A class also stays for so long after its removal: Kueue may still
make the Workload of a job that was accepted just before."""


class RemovedClasses:
    """Kueue resolves the class again for each scale-up slice and for each pod of a server, so
    without it a job that has it could never grow, nor a server replace a pod."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._checked_at = float("-inf")
        # when this process first saw that a class was removed
        self._removed_at: dict[str, float] = {}

    async def delete_unused(
        self, policy: ClusterPolicy | None, live: LiveObjects, now: float
    ) -> None:
        """No class is left that neither the policy nor a Workload has, if it is time to look. What
        fails is logged, and tried again: until then the class stays."""
        removed = removed_classes(policy.spec, live) if policy else {}
        self._removed_at = {name: self._removed_at.get(name, now) for name in removed}
        since = now - CHECK_INTERVAL_S
        due = {name for name, removed_at in self._removed_at.items() if removed_at <= since}
        if not due or self._checked_at > since:
            return
        self._checked_at = now
        try:
            workloads, _ = await self._client.list(WORKLOADS, Workload)
        except ApiError as error:
            log.warning("removed priority classes stay", extra={"reason": str(error)})
            return
        for name in sorted(due - classes_in_use(workloads)):
            await self._delete(name, removed[name]["metadata"].get("uid", ""))

    async def _delete(self, name: str, uid: str) -> None:
        try:
            await self._client.delete(PRIORITY_CLASSES, ("", name), uid=uid)
        except ApiError as error:
            # one that is gone, or was made again, is seen as it is by the next check
            if error.is_denied or not isinstance(error, NotFound | Conflict):
                log.warning(
                    "removed priority class stays", extra={"class": name, "reason": str(error)}
                )
        else:
            log.info("removed priority class deleted", extra={"class": name})
