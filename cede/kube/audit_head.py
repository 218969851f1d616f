"""The newest record of the audit, noted in a ConfigMap, where the database cannot change it."""

import logging

from cede.api import names
from cede.api.audit_chain import Head, parse_head
from cede.api.kueue import MetadataOnly
from cede.api.objects import CONFIG_MAPS
from cede.kube.client import Client
from cede.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)


async def read_text(client: Client) -> str:
    """Empty if none was noted yet. Raises ApiError."""
    try:
        config_map = await client.get(CONFIG_MAPS, MetadataOnly, names.LEDGER_NOTES)
    except NotFound:
        return ""
    return config_map.metadata.annotations.get(names.AUDIT_HEAD, "")


async def read(client: Client) -> Head | None:
    """None if none was noted yet. Raises ApiError, and ValueError if somebody wrote something
    else."""
    text = await read_text(client)
    return parse_head(text) if text else None


async def note(client: Client, head: Head) -> bool:
    """Whether it was noted. The log has it too, so a refusal is only reported."""
    body = {"metadata": {"annotations": {names.AUDIT_HEAD: str(head)}}}
    try:
        await client.patch(CONFIG_MAPS, names.LEDGER_NOTES, body)
    except ApiError as error:
        log.warning("head of the audit not noted", extra={"reason": str(error)})
        return False
    return True
