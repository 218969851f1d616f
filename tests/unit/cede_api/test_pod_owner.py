"""The pods of every kind are found by its Workload, and no pod takes another one's place."""

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import Pod
from cede.api.objects import Json
from cede.api.pod_owner import Owner, job_owners, pod_owner

OF_JOB_SET = {names.JOB_SET_NAME: "it"}
NAMED = {names.POD_WORKLOAD: "trainjob-it-1234"}


def owner_of(kind: str, labels: Json | None = None, annotations: Json | None = None) -> Owner:
    """Of a pod that an object of this kind controls."""
    reference = {"kind": kind, "name": "x", "uid": "uid-controller", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "research",
        "uid": "uid-pod",
        "labels": labels or {},
        "annotations": annotations or {},
        "ownerReferences": [reference] if kind else [],
    }
    return pod_owner(msgspec.convert({"metadata": metadata}, Pod))


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        pytest.param("Job", OF_JOB_SET, id="JobSet, TrainJob, AppWrapper of a JobSet"),
        pytest.param("RayCluster", {}, id="RayJob, RayService"),
        pytest.param("PyTorchJob", {}, id="PyTorchJob"),
        pytest.param("Pod", {}, id="SparkApplication, whose driver makes the executors"),
    ],
)
def test_a_pod_belongs_to_the_workload_that_kueue_names_in_it(kind: str, labels: Json) -> None:
    owner = owner_of(kind, labels, NAMED)
    assert owner in job_owners(("research", "trainjob-it-1234"), "uid-train-job")


@pytest.mark.parametrize(
    ("kind", "labels", "annotations", "uid"),
    [
        pytest.param("Job", {}, NAMED, "uid-controller", id="of a Job"),
        pytest.param("Job", OF_JOB_SET, {}, "uid-controller", id="Kueue names no Workload"),
        pytest.param("ReplicaSet", {}, NAMED, "uid-pod", id="of a Deployment"),
        pytest.param("", {}, NAMED, "uid-pod", id="alone"),
        pytest.param(
            "RayCluster",
            {},
            {**NAMED, names.POD_SLICE: "ray-1"},
            "uid-controller",
            id="elastic: its Workload may be replaced",
        ),
    ],
)
def test_other_pods_belong_to_a_uid(kind: str, labels: Json, annotations: Json, uid: str) -> None:
    assert owner_of(kind, labels, annotations) == Owner("research", uid=uid)


def test_a_group_comes_before_the_workload_that_a_pod_names() -> None:
    label = {names.POD_GROUP: "group"}
    assert owner_of("StatefulSet", label, NAMED) == Owner("research", workload="group")


def test_a_name_is_no_uid() -> None:
    by_uid, by_name = job_owners(("research", "u"), "u")
    assert by_uid != by_name
