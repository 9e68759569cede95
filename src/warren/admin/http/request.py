"""A request as handlers see it: user, path parameters, query, body.

The body is read on demand and only up to its limit. A request that announces a larger body is refused before any of it
is read.

Not here: slow bodies (`http.server`), the fields of a body (`http.documents`).
"""

from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from warren.admin.context import AdminContext
from warren.admin.http.authentication import ApiUser
from warren.admin.http.documents import document_in
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    body_too_large,
    created,
    malformed,
    no_content,
    not_found,
)
from warren.admin.peers import PeerQuery, QueryPart
from warren.broker.model.events import Command
from warren.broker.vhost import Vhost


class ApiRequest:
    """One request to one resource."""

    def __init__(self, request: Request, params: dict[str, str], context: AdminContext, body_bytes_max: int) -> None:
        self.request = request
        self.method: str = request.method
        # values of the names in the path's template
        self.params = params
        self.context = context
        # empty unless the resource requires a login
        self.api_user = ApiUser("", [], [])
        # the part that another node asks for; None for a client, which wants the whole cluster's answer
        self.part: QueryPart | None = None
        self._body_bytes_max = body_bytes_max

    @property
    def peer_host(self) -> str:
        return self.request.client.host if self.request.client is not None else ""

    def header(self, name: str) -> str:
        return str(self.request.headers.get(name, ""))

    @cached_property
    def query(self) -> dict[str, str]:
        """The query parameters; of a repeated one, the first."""
        text = self.request.scope["query_string"].decode("ascii", "replace")
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
        return dict(reversed(pairs))

    def peer_query(self, part: QueryPart) -> PeerQuery:
        """This request, to be sent to another node for its part of the response."""
        scope = self.request.scope
        reason = self.header("x-reason")
        return PeerQuery(self.method, scope["raw_path"], scope["query_string"], reason, self.api_user, part)

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    def vhost(self) -> Vhost:
        """The virtual host in the path; 404 if there is none."""
        vhost = self.context.broker.vhosts.get(self.params["vhost"])
        if vhost is None:
            raise not_found()
        return vhost

    def target_vhost(self) -> str:
        """The name of the virtual host to change. RabbitMQ words its 404 differently than for reads."""
        name = self.params["vhost"]
        if name not in self.context.broker.vhosts:
            raise HttpFault(404, "not_found", "vhost_not_found")
        return name

    def entered_vhosts(self) -> list[Vhost]:
        """The virtual hosts in which the user has permissions, sorted."""
        vhosts = self.context.broker.vhosts
        return [vhosts[name] for name in self.api_user.vhosts if name in vhosts]

    async def carry_out(self, command: Command) -> ApiResponse:
        """201 if the command created something, else 204."""
        return created() if await self.context.command_queue.carry_out(command) is True else no_content()

    async def body(self) -> bytes:
        announced = self.header("content-length")
        if announced.isdigit() and int(announced) > self._body_bytes_max:
            raise body_too_large(self._body_bytes_max)
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self.request.stream():
                size += len(part)
                if size > self._body_bytes_max:
                    raise body_too_large(self._body_bytes_max)
                parts.append(part)
        except ClientDisconnect:
            raise malformed() from None
        return b"".join(parts)

    async def form(self) -> dict[str, str]:
        """The body as form fields."""
        text = (await self.body()).decode("utf-8", "surrogateescape")
        return dict(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))

    async def document(self) -> dict[str, Any]:
        """The body as a JSON object."""
        return document_in(await self.body())
