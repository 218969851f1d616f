"""Controllers beside Kueue that `up --with` adds: JobSet, Kubeflow's Trainer, LeaderWorkerSet."""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.local import binaries, images, kube, network_namespaces, nodes, store
from deploy.local.paths import Failure, Paths
from deploy.local.shell import run_command, stage


@dataclass(frozen=True, slots=True)
class Addition:
    name: str
    module: str
    # the program in the module
    package: str
    namespace: str
    # of its kinds
    group: str
    # the folder with all manifests in the module, and those of them that are applied
    manifests: str
    resources: tuple[str, ...]
    # the image that the manifests name
    original: str
    # more of the kustomization
    more: str = ""

    @property
    def tag(self) -> str:
        return binaries.version(self.module)[1:]

    @property
    def image(self) -> images.Image:
        """The program as the manifests start it, and as the image of the module has it."""
        copy = f"COPY {self.name} /manager\nUSER 65532\n"
        text = f'FROM scratch\n{copy}ENTRYPOINT ["/manager"]\n'
        return images.Image(f"docker.io/library/{self.name}:{self.tag}", text=text)


ADDITIONS = {
    addition.name: addition
    for addition in (
        Addition(
            name="jobset",
            module="sigs.k8s.io/jobset",
            package="sigs.k8s.io/jobset",
            namespace="jobset-system",
            group="jobset.x-k8s.io",
            manifests="config",
            resources=("default",),
            original="us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset",
        ),
        Addition(
            name="trainer",
            module="github.com/kubeflow/trainer/v2",
            package="github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
            namespace="kubeflow-system",
            group="trainer.kubeflow.org",
            manifests="manifests",
            # overlays/manager would fetch a JobSet of its own
            resources=(
                "overlays/manager/namespace.yaml",
                "base/crds",
                "base/manager",
                "base/rbac",
                "base/webhook",
            ),
            original="ghcr.io/kubeflow/trainer/trainer-controller-manager",
            more="""namespace: kubeflow-system
generatorOptions: {disableNameSuffixHash: true}
secretGenerator: [{name: kubeflow-trainer-webhook-cert}]
configMapGenerator: [{name: kubeflow-trainer-public, literals: [kubeflow_trainer_version=v2]}]
""",
        ),
        Addition(
            name="lws",
            module="sigs.k8s.io/lws",
            package="sigs.k8s.io/lws/cmd",
            namespace="lws-system",
            group="leaderworkerset.x-k8s.io",
            manifests="config",
            resources=("default",),
            original="us-central1-docker.pkg.dev/k8s-staging-images/lws/lws",
            # one, that fits beside the tests' pods
            more="""replicas: [{name: lws-controller-manager, count: 1}]
patches:
- target: {kind: Deployment}
  patch: '[{"op": "remove", "path": "/spec/template/spec/containers/0/resources"}]'
""",
        ),
    )
}


def parse(text: str) -> list[Addition]:
    """Those of a list with commas. Raises Failure for another name."""
    unknown = set(filter(None, text.split(","))) - ADDITIONS.keys()
    if unknown:
        names = " or ".join(ADDITIONS)
        raise Failure(f"{', '.join(sorted(unknown))} cannot be added: use {names}")
    return [ADDITIONS[name] for name in text.split(",") if name]


def add(paths: Paths, chosen: Sequence[Addition]) -> None:
    """They run afterwards, and are available."""
    are_new = not all(_served_kinds(paths, addition) for addition in chosen)
    for addition in chosen:
        _compile(paths, addition)
        _load(paths, addition)
        text = manifests(paths, addition)
        with stage(f"{addition.name} available"):
            apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
            kube.kubectl(paths, *apply, stdin=text)
            kube.wait_available(paths, addition.namespace, 180)
    if are_new:
        # it looks for the kinds of a TrainJob once, and may have met one of two
        kube.restart_kueue(paths)


def remove(paths: Paths, chosen: Sequence[Addition]) -> None:
    """Nothing of them is left, and Kueue does not watch for their kinds."""
    delete = ("delete", "--ignore-not-found", "--timeout=120s")
    for addition in chosen:
        with stage(f"{addition.name} removed"):
            # While the controller runs, which must release what has its finalizer.
            if kinds := _served_kinds(paths, addition):
                kube.kubectl(paths, *delete, ",".join(kinds), "--all", "--all-namespaces")
            kube.kubectl(paths, *delete, "-f", "-", stdin=manifests(paths, addition))
    if chosen:
        kube.restart_kueue(paths)


def _served_kinds(paths: Paths, addition: Addition) -> list[str]:
    """Those of the addition, as PLURAL.GROUP."""
    prefix = "customresourcedefinition.apiextensions.k8s.io/"
    names = kube.kubectl(paths, "get", "crd", "-o", "name").split()
    return [name.removeprefix(prefix) for name in names if name.endswith(f".{addition.group}")]


def _compile(paths: Paths, addition: Addition) -> None:
    program = paths.bin / addition.name
    record = program.with_suffix(".key")
    if program.exists() and record.exists() and record.read_text() == addition.tag:
        return
    with stage(f"compiled {addition.name}"):
        flags = ("-ldflags", "-s -w", "-o", str(program))
        binaries.run_go("", "build", *flags, addition.package)
    record.write_text(addition.tag)


def _load(paths: Paths, addition: Addition) -> None:
    """Its image is in every running node."""
    image = addition.image
    key = hashlib.sha256((paths.bin / addition.name).read_bytes()).hexdigest()[:16]
    archive = store.archive(paths, image.name)
    record = archive.with_suffix(".key")
    if not (archive.exists() and record.exists() and record.read_text() == key):
        with stage(f"built {store.short_name(image.name)}"):
            images.build(paths, image)
        record.write_text(key)
    for name in nodes.prepared_nodes(paths):
        if network_namespaces.pid_of(paths, name):
            known = store.recorded_keys(nodes.image_record(paths, name))
            nodes.load_images(paths, name, known | {image.name: key})


def manifests(paths: Paths, addition: Addition) -> str:
    """The module's own, with our image."""
    folder = paths.share / f"{addition.name}-manifests"
    shutil.rmtree(folder, ignore_errors=True)
    source: Path = binaries.module_folder(addition.module) / addition.manifests
    run_command("cp", "-r", "--no-preserve=mode", source, folder)
    resources = ", ".join(addition.resources)
    name = addition.image.name.rpartition(":")[0]
    (folder / "kustomization.yaml").write_text(
        f"resources: [{resources}]\n{addition.more}"
        f"images: [{{name: {addition.original}, newName: {name}, newTag: {addition.tag}}}]\n"
    )
    return run_command(paths.kubectl, "kustomize", folder)
