"""The Warren that is moved to, over its HTTP API: definitions are brought, shovels set and deleted, queues counted.

Not here: what is brought (`migrating.plan`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from warren.cli.migrate.http_side import HttpSide
from warren.cli.migrate.trouble import MoveFailed
from warren.migrating.counting import Side
from warren.migrating.definitions import Definition
from warren.migrating.plan import Plan
from warren.migrating.queues import FoundQueue, QueueName
from warren.migrating.shovels import (
    MARK,
    PREFIX,
    SHOVEL,
    exchange_name,
    is_marked,
    shovel_name,
    shovel_value,
    shovels_of_others,
)

ROAD = {"type": "fanout", "durable": True, "arguments": {**MARK, "alternate-exchange": ""}}
"""The exchange that leads to one queue. It has no alternate exchange, and no policy gives it one: what has no queue any
more would go there, and be acked at RabbitMQ."""


@dataclass(frozen=True)
class ShovelState:
    state: str
    reason: str


class Destination:
    """One node of it; it answers for its cluster."""

    def __init__(self, url: str, ca_file: str) -> None:
        self.http = HttpSide("Warren", url, ca_file)

    def amqp(self) -> str:
        """Where clients find it, as an address to be told."""
        listeners = self.http.get("overview").get("listeners", [])
        ports = [f"port {each['port']}" for each in listeners if each.get("protocol") in ("amqp", "amqp/ssl")]
        return " or ".join([self.http.host, *ports[:1]]).replace(" or ", ", ", 1)

    def definitions(self) -> dict[str, Any]:
        found = self.http.get("definitions")
        return found if isinstance(found, dict) else {}

    def exchanges(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get("exchanges", columns="vhost,name,arguments")
        return found

    def bring(self, plan: Plan) -> None:
        """Import what is missing, whole or not at all, and then each bridge on its own."""
        if plan.brought:
            self.http.post("definitions", body=plan.document())
        for bridge in plan.bridges:
            self._bring_bridge(bridge)

    def sides(self) -> dict[QueueName, Side]:
        """What every queue has, and what shovels of a move brought to it: no others publish to their exchanges."""
        brought = {
            (row["vhost"], row["name"]): int((row.get("message_stats") or {}).get("publish_out") or 0)
            for row in self.http.get("exchanges", columns="vhost,name,message_stats.publish_out")
        }
        sides: dict[QueueName, Side] = {}
        for row in self.http.get("queues", columns="vhost,name,messages,consumers"):
            queue = QueueName(row["vhost"], row["name"])
            came = brought.get((queue.vhost, exchange_name(queue)), 0)
            sides[queue] = Side(int(row.get("messages") or 0), came, consumers=int(row.get("consumers") or 0))
        return sides

    def carry(self, found: FoundQueue, source_uri: str) -> None:
        """Set a queue's shovel, and the exchange that leads to the queue."""
        queue = found.queue
        exchange = exchange_name(queue)
        self.http.put("exchanges", queue.vhost, exchange, body=ROAD)
        self.lead_to(queue)
        body = {"value": shovel_value(found, source_uri)}
        self.http.put("parameters", SHOVEL, queue.vhost, shovel_name(queue), body=body)

    def lead_to(self, queue: QueueName) -> None:
        """Bind the queue to its exchange. Who deletes a queue and makes it anew has lost the binding."""
        exchange = exchange_name(queue)
        self.http.post("bindings", queue.vhost, "e", exchange, "q", queue.name, body={"routing_key": ""})

    def stop_carrying(self, queue: QueueName) -> None:
        self.http.remove("parameters", SHOVEL, queue.vhost, shovel_name(queue))

    def tidy(self, queues: Iterable[QueueName]) -> None:
        """Delete the exchanges of queues that no shovel carries any more, and nobody's own."""
        there = {(row["vhost"], row["name"]) for row in self.exchanges() if is_marked(row.get("arguments"))}
        for queue in queues:
            if (queue.vhost, exchange_name(queue)) in there:
                self.http.remove("exchanges", queue.vhost, exchange_name(queue))

    def carried(self) -> list[QueueName]:
        """Queues whose shovels are there, from this move or from one before it."""
        rows = self.http.find("parameters", SHOVEL) or []
        if others := shovels_of_others(rows):
            raise MoveFailed(f"Warren has a shovel {others[0]} of somebody's own; names with {PREFIX} are taken")
        return [QueueName(row["vhost"], row["value"]["src-queue"]) for row in rows if row["name"].startswith(PREFIX)]

    def states(self, queues: Iterable[QueueName]) -> dict[QueueName, ShovelState]:
        """How the shovels of these queues are."""
        names = {(queue.vhost, shovel_name(queue)): queue for queue in queues}
        found: dict[QueueName, ShovelState] = {}
        for row in self.http.get("shovels"):
            queue = names.get((row.get("vhost", ""), row.get("name", "")))
            if queue is not None:
                found[queue] = ShovelState(str(row.get("state", "")), str(row.get("reason") or ""))
        return found

    def close(self) -> None:
        self.http.close()

    def _bring_bridge(self, bridge: Definition) -> None:
        component = str(bridge.value["component"])
        self.http.put("parameters", component, bridge.vhost, bridge.name, body={"value": bridge.value["value"]})
