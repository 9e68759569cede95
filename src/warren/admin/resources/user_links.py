"""Direct links for HTTP requests, with AMQP faults as HTTP faults.

RabbitMQ's management words AMQP faults in two ways. For declaring, binding and deleting: the text alone, and `Access
refused.` for missing permissions. For messages: the code and its name before the text.

Not here: the link (`admin.direct_link`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from warren.admin.direct_link import DirectLink, LinkFault
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import HttpFault, bad_request, not_authorised
from warren.errors import ACCESS_REFUSED, NOT_ALLOWED, NOT_FOUND, REPLY_NAMES


@asynccontextmanager
async def topology_link(call: ApiRequest) -> AsyncIterator[DirectLink]:
    """A link into the virtual host of the path, for declaring, binding and deleting."""
    vhost = call.target_vhost()
    try:
        async with call.context.links.open(call.api_user.identity, vhost) as link:
            yield link
    except LinkFault as fault:
        raise _of_topology(fault) from fault


@asynccontextmanager
async def message_link(call: ApiRequest) -> AsyncIterator[DirectLink]:
    """A link for publishing and getting."""
    try:
        async with call.context.links.open(call.api_user.identity, call.params["vhost"]) as link:
            yield link
    except LinkFault as fault:
        if fault.code == NOT_ALLOWED:
            raise not_authorised("Access refused.") from fault
        raise bad_request(f"{fault.code} {REPLY_NAMES[fault.code]} - {fault.text}") from fault


def _of_topology(fault: LinkFault) -> HttpFault:
    if fault.code in (ACCESS_REFUSED, NOT_ALLOWED):
        return not_authorised("Access refused.")
    if fault.code == NOT_FOUND:
        return HttpFault(404, "not_found", fault.text)
    return bad_request(fault.text)
