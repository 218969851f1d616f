"""PURE. What keeps the teams of a cluster apart: fields of the ClusterPolicy."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from cede.api.crd_schema import ATOMIC

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
Namespace = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)]
ClassName = Annotated[str, StringConstraints(min_length=1, max_length=253)]
CONTROLLER_NAMESPACES = (
    "kube-system",
    "kueue-system",
    "jobset-system",
    "lws-system",
    "kubeflow",
    "kubeflow-system",
    "appwrapper-system",
    "kuberay-operator",
    "ray-system",
    "spark-operator",
    "mpi-operator",
)
"""Where the controllers of Kubernetes and of the kinds that Kueue queues are installed by their own
instructions. They always count: without Kubernetes' own, no pod of a Job would start."""


class TeamSecurity(BaseModel):
    """What the teams may not do. The defaults are strict."""

    controllerNamespaces: list[Namespace] = Field(
        default_factory=lambda: list(CONTROLLER_NAMESPACES),
        max_length=64,
        json_schema_extra=ATOMIC,
        description=(
            "Namespaces of the controllers that create jobs for other jobs, such as the Job of a "
            "JobSet. Only their service accounts may name such an owner: what it owns is not "
            "queued by itself. Only they may add finalizers to jobs, but for foregroundDeletion: a "
            "job that stays when it is deleted has pods and no quota. A list adds to the default, "
            "which always counts."
        ),
    )
    podPriorityClasses: list[ClassName] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=ATOMIC,
        description=(
            "PriorityClasses of Kubernetes that pods of teams may name. By such a class the "
            "Kubernetes scheduler preempts pods of other teams."
        ),
    )
    metricsNamespaces: list[Namespace] = Field(
        default_factory=lambda: ["monitoring"],
        max_length=16,
        json_schema_extra=ATOMIC,
        description="Namespaces whose pods may read the metrics of elastic jobs.",
    )
    podSecurity: Literal["privileged", "baseline", "restricted"] = Field(
        default="baseline",
        description=(
            "Pod Security Standard that namespaces which Cede creates enforce. A namespace that "
            "is adopted keeps its own."
        ),
    )
    maxObjectsPerKind: int = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description=(
            "Most Jobs, most pods and most Deployments in each namespace that Cede creates, also "
            "finished ones. 0: no limit. A namespace that is adopted has no limit of Cede."
        ),
    )

    @property
    def trusted_namespaces(self) -> tuple[str, ...]:
        """Those whose service accounts count as controllers."""
        return tuple(dict.fromkeys((*CONTROLLER_NAMESPACES, *self.controllerNamespaces)))
