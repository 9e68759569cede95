"""Another node's questions, answered as requests are, for this node's part.

Not here: who may ask (`node.peers`), what a part of a list is (`listing.parts`).
"""

from starlette.requests import Request

from warren.admin.cluster.question import Told, decode_question
from warren.admin.http.application import Application
from warren.admin.http.call import Call
from warren.admin.station import Station


class PeerAnswers:
    """Goes the way of a request, without its socket and its login."""

    def __init__(self, application: Application, station: Station) -> None:
        self._application = application
        self._station = station

    async def answer(self, data: bytes) -> bytes:
        try:
            question = decode_question(data)
        except (ValueError, KeyError, TypeError):
            return Told(400, b"").encode()
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

        call = Call(Request(scope, receive), {}, self._station, len(question.body))
        call.visitor, call.part = question.visitor, question.part
        answer = await self._application.answer(call)
        return Told(answer.status, await answer.whole()).encode()
