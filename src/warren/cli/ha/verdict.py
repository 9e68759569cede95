"""Judges a deployment by what was observed: findings with a level.

`wrong` breaks the deployment, `warning` may break it some day, `remark` is worth knowing, `good` is as it should be.

Not here: observing (`cli.ha.probes`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.cli.ha.deployment import DISC, FITNESS_PATH, RAM, WITNESS, BrokerNode, Deployment, endpoint
from warren.cli.ha.observations import (
    AmqpProbeResult,
    ClusterObservation,
    EntryPoint,
    FitnessProbeResult,
    NodeObservation,
    Observations,
)

GOOD: Final = "good"
REMARK: Final = "remark"
WARNING: Final = "warning"
WRONG: Final = "wrong"


@dataclass(frozen=True)
class DeploymentFinding:
    """One sentence and its level."""

    level: str
    sentence: str


def good(sentence: str) -> DeploymentFinding:
    return DeploymentFinding(GOOD, sentence)


def remark(sentence: str) -> DeploymentFinding:
    return DeploymentFinding(REMARK, sentence)


def warning(sentence: str) -> DeploymentFinding:
    return DeploymentFinding(WARNING, sentence)


def wrong(sentence: str) -> DeploymentFinding:
    return DeploymentFinding(WRONG, sentence)


def listed(names: list[str], at_most: int = 5) -> str:
    """Names in a sentence; of many, the first ones and the number of the rest."""
    shown = names[:at_most]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


_CANNOT_AGREE = "nothing can be declared, bound or deleted"
Row = Mapping[str, Any]


def judge_cluster(deployment: Deployment, cluster: ClusterObservation) -> list[DeploymentFinding]:
    if cluster.refusal:
        refused = wrong(f"the cluster cannot be asked about its members and queues: {cluster.refusal}")
        return [refused, *judge_plan(deployment)]
    return [
        *_of_members(deployment, cluster),
        *_of_versions(cluster),
        *_of_disc_nodes({str(row["name"]): kind_of(row) for row in cluster.nodes}),
        *_of_queues(cluster),
        *_of_the_clients_address(deployment, cluster),
    ]


def judge_plan(deployment: Deployment) -> list[DeploymentFinding]:
    """Findings about a cluster that was not asked, by the node kinds in the deployment."""
    kinds = {node.name: node.kind for node in deployment.nodes}
    return list(_of_disc_nodes(kinds)) if len(kinds) > 1 else []


def _of_members(deployment: Deployment, cluster: ClusterObservation) -> Iterator[DeploymentFinding]:
    rows = {str(row["name"]): row for row in cluster.nodes}
    described = {node.name: node for node in deployment.nodes}
    for name in sorted(described.keys() - rows.keys()):
        yield wrong(
            f"node {name} is not a member of the cluster behind the balancers, whose members are {listed([*rows])}"
        )
    for name in sorted(rows.keys() - described.keys()):
        yield warning(
            f"node {name} is a member of the cluster, but the balancers do not use it: add it to the deployment, and "
            "render again"
        )
    for name, row in sorted(rows.items()):
        kind = kind_of(row)
        if not row.get("running"):
            yield wrong(
                f"node {name} {'is paused, cut off from the other nodes' if row.get('paused') else 'does not run'}"
            )
        if row.get("partitions"):
            yield wrong(f"node {name} is cut off from {listed([str(each) for each in row['partitions']])}")
        if name in described and described[name].kind != kind:
            yield warning(f"node {name} is {_kinds(kind)}, and {_kinds(described[name].kind)} in the deployment")


def kind_of(row: Row) -> str:
    return WITNESS if row.get("witness") else str(row.get("type", DISC))


def _kinds(kind: str) -> str:
    return {DISC: "a disc node", RAM: "a RAM node", WITNESS: "a witness"}.get(kind, kind)


def _of_versions(cluster: ClusterObservation) -> Iterator[DeploymentFinding]:
    versions: dict[str, list[str]] = {}
    for row in cluster.nodes:
        for application in row.get("applications", ()):
            if application.get("name") == "warren":
                versions.setdefault(str(application["version"]), []).append(str(row["name"]))
    if len(versions) > 1:
        listed_versions = "; ".join(f"{version} on {listed(names)}" for version, names in sorted(versions.items()))
        yield warning(f"the nodes run different versions: {listed_versions}")
    elif versions:
        yield good(f"all running nodes have version {next(iter(versions))}")


def _of_disc_nodes(kinds: Mapping[str, str]) -> Iterator[DeploymentFinding]:
    """Each disc node has an etcd member, and a majority of members decides."""
    discs = sorted(name for name, kind in kinds.items() if kind != RAM)
    if len(kinds) == 1:
        yield warning("there is one node: if it is lost, everything is lost")
    elif len(discs) == 1:
        yield warning(
            f"{discs[0]} is the only disc node: while it is down {_CANNOT_AGREE}, and with cluster_partition_handling "
            "= pause_minority every node pauses until it is back. No message is lost by that; with three disc nodes "
            "no node would pause"
        )
    elif len(discs) == 2:
        yield warning(
            f"there are two disc nodes, {listed(discs)}, and both must run: without one of them {_CANNOT_AGREE}. With "
            "a third one, which may be a witness, any one of them may be lost"
        )
    elif len(discs) % 2 == 0:
        yield remark(f"{len(discs)} disc nodes survive the loss of {len(discs) // 2 - 1}, as {len(discs) - 1} would")
    else:
        yield good(f"{len(discs)} disc nodes keep the definitions, and survive the loss of {len(discs) // 2} of them")


def _of_queues(cluster: ClusterObservation) -> Iterator[DeploymentFinding]:
    holders = [row for row in cluster.nodes if kind_of(row) != WITNESS]
    shared = [queue for queue in cluster.queues if not queue.get("exclusive")]
    if len(holders) < 2 or not shared:
        return
    alone = [_shown(queue) for queue in shared if not queue.get("slave_nodes")]
    behind = [
        _shown(queue) for queue in shared if queue.get("slave_nodes") and not queue.get("synchronised_slave_nodes")
    ]
    if alone:
        yield warning(
            f"{len(alone)} of {len(shared)} queues have no mirror, and are unavailable while their node is down: "
            f"{listed(alone)}. A policy with ha-mode mirrors them"
        )
    if behind:
        yield warning(
            f"{len(behind)} queues have no mirror in sync, and only their master has all messages: {listed(behind)}"
        )
    if not alone and not behind:
        yield good(f"all {len(shared)} queues have a mirror that is in sync")


def _shown(queue: Row) -> str:
    vhost = str(queue.get("vhost", "/"))
    return str(queue["name"]) if vhost == "/" else f"{queue['name']} in {vhost}"


def _of_the_clients_address(deployment: Deployment, cluster: ClusterObservation) -> Iterator[DeploymentFinding]:
    if cluster.login_refusal:
        yield warning(f"a client cannot log in through the virtual address as this user: {cluster.login_refusal}")
        return
    if not cluster.seen_from:
        return
    balancers = {balancer.address: balancer.name for balancer in deployment.balancers}
    if cluster.seen_from in balancers and cluster.seen_from != cluster.called_from:
        verb = "sends" if deployment.proxy_protocol else "would send"
        finding = wrong if deployment.proxy_protocol else remark
        yield finding(
            f"nodes see the balancer {balancers[cluster.seen_from]} as the client: neither side speaks the PROXY "
            f"protocol, with which HAProxy {verb} the client's address (send-proxy-v2, and proxy_protocol = true on "
            "the nodes)"
        )
    elif cluster.seen_from == cluster.called_from:
        yield good(f"nodes see clients with their own addresses: ours is {cluster.seen_from}")
    else:
        yield remark(
            f"nodes see this machine as {cluster.seen_from}, and its address is {cluster.called_from}: something in "
            "between changes it"
        )


CLOCKS_APART_S = 2.0
_PRODUCT = "Warren"
REFUSED = "connection refused"
LATE = "no answer"
_MISMATCH = (
    "HAProxy there finds no node that serves, or one side speaks the PROXY protocol and the other does not: compare "
    "send-proxy-v2 in haproxy.cfg with proxy_protocol and proxy_protocol.from.* in warren.conf"
)


def judge_deployment(deployment: Deployment, seen: Observations) -> list[DeploymentFinding]:
    """All findings in the order of a client's path: entry points, nodes, cluster."""
    found = [finding for entry_point in seen.entry_points for finding in _of_entry_point(deployment, entry_point)]
    for observed in seen.nodes:
        found += _of_node(deployment, observed, seen.cluster)
    found += _of_clocks(seen.nodes)
    found += judge_plan(deployment) if seen.cluster is None else judge_cluster(deployment, seen.cluster)
    return found


