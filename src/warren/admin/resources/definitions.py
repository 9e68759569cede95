"""Definitions, to take away.

Not here: bringing them.
"""

import re

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import bad_request
from warren.admin.http.levels import administrator
from warren.admin.http.router import Resource
from warren.admin.listing.rows import answer_object
from warren.admin.station import Station
from warren.admin.views import definitions

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.@ -]", re.ASCII)


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/definitions": Resource(administrator, {"GET": whole}),
        "/api/all-configuration": Resource(administrator, {"GET": whole}),
        "/api/definitions/{vhost}": Resource(administrator, {"GET": of_vhost}),
    }


async def whole(call: Call) -> Answer:
    return _to_keep(call, answer_object(call, definitions.whole(call.station.broker)))


async def of_vhost(call: Call) -> Answer:
    broker = call.station.broker
    vhost = broker.vhosts.get(call.params["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return _to_keep(call, answer_object(call, definitions.of_vhost(broker, vhost)))


def _to_keep(call: Call, answer: Answer) -> Answer:
    """`download=FILE` asks the browser to keep the answer under that name."""
    if "download" not in call.query:
        return answer
    name = _NOT_IN_FILE_NAMES.sub("_", call.query["download"])
    return Answer(
        answer.status, answer.body, answer.content_type, {"content-disposition": f'attachment; filename="{name}"'}
    )
