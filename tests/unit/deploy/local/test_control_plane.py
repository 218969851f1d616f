"""This machine's link to the cluster."""

import pytest

from deploy.local import control_plane


def test_the_link_to_the_cluster_has_an_address_that_udev_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = list[str]()
    monkeypatch.setattr(
        control_plane, "run_command", lambda *words, check=True: commands.append(" ".join(words))
    )
    control_plane.connect_host(17)
    [creation] = [command for command in commands if " link add " in command]
    own, _, peer = creation.partition(" peer ")
    assert own.endswith("address 02:ce:de:00:00:fe type veth")
    assert peer == "name host netns 17"
    # the address is a local one, and that of no other link of the cluster
    assert int(control_plane.HOST_MAC[:2], 16) & 0b11 == 0b10
    assert control_plane.HOST_MAC not in control_plane.NETWORK_SCRIPT
