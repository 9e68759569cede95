"""Who the visitor is.

Not here: other users.
"""

from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.levels import manager
from warren.admin.http.router import Resource
from warren.admin.station import Station


def routes(station: Station) -> dict[str, Resource]:
    return {"/api/whoami": Resource(manager, {"GET": whoami})}


async def whoami(call: Call) -> Answer:
    return json_answer({"name": call.visitor.name, "tags": call.visitor.tags})