def _of_entry_point(deployment: Deployment, entry_point: EntryPoint) -> Iterator[DeploymentFinding]:
    for greeting in entry_point.greetings:
        yield _of_greeting(deployment, entry_point, greeting)
    for answer in entry_point.answers:
        yield from _of_answer(deployment, entry_point, answer)


def _called(entry_point: EntryPoint) -> str:
    return f"balancer {entry_point.balancer.name}" if entry_point.balancer is not None else "the virtual address"


def _of_greeting(deployment: Deployment, entry_point: EntryPoint, greeting: AmqpProbeResult) -> DeploymentFinding:
    who, where = _called(entry_point), endpoint(entry_point.address, greeting.port)
    if greeting.silent:
        return wrong(f"{who} accepts AMQP connections at {where} and closes them without an answer: {_MISMATCH}")
    if greeting.refusal:
        advice = _advice(deployment, entry_point, greeting)
        return wrong(f"{who} does not answer AMQP clients at {where} ({greeting.refusal}): {advice}")
    if greeting.product != _PRODUCT:
        reached = greeting.product or "an unknown program"
        return wrong(f"{who} forwards AMQP clients at {where} to {reached}, not to {_PRODUCT}")
    return good(f"{who} forwards AMQP clients at {where} to {greeting.product} {greeting.version}")


