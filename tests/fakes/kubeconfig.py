"""The file by which a command finds an API server."""

import json
from pathlib import Path

from tests.fakes.api_server import ApiServer


def kubeconfig(path: Path, server: ApiServer, namespace: str = "") -> str:
    """Writes it: context `one` (current, of `namespace`), context `two`, a user with the token
    `from-file`."""
    context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "from-file"}}],
        "contexts": [
            {"name": "one", "context": context},
            {"name": "two", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(json.dumps(content))
    return str(path)
