"""Requests that another node answers, and requests of other nodes that this node answers.

Not here: lists that cover several nodes (`listing.lists`), sending (`admin.peers`), who may ask (`node.peers`).
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
"""The response of one node for itself."""

Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]


def at_node(handler: Handler) -> Handler:
    """Forward the request to the node in the path; 404 if there is none, 503 if it does not respond."""

    async def answer(call: ApiRequest) -> ApiResponse:
        peers = call.context.peers
        node = call.params.get("node", peers.own)
        if node == peers.own:
            return await handler(call)
        if call.part is not None or node not in peers.names():
            raise not_found()
        reply = await peers.ask(node, call.peer_query(ALONE))
        if reply is None:
            raise HttpFault(503, "service_unavailable", f"node {node} does not answer")
        return forwarded_response(reply)

    return answer


def check_node(call: ApiRequest) -> None:
    """404 unless the path names this node, for requests that cannot be forwarded."""
    if call.params.get("node", call.context.peers.own) != call.context.peers.own:
        raise not_found()


async def forward_to_owner(call: ApiRequest) -> ApiResponse:
    """The response of the node that has the object; 404 if none has it."""
    if call.part is None:
        for reply in (await call.context.peers.ask_all(call.peer_query(ALONE))).values():
            if reply.status != 404:
                return forwarded_response(reply)
    raise not_found()


async def peer_documents(call: ApiRequest) -> list[Any]:
    """The other nodes' responses to this request, in the order of their names; without those that failed."""
    replies = await call.context.peers.ask_all(call.peer_query(ALONE))
    return [replies[node].document for node in sorted(replies) if replies[node].status == 200]


def forwarded_response(reply: PeerReply) -> ApiResponse:
    return ApiResponse(reply.status, reply.body)


class PeerQueryHandler:
    """Answers a request of another node as the application would, without socket and login."""

    def __init__(self, application: Application, context: AdminContext) -> None:
        self._application = application
        self._context = context

    async def answer(self, data: bytes) -> bytes:
        try:
            peer_query = decode_query(data)
        except (ValueError, KeyError, TypeError):
            return PeerReply(400, b"").encode()
        scope = {
            "type": "http",
            "method": peer_query.method,
            "path": peer_query.path.decode("latin-1"),
            "raw_path": peer_query.path,
            "query_string": peer_query.query,
            "headers": [(b"x-reason", peer_query.reason.encode("latin-1", "replace"))] if peer_query.reason else [],
            "client": None,
        }

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": peer_query.body, "more_body": False}

        call = ApiRequest(Request(scope, receive), {}, self._context, len(peer_query.body))
        call.api_user, call.part = peer_query.api_user, peer_query.part
        answer = await self._application.answer(call)
        return PeerReply(answer.status, await answer.whole()).encode()
