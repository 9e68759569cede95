"""Requests that a browser sends on behalf of a page of another site.

A browser that knows a password for this node adds it to every request, whichever page asks. So a request that may
change something is refused if the browser says that it comes from elsewhere: by `sec-fetch-site`, which pages cannot
forge, or, from older browsers, by `origin`. Both are absent from what is no browser. Which content type a request has
says nothing: scripts send JSON under any.

Origins that the configuration names (`management.cors.allow_origins`) may do everything, as in RabbitMQ; only they
are given leave to read answers.

Not here: what pages of this node may load (`http.application`).
"""

from warren.admin.http.call import Call
from warren.admin.http.faults import cross_site
from warren.admin.http.settings import CrossOrigin

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def leave_to_read(call: Call, cross_origin: CrossOrigin) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer."""
    origin = call.header("origin")
    if not cross_origin.allows(origin):
        return {}
    headers = {
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "location, x-silent-nodes",
    }
    if call.method == "OPTIONS":
        headers["access-control-max-age"] = str(cross_origin.max_age_s)
        headers["access-control-allow-methods"] = call.header("access-control-request-method")
        headers["access-control-allow-headers"] = call.header("access-control-request-headers")
    return {name: value for name, value in headers.items() if value}


def refuse_cross_site(call: Call, cross_origin: CrossOrigin) -> None:
    """A fault if a page of another site asks."""
    origin = call.header("origin")
    if cross_origin.allows(origin):
        return
    site = call.header("sec-fetch-site")
    if site:
        if site not in ("same-origin", "none"):
            raise cross_site()
    elif origin and not _same_host(origin, call.header("host")):
        raise cross_site()


def _same_host(origin: str, host: str) -> bool:
    """Schemes may differ: before the node may stand somebody who speaks TLS for it."""
    scheme, _, place = origin.lower().partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme, "")
    return place.removesuffix(port) == host.lower().removesuffix(port)
