"""All that a resource works on: the broker to read, the desk for changes, the node's facts, the history of figures,
the traces, the process itself, the nodes around it, and the bridges to other brokers.

Not here: the request (`http.call`).
"""

from dataclasses import dataclass

from warren.admin.accounts import Accounts
from warren.admin.bridges_port import BridgesPort
from warren.admin.cluster.peers import Peers
from warren.admin.desk import Desk
from warren.admin.direct_link import DirectLinks
from warren.admin.history_port import HistoryPort
from warren.admin.node_control import NodeControl
from warren.admin.node_facts import NodeFacts
from warren.admin.tracing.traces import Traces
from warren.broker.broker import Broker


@dataclass(frozen=True)
class Station:
    """One node, as its operators see it."""

    broker: Broker
    desk: Desk
    accounts: Accounts
    facts: NodeFacts
    history: HistoryPort
    links: DirectLinks
    control: NodeControl
    traces: Traces
    peers: Peers
    bridges: BridgesPort
