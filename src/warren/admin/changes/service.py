"""What keeps a node in service: a message sent through it, and orders that a node alone has little to do for.

Not here: health checks that only look (`resources.health`).
"""

from warren.admin.direct_link import LinkFault
from warren.admin.http.answers import Answer, json_answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request, not_authorised
from warren.admin.http.levels import administrator, in_vhost
from warren.admin.http.router import Resource
from warren.admin.resources.node import FEATURE_FLAGS
from warren.admin.station import Station
from warren.broker.commands import RebalanceQueues
from warren.errors import ACCESS_REFUSED, REPLY_NAMES
from warren.wire.methods import BasicGet, BasicGetEmpty, BasicGetOk, QueueDeclare, QueueDeclareOk
from warren.wire.properties import Properties

ALIVENESS_QUEUE = "aliveness-test"


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/aliveness-test/{vhost}": Resource(in_vhost, {"GET": aliveness}),
        "/api/rebalance/queues": Resource(administrator, {"POST": rebalance}),
        "/api/feature-flags/{name}/enable": Resource(administrator, {"PUT": enable_feature}),
    }


async def aliveness(call: Call) -> Answer:
    """A queue is declared, a message published into it and taken out again; the queue stays, as in RabbitMQ."""
    vhost = call.vhost().name
    try:
        async with call.station.links.open(call.visitor.name, vhost) as link:
            await link.ask(QueueDeclare(ALIVENESS_QUEUE), QueueDeclareOk)
            await link.publish("", ALIVENESS_QUEUE, Properties(), b"test_message")
            heard = await link.ask_either(BasicGet(ALIVENESS_QUEUE, True), BasicGetOk, BasicGetEmpty)
    except LinkFault as fault:
        text = f"{REPLY_NAMES[fault.code]} - {fault.text}"
        raise (not_authorised(text) if fault.code == ACCESS_REFUSED else bad_request(f"{fault.code} {text}")) from fault
    if not isinstance(heard.method, BasicGetOk):
        raise HttpFault(503, "service_unavailable", f"the message did not come back from queue '{ALIVENESS_QUEUE}'")
    return json_answer({"status": "ok"})


async def rebalance(call: Call) -> Answer:
    """Masters of mirrored queues are spread evenly; all queues of a node alone are where they belong."""
    await call.station.desk.carry_out(RebalanceQueues())
    return no_content()


async def enable_feature(call: Call) -> Answer:
    """They are all enabled."""
    if call.params["name"] not in FEATURE_FLAGS:
        raise bad_request("unsupported")
    return no_content()
