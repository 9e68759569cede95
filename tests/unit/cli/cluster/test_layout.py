"""Which ports the nodes of a local cluster get."""

import random

import pytest

from warren.cli.cluster import layout


def test_no_node_gets_the_port_of_another_ones_etcd_member(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = layout.ETCD_PORTS_BEHIND
    first = layout.FREE_PORT_MIN
    tried = [first, first + behind[0], first + 1, first - behind[0], first + 2]
    monkeypatch.setattr(random, "sample", lambda ports, count: tried)
    monkeypatch.setattr(layout, "_are_free", lambda ports: True)
    assert layout._free_ports(3, behind, {}) == [first, first + 1, first + 2]
