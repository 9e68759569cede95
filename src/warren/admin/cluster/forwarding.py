"""Requests that another node has to answer, because they name it, or because it alone knows what they are about.

Not here: lists (`listing.spread`), answers that are put together (the resources).
"""

from collections.abc import Awaitable, Callable

from warren.admin.cluster.question import HERE, Part, Told
from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, not_found

ALONE = Part(HERE)
"""The answer of one node, for itself."""

Handler = Callable[[Call], Awaitable[Answer]]


def at_node(handler: Handler) -> Handler:
    """Let the node answer that the path names; 404 if there is none, 503 if it does not answer."""

    async def answer(call: Call) -> Answer:
        peers = call.station.peers
        node = call.params.get("node", peers.own)
        if node == peers.own:
            return await handler(call)
        if call.part is not None or node not in peers.names():
            raise not_found()
        told = await peers.ask(node, call.question(ALONE))
        if told is None:
            raise HttpFault(503, "service_unavailable", f"node {node} does not answer")
        return passed_on(told)

    return answer


def check_node(call: Call) -> None:
    """404 unless the path names this node: for what no other node can do in its place."""
    if call.params.get("node", call.station.peers.own) != call.station.peers.own:
        raise not_found()


async def elsewhere(call: Call) -> Answer:
    """What this node does not have, another may: the answer of whoever does, or 404."""
    if call.part is None:
        told = await call.station.peers.ask_all(call.question(ALONE))
        for answer in told.values():
            if answer.status != 404:
                return passed_on(answer)
    raise not_found()


def passed_on(told: Told) -> Answer:
    return Answer(told.status, told.body)
