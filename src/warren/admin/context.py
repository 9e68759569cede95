"""What handlers work with: the broker, the command queue, facts of the node, history, traces, peers, bridges.

Not here: the request (`http.request`).
"""

from dataclasses import dataclass

from warren.admin.command_queue import CommandQueue
from warren.admin.direct_link import DirectLinks
from warren.admin.http.authentication import Authenticator
from warren.admin.http.settings import PagesLogin
from warren.admin.peers import Peers
from warren.admin.ports import BridgesPort, HistoryPort, NodeControl, NodeFacts
from warren.admin.tracing.traces import Traces
from warren.broker.broker import Broker


@dataclass(frozen=True)
class AdminContext:
    """One node, as its operators see it."""

    broker: Broker
    command_queue: CommandQueue
    authenticator: Authenticator
    facts: NodeFacts
    history: HistoryPort
    links: DirectLinks
    control: NodeControl
    traces: Traces
    peers: Peers
    bridges: BridgesPort
    pages_login: PagesLogin
