"""The ports of a local cluster's nodes."""

import random

import pytest

from warren.cli.cluster import local_cluster


def test_no_node_gets_the_port_of_another_ones_etcd_member(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = local_cluster.ETCD_PORTS_BEHIND
    first = local_cluster.FREE_PORT_MIN
    tried = [first, first + behind[0], first + 1, first - behind[0], first + 2]
    monkeypatch.setattr(random, "sample", lambda ports, count: tried)
    monkeypatch.setattr(local_cluster, "_are_free", lambda ports: True)
    assert local_cluster._free_ports(3, behind, {}) == [first, first + 1, first + 2]
