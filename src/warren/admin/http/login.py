"""Who sent a request: the header `authorization`, and nothing else.

Passwords are checked by the broker, as those of AMQP clients are. There is no cookie, so no session to steal.

Not here: what the user may do (`http.levels`).
"""

import base64
import binascii

from warren.admin.http.call import Call
from warren.admin.http.faults import login_failed, login_wanted, malformed, not_authorised
from warren.admin.http.visitor import Visitor


async def visitor_of(call: Call) -> Visitor:
    """The user behind a request, who may use the API; a fault if there is none."""
    user, password = credentials(call.header("authorization"))
    return await log_in(call, user, password)


async def log_in(call: Call, user: str, password: str) -> Visitor:
    """The user of these credentials; a fault that does not say which of them is wrong."""
    visitor = await call.station.accounts.visitor(user, password, call.peer_host)
    if not visitor.may_manage:
        raise not_authorised("Not management user")
    return visitor


def credentials(header: str) -> tuple[str, str]:
    """User and password of a basic authorization."""
    if not header:
        raise login_wanted()
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "bearer":
        raise login_failed()
    if scheme.lower() != "basic":
        raise malformed()
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise malformed() from None
    user, colon, password = text.partition(":")
    if not colon:
        raise malformed()
    return user, password
