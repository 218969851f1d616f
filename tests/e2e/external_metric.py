"""A metric for autoscalers: an API of external metrics that a pod serves, with one value."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cede.api.objects import Json
from deploy.local.store import PAUSE
from quota_controller.certificates.issue import issue_ca, issue_leaf

# the fixture of tests/conftest.py
Cluster = Any
GROUP = "external.metrics.k8s.io"
VERSION = f"{GROUP}/v1beta1"
METRIC = "requests"
NAME = "metrics"
NAMESPACE = "default"
API_SERVICE = f"apiservice/v1beta1.{GROUP}"
PROGRAM = f"""
import json, os, ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = "/apis/{VERSION}"
RESOURCE = {{
    "name": "{METRIC}", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList",
    "verbs": ["get"],
}}
VALUE = {{
    "metricName": "{METRIC}", "metricLabels": {{}}, "timestamp": "2026-01-01T00:00:00Z",
    "value": os.environ["VALUE"],
}}
LISTS = {{
    "APIResourceList": {{"apiVersion": "v1", "groupVersion": "{VERSION}", "resources": [RESOURCE]}},
    "ExternalMetricValueList": {{"apiVersion": "{VERSION}", "metadata": {{}}, "items": [VALUE]}},
}}

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        kind = "APIResourceList" if path == ROOT else "ExternalMetricValueList"
        body = json.dumps({{"kind": kind, **LISTS[kind]}}).encode()
        self.send_response(200 if path.startswith(ROOT) else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server = ThreadingHTTPServer(("", 6443), Answers)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@contextmanager
def external_metric(cluster: Cluster, value: int) -> Iterator[None]:
    """Inside, the external metric `requests` has this value in every namespace."""
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*_objects(value)]})
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=items)
    try:
        cluster.kubectl("wait", API_SERVICE, "--for=condition=Available", "--timeout=120s")
        yield
    finally:
        # first: while it does not answer, no namespace can be deleted
        cluster.kubectl("delete", API_SERVICE, "--wait=true")
        objects = [f"{kind}/{NAME}" for kind in ("service", "secret", "pod")]
        cluster.kubectl("delete", "-n", NAMESPACE, *objects, "--now")


def _objects(value: int) -> Iterator[Json]:
    now = time.time()
    ca = issue_ca(now)
    pair = issue_leaf(ca, now, (f"{NAME}.{NAMESPACE}.svc",))
    yield _object("v1", "Secret", stringData={"tls.crt": pair.certificate, "tls.key": pair.key})
    container = {
        "name": "serve",
        "image": PAUSE,
        "command": ["python", "-c", PROGRAM],
        "env": [{"name": "VALUE", "value": str(value)}],
        "readinessProbe": {"tcpSocket": {"port": 6443}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    volumes = [{"name": "tls", "secret": {"secretName": NAME}}]
    yield _object("v1", "Pod", spec={"containers": [container], "volumes": volumes})
    ports = [{"port": 443, "targetPort": 6443}]
    yield _object("v1", "Service", spec={"selector": {"app": NAME}, "ports": ports})
    service = {"name": NAME, "namespace": NAMESPACE, "port": 443}
    spec = {
        "group": GROUP,
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": service,
        "caBundle": base64.b64encode(ca.certificate.encode()).decode(),
    }
    api_service = _object("apiregistration.k8s.io/v1", "APIService", spec=spec)
    api_service["metadata"] = {"name": f"v1beta1.{GROUP}"}
    yield api_service


def _object(api_version: str, kind: str, **fields: Any) -> Json:
    metadata = {"name": NAME, "namespace": NAMESPACE, "labels": {"app": NAME}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def autoscaler(deployment: str, namespace: str, least: int, most: int) -> Json:
    """It wants a pod for each unit of the metric."""
    target = {"type": "AverageValue", "averageValue": "1"}
    metric = {"type": "External", "external": {"metric": {"name": METRIC}, "target": target}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [metric],
    }
    metadata = {"name": deployment, "namespace": namespace}
    kind = "HorizontalPodAutoscaler"
    return {"apiVersion": "autoscaling/v2", "kind": kind, "metadata": metadata, "spec": spec}
