"""Bugs in a resource, and commands that the broker refuses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from warren.admin.context import AdminContext
from warren.admin.http.application import Application
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse
from warren.admin.http.router import Resource, Router
from warren.admin.http.settings import ApplicationSettings
from warren.errors import CommandRefused


class Defect(Exception):
    """An exception that no resource may raise."""


class Log:
    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def error(self, event: str, **fields: object) -> None:
        self.told.append((event, fields["exc_info"]))


class Asked:
    """One request for a path, and the response."""

    def __init__(self) -> None:
        router = Router()
        router.add("/at-once", Resource(None, {"GET": self._at_once}))
        router.add("/midway", Resource(None, {"GET": self._midway}))
        router.add("/chunks", Resource(None, {"GET": self._in_chunks}))
        router.add("/unavailable", Resource(None, {"GET": self._unavailable}))
        self.log = Log()
        self.defect = Defect()
        self.sent: list[dict[str, Any]] = []
        # whether the client disconnects at once
        self.gone = False
        # no resource uses the context
        self._application = Application(router, cast(AdminContext, None), ApplicationSettings(), self.log)

    def ask(self, path: str, method: str = "GET", version: str = "1.1") -> None:
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
        scope |= {"headers": [], "http_version": version}
        asyncio.run(self._application(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self.gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def _at_once(self, call: ApiRequest) -> ApiResponse:
        raise self.defect

    async def _unavailable(self, call: ApiRequest) -> ApiResponse:
        raise CommandRefused("unavailable", "no majority")

    async def _in_chunks(self, call: ApiRequest) -> ApiResponse:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            yield b"two"

        return ApiResponse(200, chunks=chunks())

    async def _midway(self, call: ApiRequest) -> ApiResponse:
        return ApiResponse(200, chunks=self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield b"a part"
        raise self.defect


def test_a_long_answer_goes_out_in_pieces() -> None:
    asked = Asked()
    asked.ask("/chunks")
    assert [message.get("body") for message in asked.sent] == [None, b"one", b"two", b""]
    assert b"content-length" not in dict(asked.sent[0]["headers"])


def test_an_http_1_0_client_gets_no_chunks() -> None:
    asked = Asked()
    asked.ask("/chunks", version="1.0")
    assert [message.get("body") for message in asked.sent] == [None, b"onetwo"]
    assert dict(asked.sent[0]["headers"])[b"content-length"] == b"6"


def test_a_response_to_a_client_that_has_gone_is_abandoned() -> None:
    asked = Asked()
    asked.gone = True
    asked.ask("/chunks")
    assert [message.get("body") for message in asked.sent] == [None, b"one", b""]


def test_a_head_request_gets_no_chunks() -> None:
    asked = Asked()
    asked.ask("/chunks", method="HEAD")
    assert [message.get("body") for message in asked.sent] == [None, b""]


def test_a_defect_is_logged_and_answered() -> None:
    asked = Asked()
    asked.ask("/at-once")
    assert asked.log.told == [("http.failed", asked.defect)]
    assert [message.get("status") for message in asked.sent] == [500, None]


def test_a_defect_in_an_answer_that_has_begun_is_logged_and_the_answer_has_no_end() -> None:
    asked = Asked()
    with pytest.raises(Defect):
        asked.ask("/midway")
    assert asked.log.told == [("http.failed", asked.defect)]
    assert [message.get("more_body") for message in asked.sent] == [None, True]


def test_a_command_that_was_not_agreed_upon_may_be_tried_again_later() -> None:
    asked = Asked()
    asked.ask("/unavailable")
    assert asked.sent[0]["status"] == 503
    assert asked.sent[1]["body"] == b'{"error":"unavailable","reason":"no majority"}'
    assert asked.log.told == []
