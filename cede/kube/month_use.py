"""What teams have used in a month, noted in the cluster by the ledger."""

import logging
from collections.abc import Awaitable, Callable

from cede.api import names
from cede.api.budget import MonthUse
from cede.api.kueue import MetadataOnly
from cede.api.objects import CONFIG_MAPS
from cede.kube.client import Client
from cede.kube.errors import ApiError

log = logging.getLogger(__name__)


async def note(client: Client, count: Callable[[], Awaitable[MonthUse]]) -> bool:
    """Whether what `count` returns was noted.

    It counts after the note was read, and writes only if nobody has noted since. So no process that
    was slow replaces a newer note by an older one, and the hours of a month only grow.
    """
    try:
        config_map = await client.get(CONFIG_MAPS, MetadataOnly, names.LEDGER_NOTES)
        use = await count()
        version = config_map.metadata.resourceVersion
        body = {"metadata": {"resourceVersion": version}, "data": {names.MONTH_USE: use.text()}}
        await client.patch(CONFIG_MAPS, names.LEDGER_NOTES, body)
    except ApiError as error:
        log.warning("use of budgets not noted", extra={"reason": str(error)})
        return False
    return True
