"""Queries between nodes are encoded and decoded, and invalid data is refused."""

import asyncio
from typing import cast

import pytest

from warren.admin.context import AdminContext
from warren.admin.http.application import Application
from warren.admin.http.authentication import ApiUser
from warren.admin.peer_requests import PeerQueryHandler
from warren.admin.peers import ROWS, PeerQuery, PeerReply, QueryPart, decode_query, decode_reply
from warren.broker.model.identity import Identity


def test_a_question_comes_as_it_went() -> None:
    part = QueryPart(ROWS, "messages", (("/", "plain"), ("/", "not \udcff UTF-8")))
    peer_query = PeerQuery(
        "GET", b"/api/queues/%2F", b"columns=name", "gr\xfcn", ApiUser("ann", ["monitoring"], ["/"]), part
    )
    assert decode_query(peer_query.encode()) == peer_query


def test_the_login_of_a_token_comes_as_it_went() -> None:
    identity = Identity("ann", "oauth2", "oauth2", ["monitoring"], ["read:*/*", "tag:monitoring"], 1_000)
    api_user = ApiUser("ann", ["monitoring"], ["/"], identity)
    found = decode_query(PeerQuery("GET", b"/", b"", "", api_user, QueryPart(ROWS)).encode()).api_user.identity
    assert (found.name, found.authn, found.authz) == ("ann", "oauth2", "oauth2")
    assert (found.tags, found.scopes, found.expires_at_ms) == (identity.tags, identity.scopes, 1_000)


def test_an_answer_comes_as_it_went() -> None:
    told = PeerReply(404, b'{"reason":"not \\udcff UTF-8"}')
    assert decode_reply(told.encode()) == told
    assert told.document == {"reason": "not \udcff UTF-8"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"visitor": 1}', b'"text"', b"\xff"])
def test_a_malformed_question_is_refused(data: bytes) -> None:
    # the application is never called
    answers = PeerQueryHandler(cast(Application, None), cast(AdminContext, None))
    assert decode_reply(asyncio.run(answers.answer(data))) == PeerReply(400, b"")
