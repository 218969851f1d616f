"""The certificate of the page, from files that somebody else renews, such as cert-manager."""

import asyncio
import logging
import ssl
from pathlib import Path

log = logging.getLogger(__name__)
LOOK_S = 30.0


class Certificate:
    """`folder` is that of a mounted Secret. `context` is None if it has no certificate."""

    def __init__(self, folder: str) -> None:
        self._files = (Path(folder) / "tls.crt", Path(folder) / "tls.key")
        self._loaded = b""
        self.context: ssl.SSLContext | None = None
        if folder and all(file.exists() for file in self._files):
            self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._load(self.context)

    async def keep(self) -> None:
        """New connections get a new certificate. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.renew()

    def renew(self) -> None:
        """A certificate that cannot be read leaves the old one."""
        if self.context is None:
            return
        try:
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            log.error("certificate not loaded", extra={"reason": str(error)})

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        content = certificate.read_bytes() + key.read_bytes()
        if content == self._loaded:
            return
        context.load_cert_chain(certificate, key)
        self._loaded = content
        log.info("certificate loaded")
