"""A traced virtual host, and a consumer of its traces."""

from tests.support.core_driver import Core
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.properties import decode_properties

TRACE = "amq.rabbitmq.trace"


class Traced:
    """A traced virtual host with a queue, and a consumer of its traces."""

    def __init__(self) -> None:
        self.core = Core()
        self.vhost = self.core.broker.vhosts["/"]
        self.vhost.set_tracing(True)
        self.client = self.core.client()
        self.client.declare("q")
        self.listener = self.core.client()
        self.listener.declare("traces")
        self.listener.bind("traces", TRACE, "#")
        self.listener.consume("traces", no_ack=True)
        self.listener.heard()

    def traces(self) -> list[tuple[str, bytes]]:
        return [(key_of(one), one.body) for one in self.listener.heard()]

    def headers(self) -> list[Table]:
        return [headers_of(one) for one in self.listener.heard()]


def key_of(heard: ReceivedMethod) -> str:
    return str(getattr(heard.method, "routing_key", ""))


def headers_of(heard: ReceivedMethod) -> Table:
    headers = decode_properties(heard.header, 0, len(heard.header)).headers
    assert headers is not None
    return headers
