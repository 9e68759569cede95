"""One virtual address on two balancers: the real Keepalived and HAProxy on hosts of their own, before a real node.

Not here: clients of a cluster behind it (`test_front_door`).
"""

import re
from collections.abc import Iterator

import pytest

from tests.ha.front import warren
from tests.ha.front_door import BALANCERS, VIRTUAL, FrontDoor, front_door
from tests.support.namespaces import CLIENTS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoor]:
    with front_door(tmp_path_factory.mktemp("pair"), {"n1": "disc"}) as made:
        yield made


@pytest.fixture
def pair(shared: FrontDoor) -> FrontDoor:
    """With an address that leads to the node, and two balancers that could have it."""
    shared.await_open()
    shared.eventually(lambda: all(works(shared, name) for name in BALANCERS))
    return shared


def works(door: FrontDoor, name: str) -> bool:
    """Whether the balancer's Keepalived thinks that its HAProxy reaches a node."""
    told = re.findall(r"VRRP_Script\(haproxy_working\) (\w+)", door.machines[name].log())
    return bool(told) and told[-1] == "succeeded"


def test_the_address_moves_when_haproxy_or_keepalived_is_lost_and_not_when_it_is_back(pair: FrontDoor) -> None:
    for what in ("haproxy", "keepalived"):
        first = pair.holder()
        assert first is not None
        second = pair.other(first)
        pair.machines[first].kill(what)
        pair.eventually(lambda second=second: pair.machines[second].holds(VIRTUAL))  # type: ignore[misc]
        pair.eventually(pair.answers)
        pair.machines[first].start_haproxy() if what == "haproxy" else pair.machines[first].start_keepalived()
        pair.await_holder(second)
        pair.eventually(lambda first=first: pair.has_settled_as_backup(first))  # type: ignore[misc]
        assert pair.holder() == second, "an address that goes back costs every client its connection again"


def test_a_balancer_that_is_cut_off_from_the_nodes_gives_the_address_to_one_that_is_not(pair: FrontDoor) -> None:
    first = pair.holder()
    assert first is not None
    pair.world.cut(first, "n1")
    pair.await_holder(pair.other(first))
    pair.eventually(pair.answers)
    pair.world.heal()


def test_the_address_stays_when_no_balancer_reaches_a_node(pair: FrontDoor) -> None:
    """Clients are refused at once, instead of waiting for an answer."""
    pair.nodes[0].kill()
    pair.eventually(lambda: not any(works(pair, name) for name in BALANCERS))
    assert pair.holder() in BALANCERS
    pair.nodes[0].start()
    pair.eventually(pair.answers)


def test_a_deployment_that_is_well_passes_the_check(pair: FrontDoor) -> None:
    with pair.world.inside(CLIENTS):
        done = warren("ha", "check", str(pair.file), "--user", "guest", "--password", "guest")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "nothing is wrong"), lines
    assert f"good     the virtual address is on {pair.holder()}" in lines
    assert f"good     nodes see clients with their own addresses: ours is {pair.world.address(CLIENTS)}" in lines
    assert [line for line in lines if not line.startswith("good")] == [
        "warning  there is one node: if it is lost, everything is lost",
        "nothing is wrong",
    ]
