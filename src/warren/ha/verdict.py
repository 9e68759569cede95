"""What is wrong with a deployment, judged by what was seen of it from outside.

Not here: what the cluster tells of itself (`ha.cluster_verdict`).
"""

from collections.abc import Iterator

from warren.ha.cluster_verdict import judge_cluster, judge_plan
from warren.ha.deployment import FITNESS_PATH, BrokerNode, Deployment, endpoint
from warren.ha.findings import Finding, good, remark, warning, wrong
from warren.ha.sightings import Answer, ClusterSighting, Door, Greeting, NodeSighting, Sightings

CLOCKS_APART_S = 2.0
_PRODUCT = "Warren"
REFUSED = "connection refused"
LATE = "no answer"
_MISMATCH = (
    "HAProxy there finds no node that serves, or one side speaks the PROXY protocol and the other does not: compare "
    "send-proxy-v2 in haproxy.cfg with proxy_protocol and proxy_protocol.from.* in warren.conf"
)


def judge(deployment: Deployment, seen: Sightings) -> list[Finding]:
    """All findings, in the order of a client's way: doors, nodes, cluster."""
    found = [finding for door in seen.doors for finding in _of_door(deployment, door)]
    for sighting in seen.nodes:
        found += _of_node(deployment, sighting, seen.cluster)
    found += _of_clocks(seen.nodes)
    found += judge_plan(deployment) if seen.cluster is None else judge_cluster(deployment, seen.cluster)
    return found


def _of_door(deployment: Deployment, door: Door) -> Iterator[Finding]:
    for greeting in door.greetings:
        yield _of_greeting(deployment, door, greeting)
    for answer in door.answers:
        yield from _of_answer(deployment, door, answer)


def _called(door: Door) -> str:
    return f"balancer {door.balancer.name}" if door.balancer is not None else "the virtual address"


def _of_greeting(deployment: Deployment, door: Door, greeting: Greeting) -> Finding:
    who, where = _called(door), endpoint(door.address, greeting.port)
    if greeting.silent:
        return wrong(f"{who} takes AMQP connections at {where} and closes them without a word: {_MISMATCH}")
    if greeting.refusal:
        advice = _advice(deployment, door, greeting)
        return wrong(f"{who} does not answer AMQP clients at {where} ({greeting.refusal}): {advice}")
    if greeting.product != _PRODUCT:
        return wrong(f"{who} leads AMQP clients at {where} to {greeting.product or 'something'}, and not to {_PRODUCT}")
    return good(f"{who} leads AMQP clients at {where} to {greeting.product} {greeting.version}")


def _advice(deployment: Deployment, door: Door, refused: Greeting | Answer) -> str:
    if not refused.unreached and refused.refusal.startswith(LATE):
        return (
            "it takes connections and says nothing: HAProxy hangs, or has as many clients as haproxy.maxconn allows, "
            "or leads to a node that hangs"
        )
    if not refused.unreached:
        return "something else than HAProxy has the port, or leads elsewhere than to a node"
    if not all([each.refusal for each in door.greetings] + [each.refusal for each in door.answers]):
        return "HAProxy answers at another port there, so its haproxy.cfg lacks this one, or a firewall keeps it shut"
    if door.balancer is not None:
        return "HAProxy does not run there, or a firewall is in between"
    if refused.refusal == REFUSED:
        return "the machine that has the address has no HAProxy that listens, or a firewall refuses in its name"
    names = " and ".join(balancer.name for balancer in deployment.balancers)
    return (
        f"no balancer has the address, or no way leads there from here; look at systemctl status keepalived on {names}"
    )


def _of_answer(deployment: Deployment, door: Door, answer: Answer) -> Iterator[Finding]:
    who, where = _called(door), endpoint(door.address, answer.port)
    if answer.silent:
        yield wrong(f"{who} takes HTTP connections at {where} and closes them without a word: {_MISMATCH}")
        return
    if answer.refusal:
        advice = _advice(deployment, door, answer)
        yield wrong(f"{who} does not answer over HTTP at {where} ({answer.refusal}): {advice}")
        return
    if not answer.standing:
        yield wrong(
            f"{who} answers {FITNESS_PATH} at {where} with status {answer.status}, not as a node would: {_MISMATCH}"
        )
        return
    yield good(f"{who} leads HTTP clients at {where} to a node")
    yield from _of_identity(deployment, door, answer)


def _of_identity(deployment: Deployment, door: Door, answer: Answer) -> Iterator[Finding]:
    """Whose haproxy.cfg it is; TLS that is passed on says nothing of it."""
    known = [balancer.name for balancer in deployment.balancers]
    if not answer.balancer:
        return
    if door.balancer is None and answer.balancer in known:
        yield good(f"the virtual address is on {answer.balancer}")
    elif answer.balancer not in known:
        yield wrong(f"{_called(door)} is answered by a balancer {answer.balancer}, which is none of this deployment's")
    elif door.balancer is not None and answer.balancer != door.balancer.name:
        yield wrong(
            f"{door.address} should be {door.balancer.name} and says that it is {answer.balancer}: it has the "
            "haproxy.cfg of another machine, or the addresses are mixed up"
        )


