"""What is wrong with the cluster behind the balancers, judged by what it tells of itself.

Not here: whether clients get there (`ha.verdict`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from warren.ha.deployment import DISC, RAM, WITNESS, Deployment
from warren.ha.findings import Finding, good, listed, remark, warning, wrong
from warren.ha.sightings import ClusterSighting

_CANNOT_AGREE = "nothing can be declared, bound or deleted"
Row = Mapping[str, Any]


def judge_cluster(deployment: Deployment, cluster: ClusterSighting) -> list[Finding]:
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


def judge_plan(deployment: Deployment) -> list[Finding]:
    """What can be said of a cluster that was not asked, by the kinds of its nodes in the deployment."""
    kinds = {node.name: node.kind for node in deployment.nodes}
    return list(_of_disc_nodes(kinds)) if len(kinds) > 1 else []


def _of_members(deployment: Deployment, cluster: ClusterSighting) -> Iterator[Finding]:
    rows = {str(row["name"]): row for row in cluster.nodes}
    described = {node.name: node for node in deployment.nodes}
    for name in sorted(described.keys() - rows.keys()):
        yield wrong(
            f"node {name} is no member of the cluster that the balancers lead to, whose members are {listed([*rows])}"
        )
    for name in sorted(rows.keys() - described.keys()):
        yield warning(f"node {name} is a member of the cluster, but no client is led there: add it, and render again")
    for name, row in sorted(rows.items()):
        kind = kind_of(row)
        if not row.get("running"):
            yield wrong(f"node {name} {'is paused, cut off from the others' if row.get('paused') else 'does not run'}")
        if row.get("partitions"):
            yield wrong(f"node {name} is cut off from {listed([str(each) for each in row['partitions']])}")
        if name in described and described[name].kind != kind:
            yield warning(f"node {name} is {_kinds(kind)}, and {_kinds(described[name].kind)} in the deployment")


def kind_of(row: Row) -> str:
    return WITNESS if row.get("witness") else str(row.get("type", DISC))


def _kinds(kind: str) -> str:
    return {DISC: "a disc node", RAM: "a RAM node", WITNESS: "a witness"}.get(kind, kind)


def _of_versions(cluster: ClusterSighting) -> Iterator[Finding]:
    versions: dict[str, list[str]] = {}
    for row in cluster.nodes:
        for application in row.get("applications", ()):
            if application.get("name") == "warren":
                versions.setdefault(str(application["version"]), []).append(str(row["name"]))
    if len(versions) > 1:
        told = "; ".join(f"{version} on {listed(names)}" for version, names in sorted(versions.items()))
        yield warning(f"the nodes are of different versions: {told}")
    elif versions:
        yield good(f"all nodes that run are of version {next(iter(versions))}")


def _of_disc_nodes(kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Each disc node has a member of etcd, and a majority of them decides."""
    discs = sorted(name for name, kind in kinds.items() if kind != RAM)
    if len(kinds) == 1:
        yield warning("there is one node: nothing outlives its loss")
    elif len(discs) == 1:
        yield warning(
            f"{discs[0]} is the only disc node: while it is away {_CANNOT_AGREE}, and with cluster_partition_handling "
            "= pause_minority every node pauses until it is back. Nothing is lost by that; with three disc nodes "
            "nothing would pause"
        )
    elif len(discs) == 2:
        yield warning(
            f"there are two disc nodes, {listed(discs)}, and both must be there: without one of them {_CANNOT_AGREE}. "
            "With a third one, if only a witness, any of them may be lost"
        )
    elif len(discs) % 2 == 0:
        yield remark(f"{len(discs)} disc nodes outlive the loss of {len(discs) // 2 - 1}, as {len(discs) - 1} would")
    else:
        yield good(f"{len(discs)} disc nodes keep the definitions, and outlive the loss of {len(discs) // 2} of them")


def _of_queues(cluster: ClusterSighting) -> Iterator[Finding]:
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
            f"{len(alone)} of {len(shared)} queues have no mirror, and are away while their node is: {listed(alone)}. "
            "A policy with ha-mode mirrors them"
        )
    if behind:
        yield warning(
            f"{len(behind)} queues have no mirror in sync, and their node is the only one with all: {listed(behind)}"
        )
    if not alone and not behind:
        yield good(f"all {len(shared)} queues have a mirror that is in sync")


def _shown(queue: Row) -> str:
    vhost = str(queue.get("vhost", "/"))
    return str(queue["name"]) if vhost == "/" else f"{queue['name']} in {vhost}"


def _of_the_clients_address(deployment: Deployment, cluster: ClusterSighting) -> Iterator[Finding]:
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
            f"nodes take the balancer {balancers[cluster.seen_from]} for the client: neither side speaks the PROXY "
            f"protocol, with which HAProxy {verb} the client's address (send-proxy-v2, and proxy_protocol = true on "
            "the nodes)"
        )
    elif cluster.seen_from == cluster.called_from:
        yield good(f"nodes see clients with their own addresses: ours is {cluster.seen_from}")
    else:
        yield remark(
            f"nodes see us as {cluster.seen_from}, and our address is {cluster.called_from}: something in between "
            "changes it"
        )
