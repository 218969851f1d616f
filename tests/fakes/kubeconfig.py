"""A kubeconfig by which a command finds a fake API server."""

import json
from pathlib import Path


def kubeconfig(path: Path, url: str, namespace: str = "") -> str:
    """Writes the file and returns its path. `url`: of the server.

    Context `one` is current and has `namespace`; context `two` has none. The user has the token
    `from-file`.
    """
    context = {"cluster": "c", "user": "u"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "from-file"}}],
        "contexts": [
            {"name": "one", "context": context | ({"namespace": namespace} if namespace else {})},
            {"name": "two", "context": context},
        ],
    }
    path.write_text(json.dumps(content))
    return str(path)