def _advice(deployment: Deployment, entry_point: EntryPoint, refused: AmqpProbeResult | FitnessProbeResult) -> str:
    if not refused.unreached and refused.refusal.startswith(LATE):
        return (
            "it accepts connections and does not answer: HAProxy hangs, has reached haproxy.maxconn, or forwards to a "
            "node that hangs"
        )
    if not refused.unreached:
        return "another program than HAProxy uses the port, or HAProxy does not forward to a node"
    if not all([each.refusal for each in entry_point.greetings] + [each.refusal for each in entry_point.answers]):
        return "HAProxy answers at another port there, so its haproxy.cfg lacks this one, or a firewall blocks it"
    if entry_point.balancer is not None:
        return "HAProxy does not run there, or a firewall blocks it"
    if refused.refusal == REFUSED:
        return "HAProxy does not listen on the machine that has the address, or a firewall refuses connections to it"
    names = " and ".join(balancer.name for balancer in deployment.balancers)
    return (
        f"no balancer has the address, or there is no route to it from here; see systemctl status keepalived on {names}"
    )


def _of_answer(
    deployment: Deployment, entry_point: EntryPoint, answer: FitnessProbeResult
) -> Iterator[DeploymentFinding]:
    who, where = _called(entry_point), endpoint(entry_point.address, answer.port)
    if answer.silent:
        yield wrong(f"{who} accepts HTTP connections at {where} and closes them without an answer: {_MISMATCH}")
        return
    if answer.refusal:
        advice = _advice(deployment, entry_point, answer)
        yield wrong(f"{who} does not answer over HTTP at {where} ({answer.refusal}): {advice}")
        return
    if not answer.standing:
        yield wrong(
            f"{who} answers {FITNESS_PATH} at {where} with status {answer.status}, not as a node would: {_MISMATCH}"
        )
        return
    yield good(f"{who} forwards HTTP clients at {where} to a node")
    yield from _of_identity(deployment, entry_point, answer)


def _of_identity(
    deployment: Deployment, entry_point: EntryPoint, answer: FitnessProbeResult
) -> Iterator[DeploymentFinding]:
    """Which balancer's haproxy.cfg responds; TLS that is passed through does not say."""
    known = [balancer.name for balancer in deployment.balancers]
    if not answer.balancer:
        return
    if entry_point.balancer is None and answer.balancer in known:
        yield good(f"the virtual address is on {answer.balancer}")
    elif answer.balancer not in known:
        yield wrong(
            f"{_called(entry_point)} is answered by a balancer {answer.balancer}, which is not in this deployment"
        )
    elif entry_point.balancer is not None and answer.balancer != entry_point.balancer.name:
        yield wrong(
            f"{entry_point.address} should be {entry_point.balancer.name} and says that it is {answer.balancer}: it "
            "has the haproxy.cfg of another machine, or the addresses are mixed up"
        )


def _of_node(
    deployment: Deployment, seen: NodeObservation, cluster: ClusterObservation | None
) -> Iterator[DeploymentFinding]:
    name, answer = seen.node.name, seen.answer
    where = endpoint(seen.node.address, answer.port)
    if answer.refusal:
        yield _unreached(seen, where, cluster, _is_a_balancer(deployment, seen.called_from))
        return
    if seen.wants_header:
        yield from _of_header(deployment, seen)
    if answer.status == 404 and not answer.standing:
        yield wrong(f"the server at {where} does not know {FITNESS_PATH}: it is not a node of this version")
        return
    if not answer.standing:
        yield wrong(f"node {name} answers {FITNESS_PATH} with status {answer.status}, without its fitness")
        return
    if answer.node != name:
        yield wrong(f"at {where} there is node {answer.node}, not {name}: addresses or names are mixed up")
        return
    yield _of_fitness(name, answer)
    if answer.standing != "unfit" and seen.greeting is not None:
        yield from _of_nodes_greeting(seen.node, seen.greeting, _is_a_balancer(deployment, seen.called_from))


