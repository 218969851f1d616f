"""The peers at the versions that were measured.

Each is installed into its own folder of the cache, never into our environment.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cede" / "peers"
PINNED = {
    # The release 0.2.0 terminates its own survivors with torch 2.13 and later.
    "torchft": [
        "torchft-nightly==2026.10.26",
        "certifi==2026.10.18",
        "charset-normalizer==3.5.2",
        "googleapis-common-protos==1.76.0",
        "idna==3.20",
        "opentelemetry-api==1.45.2",
        "opentelemetry-exporter-http-transport==0.66b2",
        "opentelemetry-exporter-otlp-common==0.66b2",
        "opentelemetry-exporter-otlp-proto-common==1.45.2",
        "opentelemetry-exporter-otlp-proto-http==1.45.2",
        "opentelemetry-proto==1.45.2",
        "opentelemetry-sdk==1.45.2",
        "opentelemetry-semantic-conventions==0.66b2",
        "protobuf==7.36.2",
        "requests==2.34.2",
        "urllib3==2.8.0",
    ],
    "nvidia_resiliency_ext": [
        "nvidia-resiliency-ext==0.4.1",
        "psutil==7.2.2",
        "pyyaml==6.0.3",
        "defusedxml==0.7.1",
        "packaging==26.3",
        "nvidia-ml-py==13.615.71",
        "pynvml==13.0.1",
    ],
    "torch_checkpointing": ["torch_checkpointing==0.1.1", "safetensors==0.8.0"],
}


def install(module: str) -> Path | None:
    """The folder to put on PYTHONPATH for `module`, which is installed if it is missing.

    Returns None, and prints the reason, if it cannot be installed or imported.
    """
    pins = PINNED[module]
    target = (
        FOLDER / f"{pins[0].replace('==', '-')}-py{sys.version_info.major}{sys.version_info.minor}"
    )
    if not (target / "complete").exists():
        words = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
            str(target),
            *pins,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = done.stderr.strip()[-200:]
            print(f"# {module} cannot be installed, its rows stay empty: {reason}", file=sys.stderr)
            return None
        (target / "complete").touch()
    tried = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env=environment(target),
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        print(
            f"# {module} cannot be imported, its rows stay empty: {tried.stderr.strip()[-200:]}",
            file=sys.stderr,
        )
        return None
    return target


def version(module: str) -> str:
    return PINNED[module][0]


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """Environment of a process: one thread, loopback, our tree and `folders` on the path."""
    path = os.pathsep.join([str(Path(__file__).parents[3]), *map(str, folders)])
    fixed = {
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
        "RUST_LOG": "off",
    }
    return {**os.environ, **fixed, **more}
