"""All that a resource works on: the broker to read, the desk for changes, the node's facts, the history of figures,
the traces, the process itself, the nodes around it, and the bridges to other brokers.

Not here: the request (`http.call`).
"""

from dataclasses import dataclass

from warren.admin.command_queue import CommandQueue
from warren.admin.direct_link import DirectLinks
from warren.admin.http.authentication import Authenticator
from warren.admin.peers import Peers
from warren.admin.ports import BridgesPort, HistoryPort, NodeControl, NodeFacts
from warren.admin.tracing.traces import Traces
from warren.broker.broker import Broker


@dataclass(frozen=True)
class AdminContext:
    """One node, as its operators see it."""

    broker: Broker
    command_queue: CommandQueue
    accounts: Authenticator
    facts: NodeFacts
    history: HistoryPort
    links: DirectLinks
    control: NodeControl
    traces: Traces
    peers: Peers
    bridges: BridgesPort
