"""A request as handlers see it: user, path parameters, query, body.

The body is read on demand and only up to its limit, which depends on the resource: little without a login, and much
only for definitions files and messages. A request that announces a larger body is refused before any of it is read.
Queries and forms have a limited number of fields. So reading a request holds the event loop for a short time only.

Not here: slow bodies (`http.server`), the fields of a body (`http.documents`).
"""

from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from warren.admin.context import AdminContext
from warren.admin.http.authentication import ApiUser
from warren.admin.http.documents import JsonValueCounter, document_in
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
from warren.admin.http.settings import DOCUMENT_BYTES_MAX, LARGE_DOCUMENT_VALUES_MAX, QUERY_FIELDS_MAX
from warren.admin.peers import PeerQuery, QueryPart
from warren.admin.time_slices import TimeSlicer
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
        self.body_bytes_max = body_bytes_max

    @property
    def peer_host(self) -> str:
        return self.request.client.host if self.request.client is not None else ""

    def header(self, name: str) -> str:
        return str(self.request.headers.get(name, ""))

    @cached_property
    def query(self) -> dict[str, str]:
        """The query parameters; of a repeated one, the first."""
        return dict(reversed(self.query_fields))

    @cached_property
    def query_fields(self) -> list[tuple[str, str]]:
        return fields_in(self.request.scope["query_string"].decode("ascii", "replace"))

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
        if announced.isdigit() and int(announced) > self.body_bytes_max:
            raise body_too_large(self.body_bytes_max)
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self.request.stream():
                size += len(part)
                if size > self.body_bytes_max:
                    raise body_too_large(self.body_bytes_max)
                parts.append(part)
        except ClientDisconnect:
            raise malformed() from None
        return b"".join(parts)

    async def form(self) -> dict[str, str]:
        """The body as form fields."""
        return dict(fields_in((await self.body()).decode("utf-8", "surrogateescape")))

    async def document(self) -> dict[str, Any]:
        """The body as a JSON object."""
        body = await self.body()
        if len(body) > DOCUMENT_BYTES_MAX:
            await _refuse_many_values(body)
        return document_in(body)


async def _refuse_many_values(body: bytes) -> None:
    """A large document is large because of a long text, and cheap to parse then."""
    pace, counter = TimeSlicer(), JsonValueCounter()
    for first in range(0, len(body), DOCUMENT_BYTES_MAX):
        counter.add(body[first : first + DOCUMENT_BYTES_MAX])
        if counter.count > LARGE_DOCUMENT_VALUES_MAX:
            raise bad_request(f"a document of this size may have {LARGE_DOCUMENT_VALUES_MAX} values at most")
        await pace.rest()


def fields_in(text: str) -> list[tuple[str, str]]:
    """The fields of a query or a form; a fault if there are too many."""
    if text.count("&") >= QUERY_FIELDS_MAX:
        raise bad_request(f"there are more than {QUERY_FIELDS_MAX} fields")
    return parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
