"""Whether a node is fit to serve clients, as a load balancer asks: three standings, and the reasons in words.

    fit        send clients here
    reluctant  who is here is served, but those who come had better go elsewhere
    unfit      nobody is served here

Which reason makes which standing:

- *Unfit:* `starting`, `stopped` (`stop_app`), `paused` (cut off from too many others). A node that is stopping, or is
  gone, does not answer at all.
- *Reluctant:* `memory_alarm` and `disk_alarm` of this node: its publishers wait, and so would one who comes; but its
  consumers are what ends the alarm, and have to be left alone. `draining`: an operator wants it empty. `behind`: it has
  not heard from the metadata store for seconds; clients go on with what there is, but can declare nothing.
  `catching_up`: its mirrors are being synchronised, which is work enough, and a node that came back may soon be wanted
  for that alone.
- *No reason:* a mirror that is not in sync, and waits for somebody to order it: that may be for ever. Nor an alarm of
  another node, which holds back publishers everywhere.

Not here: the paths (`resources.health`, `node.cluster.control_endpoint`), RabbitMQ's checks (`resources.health`).

Which nodes are short of memory or disk space.

A node's publishers also wait on account of others; what a node tells of itself is its own alarm.

Not here: when an alarm is raised (`broker.alarms`), how nodes hear of each other's (`broker.cluster.peer_notices`).
"""

from dataclasses import dataclass
from typing import Any

from warren.admin.http.settings import FITNESS_PATH
from warren.admin.ports import NodeFacts
from warren.broker.broker import Broker

RESOURCES = ("memory", "disk")


def own_alarm(broker: Broker) -> str:
    """What this node itself is short of, in words; empty for nothing."""
    return broker.alarm if broker.cluster is None else broker.cluster.notices.own_alarm


def local_alarms(broker: Broker) -> list[dict[str, str]]:
    return _alarm_rows(broker.settings.node_name, own_alarm(broker))


def cluster_alarms(broker: Broker) -> list[dict[str, str]]:
    """Those of this node and of all that it is linked to."""
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
"""What whoever asks may want to hear of a node that is reluctant. To HAProxy, 404 means: nobody new."""

_UNFIT_CODES = ("starting", "stopped", "paused")


@dataclass(frozen=True)
class FitnessReason:
    """Against sending clients to a node: a word for programs, a sentence for people."""

    code: str
    sentence: str


def reasons_of(broker: Broker, facts: NodeFacts, syncs: int = 0) -> list[FitnessReason]:
    """All that speaks against a node that runs, and has so many queues synchronised to it."""
    found = [*_of_cluster(broker, facts.now_ms()), *_of_alarm(own_alarm(broker)), *_of_operator(facts.draining)]
    return [*found, *_of_mirrors(syncs)]


def standing_of(reasons: list[FitnessReason]) -> str:
    if any(reason.code in _UNFIT_CODES for reason in reasons):
        return UNFIT
    return RELUCTANT if reasons else FIT


def status_of(reasons: list[FitnessReason], reluctant: int = UNFIT_STATUS) -> int:
    """What to answer with; `reluctant`: of a node that serves, and would rather have nobody new."""
    return {FIT: FIT_STATUS, RELUCTANT: reluctant, UNFIT: UNFIT_STATUS}[standing_of(reasons)]


def fitness_row(node: str, reasons: list[FitnessReason]) -> dict[str, Any]:
    told = [{"code": reason.code, "sentence": reason.sentence} for reason in reasons]
    return {"status": standing_of(reasons), "node": node, "reasons": told}


def _of_cluster(broker: Broker, now_ms: int) -> list[FitnessReason]:
    cluster = broker.cluster
    if cluster is None:
        return []
    if cluster.membership.paused:
        return [FitnessReason("paused", "It is cut off from too many nodes of its cluster, and serves nobody.")]
    if cluster.shared.is_stale(now_ms):
        return [
            FitnessReason("behind", "It has not heard from the metadata store for seconds; nothing can be declared.")
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
    return [FitnessReason("draining", "An operator wants it to have no new clients.")] if draining else []


def _of_mirrors(syncs: int) -> list[FitnessReason]:
    queues = "a queue" if syncs == 1 else f"{syncs} queues"
    return [FitnessReason("catching_up", f"Its mirrors of {queues} are being synchronised.")] if syncs else []