def _of_node(deployment: Deployment, seen: NodeSighting, cluster: ClusterSighting | None) -> Iterator[Finding]:
    name, answer = seen.node.name, seen.answer
    where = endpoint(seen.node.address, answer.port)
    if answer.refusal:
        yield _unreached(seen, where, cluster, _is_a_balancer(deployment, seen.called_from))
        return
    if seen.wants_header:
        yield from _of_header(deployment, seen)
    if answer.status == 404 and not answer.standing:
        yield wrong(f"whatever answers at {where} does not know {FITNESS_PATH}: it is no node of this version")
        return
    if not answer.standing:
        yield wrong(f"node {name} answers {FITNESS_PATH} with status {answer.status}, and not how it is")
        return
    if answer.node != name:
        yield wrong(f"at {where} there is node {answer.node}, not {name}: addresses or names are mixed up")
        return
    yield _of_fitness(name, answer)
    if answer.standing != "unfit" and seen.greeting is not None:
        yield from _of_nodes_greeting(seen.node, seen.greeting, _is_a_balancer(deployment, seen.called_from))


def _is_a_balancer(deployment: Deployment, address: str) -> bool:
    return address in [balancer.address for balancer in deployment.balancers]


def _of_nodes_greeting(node: BrokerNode, greeting: Greeting, from_a_balancer: bool) -> Iterator[Finding]:
    """Of one that says it serves: balancers believe that, and lead clients to it."""
    name, where = node.name, endpoint(node.address, greeting.port)
    if greeting.silent:
        yield wrong(
            f"node {name} takes AMQP connections at {where} and closes them without a word, with a PROXY header and "
            "without: clients that are led there get nowhere; look at its log"
        )
    elif greeting.unreached and greeting.refusal != REFUSED and not from_a_balancer:
        yield remark(
            f"node {name} cannot be reached for AMQP from here, at {where} ({greeting.refusal}), which is as it should "
            "be if only the balancers may"
        )
    elif greeting.refusal:
        yield wrong(
            f"node {name} says that it serves, and does not answer AMQP clients at {where} ({greeting.refusal}): it "
            "listens elsewhere, something else has the port, or a firewall is in between"
        )
    elif greeting.product != _PRODUCT:
        yield wrong(f"at {where} AMQP clients find {greeting.product or 'something'}, and not {_PRODUCT}")


def _unreached(seen: NodeSighting, where: str, cluster: ClusterSighting | None, from_a_balancer: bool) -> Finding:
    """One that runs is well if nothing but a firewall keeps us, who are no balancer, from it."""
    name, answer = seen.node.name, seen.answer
    rows = cluster.nodes if cluster is not None else ()
    if answer.silent:
        return wrong(
            f"node {name} takes HTTP connections at {where} and closes them without a word, with a PROXY header and "
            "without: balancers that ask it there how it is take it for lost; look at its log"
        )
    if not any(row.get("name") == name and row.get("running") for row in rows):
        unasked = "; with --user the others are asked whether it runs" if cluster is None else ""
        return wrong(
            f"node {name} cannot be asked how it is, at {where} ({answer.refusal}): it does not run, or a firewall is "
            f"in between{unasked}"
        )
    if not answer.unreached or answer.refusal == REFUSED or from_a_balancer:
        return wrong(
            f"node {name} runs, as the others say, but does not answer over HTTP at {where} ({answer.refusal}), where "
            "balancers ask it how it is, so they take it for lost: it listens elsewhere, or a firewall is in between"
        )
    return remark(f"node {name} cannot be asked from here, at {where} ({answer.refusal}); the others say that it runs")


def _of_header(deployment: Deployment, seen: NodeSighting) -> Iterator[Finding]:
    name = seen.node.name
    if not deployment.proxy_protocol:
        yield wrong(
            f"node {name} wants a PROXY header, and the balancers of this deployment send none: "
            "set proxy_protocol = false there, or true in the deployment and render again"
        )
    elif not _is_a_balancer(deployment, seen.called_from):
        yield warning(
            f"node {name} wants a PROXY header from us, who are no balancer, so everybody who reaches it can claim any "
            "address: name the balancers in proxy_protocol.from.*"
        )


def _of_fitness(name: str, answer: Answer) -> Finding:
    why = " ".join(answer.reasons) or "it does not say why"
    if answer.standing == "fit":
        return good(f"node {name} is fit")
    if answer.standing == "reluctant":
        return warning(f"node {name} takes no new clients while others do: {why}")
    return wrong(f"node {name} is unfit to serve clients: {why}")


def _of_clocks(nodes: tuple[NodeSighting, ...]) -> Iterator[Finding]:
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
            f"the nodes' clocks agree, but differ from the one here by {max(abs(earliest), abs(latest)):.0f} s"
        )
