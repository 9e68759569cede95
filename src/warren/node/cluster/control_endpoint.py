"""The HTTP replies of a node without a running broker: its name and state, and orders about its membership.

    GET  /api/warren/membership           to all: its name, and whether it is starting or stopped;
                                          with a proof of the cookie: also why it did not start
    POST /api/warren/membership/VERB      a JSON object of arguments; only with proof
    GET  /api/warren/fitness              to all, as load balancers ask: 503, and why

Every other path gets 503. Orders are carried out one after another.

Not here: proofs (`node.peers.cookie`), the orders (`node.cluster.stopped_member`), the same paths of a running node
(`admin.resources.nodes`).
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from warren.admin.fitness import PATH as FITNESS
from warren.admin.fitness import UNFIT_STATUS, FitnessReason, fitness_row
from warren.errors import ConfigError, StoreError
from warren.node.cluster.refusals import MembershipRefused
from warren.node.peers.cookie import COOKIE_PROOF_HEADER, CookieProofVerifier

PATH = "/api/warren/membership"
STATUS_STARTING = "starting"
STATUS_STOPPED = "stopped"
BODY_BYTES_MAX = 64 * 1024
PATIENCE_S = 60.0

ControlVerb = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass
class ControlStatus:
    """The state of the node."""

    name: str
    app: str
    # why it did not start
    trouble: str = ""
    verbs: Mapping[str, ControlVerb] = field(default_factory=dict)


class ControlEndpoint:
    """The ASGI application."""

    def __init__(self, status: ControlStatus, cookie: bytes) -> None:
        self._status = status
        self._verifier = CookieProofVerifier(cookie, time.time)
        self._busy = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"].rstrip("/")
        if path == FITNESS:
            return self._unfit()
        if path != PATH and not path.startswith(f"{PATH}/"):
            return self._absent()
        body = await _body_of(request)
        if body is None:
            return _fault(400, "bad_request", "the body is too large, or did not come")
        status = self._status
        given = request.headers.get(COOKIE_PROOF_HEADER, "")
        objection = self._verifier.objection(given, status.name, request.method, path, body)
        if path == PATH and request.method == "GET":
            trouble = {"trouble": status.trouble} if not objection else {}
            return JSONResponse({"node": status.name, "app": status.app, **trouble})
        if objection:
            return _fault(401, "not_proved", objection)
        if request.method != "POST":
            return _fault(405, "method_not_allowed", "orders are sent with POST")
        return await self._obey(path.removeprefix(f"{PATH}/"), body)

    async def _obey(self, name: str, body: bytes) -> Response:
        verb = self._status.verbs.get(name)
        if verb is None:
            return _fault(400, self._status.app, f"the node is {self._status.app}, and cannot do that now")
        try:
            document = json.loads(body or b"{}")
            async with self._busy:
                await verb(document)
        except MembershipRefused as refusal:
            return _fault(400, refusal.code, str(refusal))
        except (StoreError, ConfigError, ConnectionError, TimeoutError) as error:
            return _fault(400, "failed", str(error) or "no node answered in time")
        except (ValueError, KeyError, TypeError, AttributeError):
            return _fault(400, "bad_request", "the arguments make no sense to this version of Warren")
        return Response(status_code=204)

    def _unfit(self) -> Response:
        status = self._status
        reasons = [FitnessReason(status.app, f"The node is {status.app}, and serves no clients.")]
        return JSONResponse(fitness_row(status.name, reasons), UNFIT_STATUS)

    def _absent(self) -> Response:
        reason = f"the node {self._status.name} is {self._status.app}"
        return _fault(503, f"app_{self._status.app}", reason)


async def _body_of(request: Request) -> bytes | None:
    body = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES_MAX:
                    return None
    except (ClientDisconnect, TimeoutError):
        return None
    return body


def _fault(status: int, error: str, reason: str) -> Response:
    return JSONResponse({"error": error, "reason": reason}, status)