def _is_a_balancer(deployment: Deployment, address: str) -> bool:
    return address in [balancer.address for balancer in deployment.balancers]


def _of_nodes_greeting(
    node: BrokerNode, greeting: AmqpProbeResult, from_a_balancer: bool
) -> Iterator[DeploymentFinding]:
    """For a node that reports that it serves: the balancers trust it and send it clients."""
    name, where = node.name, endpoint(node.address, greeting.port)
    if greeting.silent:
        yield wrong(
            f"node {name} accepts AMQP connections at {where} and closes them without an answer, with a PROXY header "
            "and without: clients that are sent there cannot connect; see its log"
        )
    elif greeting.unreached and greeting.refusal != REFUSED and not from_a_balancer:
        yield remark(
            f"node {name} cannot be reached for AMQP from here, at {where} ({greeting.refusal}); this is right if only "
            "the balancers may reach it"
        )
    elif greeting.refusal:
        yield wrong(
            f"node {name} reports that it serves, but does not answer AMQP clients at {where} ({greeting.refusal}): it "
            "listens at another address, another program uses the port, or a firewall blocks it"
        )
    elif greeting.product != _PRODUCT:
        yield wrong(f"at {where} AMQP clients reach {greeting.product or 'an unknown program'}, not {_PRODUCT}")


def _unreached(
    seen: NodeObservation, where: str, cluster: ClusterObservation | None, from_a_balancer: bool
) -> DeploymentFinding:
    """An unreachable node is fine if it runs, this machine is not a balancer, and only a firewall is in between."""
    name, answer = seen.node.name, seen.answer
    rows = cluster.nodes if cluster is not None else ()
    if answer.silent:
        return wrong(
            f"node {name} accepts HTTP connections at {where} and closes them without an answer, with a PROXY header "
            "and without: the health checks of the balancers fail there; see its log"
        )
    if not any(row.get("name") == name and row.get("running") for row in rows):
        unasked = "; with --user the other nodes are asked whether it runs" if cluster is None else ""
        return wrong(
            f"node {name} does not answer health checks at {where} ({answer.refusal}): it does not run, or a firewall "
            f"blocks it{unasked}"
        )
    if not answer.unreached or answer.refusal == REFUSED or from_a_balancer:
        return wrong(
            f"node {name} runs, according to the other nodes, but does not answer over HTTP at {where} "
            f"({answer.refusal}), so the health checks of the balancers fail: it listens at another address, or a "
            "firewall blocks it"
        )
    return remark(
        f"node {name} cannot be reached from here, at {where} ({answer.refusal}), but runs according to the other nodes"
    )


def _of_header(deployment: Deployment, seen: NodeObservation) -> Iterator[DeploymentFinding]:
    name = seen.node.name
    if not deployment.proxy_protocol:
        yield wrong(
            f"node {name} requires a PROXY header, and the balancers of this deployment send none: "
            "set proxy_protocol = false on the node, or true in the deployment and render again"
        )
    elif not _is_a_balancer(deployment, seen.called_from):
        yield warning(
            f"node {name} requires a PROXY header also from this machine, which is not a balancer, so any client can "
            "claim any address: name the balancers in proxy_protocol.from.*"
        )


def _of_fitness(name: str, answer: FitnessProbeResult) -> DeploymentFinding:
    why = " ".join(answer.reasons) or "it gives no reason"
    if answer.standing == "fit":
        return good(f"node {name} is fit")
    if answer.standing == "reluctant":
        return warning(f"node {name} accepts no new clients while other nodes do: {why}")
    return wrong(f"node {name} is unfit to serve clients: {why}")


def _of_clocks(nodes: tuple[NodeObservation, ...]) -> Iterator[DeploymentFinding]:
    clocks = sorted((seen.answer.ahead_s, seen.node.name) for seen in nodes if seen.answer.status)
    if not clocks:
        return
    (earliest, behind), (latest, ahead) = clocks[0], clocks[-1]
    if latest - earliest > CLOCKS_APART_S:
        yield warning(
            f"the clock of {ahead} is {latest - earliest:.0f} s ahead of that of {behind}: let NTP set both, or logs "
            "and timestamps of messages cannot be compared"
        )
    elif max(abs(earliest), abs(latest)) > CLOCKS_APART_S:
        yield remark(
            f"the nodes' clocks agree, but differ from the clock here by {max(abs(earliest), abs(latest)):.0f} s"
        )
