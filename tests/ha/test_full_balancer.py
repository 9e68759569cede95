"""A balancer that has as many clients as it takes: the script that watches it is still answered."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ha.front import VIRTUAL, Front, warren
from warren.cli.ha.deployment import Deployment
from warren.client import ClientError, blocking

CLIENTS_MAX = 3


class SmallFront(Front):
    """Its HAProxy takes a few clients."""

    def _deployment(self) -> Deployment:
        usual = super()._deployment()
        return replace(usual, haproxy=replace(usual.haproxy, maxconn=CLIENTS_MAX))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallFront]:
    made = SmallFront(tmp_path, ("n1",))
    try:
        yield made
    finally:
        made.close()


def test_a_balancer_without_room_for_clients_keeps_the_address(small: SmallFront) -> None:
    with ExitStack() as clients:
        for _ in range(CLIENTS_MAX):
            clients.enter_context(blocking.connect(small.url))
        with pytest.raises(ClientError):
            blocking.connect(f"amqp://guest:guest@{VIRTUAL}:{small.deployment.ports['amqp']}/?connection_timeout=500")
        assert (small.watched("/alive"), small.watched("/working")) == (True, True)
        assert small.ask_through("/api/overview").status == 200


def test_a_check_says_that_there_may_be_too_many_clients(small: SmallFront) -> None:
    with ExitStack() as clients:
        for _ in range(CLIENTS_MAX):
            clients.enter_context(blocking.connect(small.url))
        told = warren("ha", "check", str(small.file)).stdout.splitlines()
    [said] = [line for line in told if line.startswith("wrong    the virtual address ")]
    assert "(no answer within 4 s): it accepts connections and does not answer: HAProxy hangs, has reached" in said
    assert "good     the virtual address is on lb1" in told
