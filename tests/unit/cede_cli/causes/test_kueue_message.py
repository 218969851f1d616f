"""Messages of Kueue 0.19.2 as facts."""

import pytest

from cede.api import names
from cede.causes.kueue_message import Excess, Lack, Verdict, parse
from tests.builders.causes import PREFIX

UNUSED = "insufficient unused quota for {} in flavor {}, {} more needed"
NO_RACK = 'topology "racks" doesn\'t allow to fit any of 4 pod(s). Total nodes: 2'
MAXIMUM = (
    "insufficient quota for {} in flavor {}, previously considered podsets requests ({}) + current "
    "podset request ({}) > maximum capacity ({})"
)


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        pytest.param("", Verdict(), id="nothing"),
        pytest.param(
            # fitsResourceQuota; the reasons are sorted and joined (Status.Message)
            f"{PREFIX}{UNUSED.format('cpu', 'a100', '500m')}, "
            f"{UNUSED.format(names.GPU, 'a100', '4')}",
            Verdict(lacks=(Lack(names.GPU, "a100", 4), Lack("cpu", "a100", 500))),
            id="accelerators come first",
        ),
        pytest.param(
            f"{PREFIX}{UNUSED.format(names.GPU, 'a', '1')}; couldn't assign flavors to pod set "
            f"worker: {UNUSED.format(names.GPU, 'a', '3')}",
            Verdict(lacks=(Lack(names.GPU, "a", 3),)),
            id="several pod sets",
        ),
        pytest.param(
            PREFIX + MAXIMUM.format("memory", "a100", "1Gi", "3Gi", "2Gi"),
            Verdict(excesses=(Excess("memory", "a100", 4 * 2**30, 2 * 2**30),)),
            id="with what the pod sets before ask for",
        ),
        pytest.param(
            f"{PREFIX}{UNUSED.format(names.GPU, 'a100', 'many')}",
            Verdict(),
            id="an amount that is no quantity",
        ),
        pytest.param(
            f"{PREFIX}flavor a doesn't match node affinity, untolerated taint {{k v NoSchedule "
            '<nil>}} in flavor b, Flavor "c" does not support TopologyAwareScheduling',
            Verdict(
                unmatched=(
                    "flavor a doesn't match node affinity",
                    "untolerated taint {k v NoSchedule <nil>}} in flavor b",
                    'Flavor "c" does not support TopologyAwareScheduling',
                )
            ),
            id="flavors that do not match",
        ),
        pytest.param(
            f"{PREFIX}resource x/y unavailable in ClusterQueue, flavor a does not provide resource "
            "z/gpu",
            Verdict(absent=("x/y", "z/gpu")),
            id="resources without quota",
        ),
        pytest.param(
            PREFIX + NO_RACK,
            Verdict(topology=NO_RACK),
            id="topology",
        ),
        pytest.param(
            "Workload has overlapping preemption targets with another workload",
            Verdict(evicting=1),
            id="jobs that another job preempts",
        ),
    ],
)
def test_what_a_message_says(message: str, verdict: Verdict) -> None:
    assert parse(message) == verdict
