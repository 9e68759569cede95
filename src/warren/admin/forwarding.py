"""Requests that another node has to answer, because they name it, or because it alone knows what they are about.

Not here: lists (`listing.spread`), answers that are put together (the resources).

Another node's questions, answered as requests are, for this node's part.

Not here: who may ask (`node.peers`), what a part of a list is (`listing.parts`).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from warren.admin.context import AdminContext
from warren.admin.http.application import Application
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, HttpFault, not_found
from warren.admin.peers import HERE, PeerReply, QueryPart, decode_query

ALONE = QueryPart(HERE)
"""The answer of one node, for itself."""

Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]


def at_node(handler: Handler) -> Handler:
    """Let the node answer that the path names; 404 if there is none, 503 if it does not answer."""

    async def answer(call: ApiRequest) -> ApiResponse:
        peers = call.context.peers
        node = call.params.get("node", peers.own)
        if node == peers.own:
            return await handler(call)
        if call.part is not None or node not in peers.names():
            raise not_found()
        told = await peers.ask(node, call.question(ALONE))
        if told is None:
            raise HttpFault(503, "service_unavailable", f"node {node} does not answer")
        return forwarded_response(told)

    return answer


def check_node(call: ApiRequest) -> None:
    """404 unless the path names this node: for what no other node can do in its place."""
    if call.params.get("node", call.context.peers.own) != call.context.peers.own:
        raise not_found()


async def forward_to_owner(call: ApiRequest) -> ApiResponse:
    """What this node does not have, another may: the answer of whoever does, or 404."""
    if call.part is None:
        told = await call.context.peers.ask_all(call.question(ALONE))
        for answer in told.values():
            if answer.status != 404:
                return forwarded_response(answer)
    raise not_found()


async def peer_documents(call: ApiRequest) -> list[Any]:
    """What the other nodes answer to this request, of those that answer with 200, in the order of their names."""
    told = await call.context.peers.ask_all(call.question(ALONE))
    return [told[node].document for node in sorted(told) if told[node].status == 200]


def forwarded_response(told: PeerReply) -> ApiResponse:
    return ApiResponse(told.status, told.body)


class PeerQueryHandler:
    """Goes the way of a request, without its socket and its login."""

    def __init__(self, application: Application, context: AdminContext) -> None:
        self._application = application
        self._station = context

    async def answer(self, data: bytes) -> bytes:
        try:
            question = decode_query(data)
        except (ValueError, KeyError, TypeError):
            return PeerReply(400, b"").encode()
        scope = {
            "type": "http",
            "method": question.method,
            "path": question.path.decode("latin-1"),
            "raw_path": question.path,
            "query_string": question.query,
            "headers": [(b"x-reason", question.reason.encode("latin-1", "replace"))] if question.reason else [],
            "client": None,
        }

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": question.body, "more_body": False}

        call = ApiRequest(Request(scope, receive), {}, self._station, len(question.body))
        call.api_user, call.part = question.api_user, question.part
        answer = await self._application.answer(call)
        return PeerReply(answer.status, await answer.whole()).encode()
