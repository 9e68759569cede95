"""The HTTP answers of a node without a core."""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

import pytest

from warren.errors import StoreError
from warren.node.cluster.control_endpoint import BODY_BYTES_MAX, PATH, STATUS_STOPPED, ControlEndpoint, ControlStatus
from warren.node.cluster.refusals import MembershipRefused
from warren.node.peers.cookie import COOKIE_PROOF_HEADER, prove_cookie

COOKIE = b"a cookie of sixteen"
NAME = "warren@one"
Answer = tuple[int, Any]


def ask(room: ControlEndpoint, method: str, path: str, body: bytes = b"", cookie: bytes = COOKIE) -> Answer:
    """The status and the document; without a cookie nothing is proved."""
    headers = []
    if cookie:
        text = prove_cookie(cookie, NAME, method, path, body, int(time.time()), secrets.token_hex(16))
        headers.append((COOKIE_PROOF_HEADER.encode(), text.encode()))
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(room(scope, receive, send))
    document = sent[1].get("body", b"")
    return sent[0]["status"], json.loads(document) if document else None


class Orders:
    """Records orders, and refuses those that the test names."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []
        self.refusal: Exception | None = None

    async def take(self, arguments: Mapping[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.given.append({"node": arguments["node"]})


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def room(orders: Orders) -> ControlEndpoint:
    return ControlEndpoint(ControlStatus(NAME, STATUS_STOPPED, "it was removed", {"join_cluster": orders.take}), COOKIE)


def test_every_client_sees_the_state_of_the_node_and_those_with_the_cookie_its_reason(room: ControlEndpoint) -> None:
    assert ask(room, "GET", PATH, cookie=b"") == (200, {"node": NAME, "app": "stopped"})
    assert ask(room, "GET", PATH) == (200, {"node": NAME, "app": "stopped", "trouble": "it was removed"})


def test_other_paths_are_answered_with_app_stopped(room: ControlEndpoint) -> None:
    status, document = ask(room, "GET", "/api/overview", cookie=b"")
    assert (status, document["error"]) == (503, "app_stopped")


def test_an_order_with_the_cookie_is_carried_out(room: ControlEndpoint, orders: Orders) -> None:
    assert ask(room, "POST", f"{PATH}/join_cluster", b'{"node": "warren@two"}') == (204, None)
    status, document = ask(room, "POST", f"{PATH}/join_cluster", b'{"node": "warren@six"}', b"")
    assert (status, document["error"]) == (401, "not_proved")
    assert orders.given == [{"node": "warren@two"}]


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b"1"])
def test_arguments_that_make_no_sense_are_refused(room: ControlEndpoint, orders: Orders, body: bytes) -> None:
    status, document = ask(room, "POST", f"{PATH}/join_cluster", body)
    assert (status, document["error"]) == (400, "bad_request")
    assert orders.given == []


def test_an_order_that_is_too_large_is_refused(room: ControlEndpoint) -> None:
    status, document = ask(room, "POST", f"{PATH}/join_cluster", b" " * (BODY_BYTES_MAX + 1))
    assert (status, document["error"]) == (400, "bad_request")


def test_a_malformed_order_is_refused(room: ControlEndpoint) -> None:
    assert ask(room, "POST", f"{PATH}/dance", b"{}")[0] == 400
    assert ask(room, "DELETE", f"{PATH}/join_cluster")[0] == 405


@pytest.mark.parametrize(
    ("refusal", "error", "reason"),
    [
        (MembershipRefused("already_member", "It is one"), "already_member", "It is one"),
        (StoreError("the disk is damaged"), "failed", "the disk is damaged"),
        (TimeoutError(), "failed", "no node answered in time"),
    ],
)
def test_a_refused_order_is_answered_with_the_reason(
    room: ControlEndpoint, orders: Orders, refusal: Exception, error: str, reason: str
) -> None:
    orders.refusal = refusal
    answer = ask(room, "POST", f"{PATH}/join_cluster", b'{"node": "warren@two"}')
    assert answer == (400, {"error": error, "reason": reason})
