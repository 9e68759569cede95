"""Whether a node should receive clients from a load balancer, and the alarms of nodes.

    fit        send clients here
    reluctant  existing clients are served; new ones should go elsewhere
    unfit      no clients are served

Reasons:

- *Unfit:* `starting`, `stopped` (`stop_app`), `paused` (cut off from the majority). A node that is stopping or gone
  does not respond at all.
- *Reluctant:* `memory_alarm` and `disk_alarm` of this node: publishers are blocked, but consumers must stay, because
  they end the alarm. `draining`: an operator wants no new clients. `behind`: no contact with the metadata store for
  seconds, so nothing can be declared. `catching_up`: this node's mirrors are being synchronised.
- *Not a reason:* a mirror that waits for an operator to synchronise it, perhaps for ever; an alarm of another node,
  which blocks publishers everywhere.

A node's publishers also wait for alarms of other nodes, but each node reports only its own alarm.

Not here: the paths (`resources.health`, `node.cluster.control_endpoint`), when an alarm is raised (`broker.alarms`),
how nodes share alarms (`broker.cluster.peer_notices`).
"""

from dataclasses import dataclass
from typing import Any

from warren.admin.http.settings import FITNESS_PATH
from warren.admin.ports import NodeFacts
from warren.broker.broker import Broker

RESOURCES = ("memory", "disk")


def own_alarm(broker: Broker) -> str:
    """The resources this node is short of, in words; empty for none."""
    return broker.alarm if broker.cluster is None else broker.cluster.notices.own_alarm


def local_alarms(broker: Broker) -> list[dict[str, str]]:
    return _alarm_rows(broker.settings.node_name, own_alarm(broker))


def cluster_alarms(broker: Broker) -> list[dict[str, str]]:
    """The alarms of this node and of all nodes linked to it."""
    rows = local_alarms(broker)
    if broker.cluster is not None:
        for node, reason in sorted(broker.cluster.notices.alarms.items()):
            rows += _alarm_rows(node, reason)
    return rows


def _alarm_rows(node: str, alarm: str) -> list[dict[str, str]]:
    return [{"node": node, "resource": resource} for resource in RESOURCES if resource in alarm]


PATH = FITNESS_PATH
FIT = "fit"
RELUCTANT = "reluctant"
UNFIT = "unfit"
FIT_STATUS = 200
UNFIT_STATUS = 503
RELUCTANT_STATUSES = {"200": 200, "404": 404, "503": UNFIT_STATUS}
"""The statuses that a caller may choose for a reluctant node. To HAProxy, 404 means: no new clients."""

_UNFIT_CODES = ("starting", "stopped", "paused")


@dataclass(frozen=True)
class FitnessReason:
    """A reason against sending clients here: a code for programs, a sentence for people."""

    code: str
    sentence: str


def reasons_of(broker: Broker, facts: NodeFacts, syncs: int = 0) -> list[FitnessReason]:
    """All reasons of a running node; `syncs` is the number of its mirrors that are being synchronised."""
    found = [*_of_cluster(broker, facts.now_ms()), *_of_alarm(own_alarm(broker)), *_of_operator(facts.draining)]
    return [*found, *_of_mirrors(syncs)]


def standing_of(reasons: list[FitnessReason]) -> str:
    if any(reason.code in _UNFIT_CODES for reason in reasons):
        return UNFIT
    return RELUCTANT if reasons else FIT


def status_of(reasons: list[FitnessReason], reluctant: int = UNFIT_STATUS) -> int:
    """The HTTP status; `reluctant` is the one for a reluctant node."""
    return {FIT: FIT_STATUS, RELUCTANT: reluctant, UNFIT: UNFIT_STATUS}[standing_of(reasons)]


def fitness_row(node: str, reasons: list[FitnessReason]) -> dict[str, Any]:
    rows = [{"code": reason.code, "sentence": reason.sentence} for reason in reasons]
    return {"status": standing_of(reasons), "node": node, "reasons": rows}


def _of_cluster(broker: Broker, now_ms: int) -> list[FitnessReason]:
    cluster = broker.cluster
    if cluster is None:
        return []
    if cluster.membership.paused:
        return [FitnessReason("paused", "It is cut off from the majority of its cluster and serves no clients.")]
    if cluster.shared.is_stale(now_ms):
        return [
            FitnessReason(
                "behind", "It has had no contact with the metadata store for seconds; nothing can be declared."
            )
        ]
    return []


def _of_alarm(alarm: str) -> list[FitnessReason]:
    held_back = "so publishers wait"
    found = []
    if "memory" in alarm:
        found.append(FitnessReason("memory_alarm", f"It uses more memory than it may, {held_back}."))
    if "disk" in alarm:
        found.append(FitnessReason("disk_alarm", f"It has less free disk space than it needs, {held_back}."))
    return found


def _of_operator(draining: bool) -> list[FitnessReason]:
    return [FitnessReason("draining", "An operator drains it.")] if draining else []


def _of_mirrors(syncs: int) -> list[FitnessReason]:
    queues = "a queue" if syncs == 1 else f"{syncs} queues"
    return [FitnessReason("catching_up", f"Its mirrors of {queues} are being synchronised.")] if syncs else []
