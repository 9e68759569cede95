"""Findings about an observed deployment."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.cli.ha.deployments import deployment, node
from warren.cli.ha.deployment import Deployment
from warren.cli.ha.observations import (
    AmqpProbeResult,
    ClusterObservation,
    EntryPoint,
    FitnessProbeResult,
    NodeObservation,
    Observations,
)
from warren.cli.ha.verdict import DeploymentFinding, judge_deployment, listed

GREETED = AmqpProbeResult(5672, "Warren", "3.10.8")
SILENT = AmqpProbeResult(5672, refusal="it closes the connection", silent=True)
AWAY = AmqpProbeResult(5672, refusal="connection refused", unreached=True)
QUEUES = ({"name": "orders", "vhost": "/", "slave_nodes": ["warren@n2"], "synchronised_slave_nodes": ["warren@n2"]},)


def answered(by: str = "", node_no: int = 1, **more: Any) -> FitnessProbeResult:
    return FitnessProbeResult(15672, 200, by, "fit", f"warren@n{node_no}", **more)


def entry_points(**changes: Any) -> tuple[EntryPoint, ...]:
    lb1, lb2 = deployment().balancers
    usual = (
        EntryPoint("10.0.0.10", None, (GREETED,), (answered("lb1"),)),
        EntryPoint("10.0.0.11", lb1, (GREETED,), (answered("lb1"),)),
        EntryPoint("10.0.0.12", lb2, (GREETED,), (answered("lb2"),)),
    )
    at = changes.pop("at", 0)
    return tuple(
        replace(entry_point, **changes) if number == at else entry_point for number, entry_point in enumerate(usual)
    )


def nodes(**changes: Any) -> tuple[NodeObservation, ...]:
    usual = [NodeObservation(node(number), answered(node_no=number), GREETED) for number in (1, 2, 3)]
    usual[1] = replace(usual[1], **changes)
    return tuple(usual)


def member(number: int, **more: Any) -> dict[str, Any]:
    warren = {"name": "warren", "version": "0.1.0"}
    return {"name": f"warren@n{number}", "type": "disc", "running": True, "applications": [warren], **more}


def cluster(*rows: dict[str, Any], **more: Any) -> ClusterObservation:
    return ClusterObservation(rows or (member(1), member(2), member(3)), **{"queues": QUEUES, **more})


def findings(
    seen_doors: tuple[EntryPoint, ...] | None = None,
    seen_nodes: tuple[NodeObservation, ...] | None = None,
    seen_cluster: ClusterObservation | None = None,
    told: Deployment | None = None,
) -> list[DeploymentFinding]:
    return judge_deployment(
        told or deployment(),
        Observations(
            entry_points() if seen_doors is None else seen_doors,
            nodes() if seen_nodes is None else seen_nodes,
            seen_cluster,
        ),
    )


def bad(found: list[DeploymentFinding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.sentence) for finding in found if finding.level != "good"]


def only(found: list[DeploymentFinding]) -> tuple[str, str]:
    [one] = bad(found)
    return one


def test_nothing_is_wrong_with_a_deployment_that_is_well() -> None:
    told = cluster(called_from="10.9.0.1", seen_from="10.9.0.1")
    assert bad(findings(seen_cluster=told)) == []
    sentences = [finding.sentence for finding in findings(seen_cluster=told)]
    assert "the virtual address is on lb1" in sentences
    assert "node warren@n3 is fit" in sentences
    assert "nodes see clients with their own addresses: ours is 10.9.0.1" in sentences


@pytest.mark.parametrize(
    ("at", "changes", "sentence"),
    [
        (0, {"greetings": (AWAY,)}, "the virtual address does not answer AMQP clients at 10.0.0.10:5672"),
        (0, {"greetings": (AWAY,)}, "HAProxy answers at another port there, so its haproxy.cfg lacks this one"),
        (0, {"greetings": (AWAY,), "answers": ()}, "HAProxy does not listen on the machine that has the address"),
        (
            0,
            {"greetings": (AmqpProbeResult(5672, refusal="no answer", unreached=True),), "answers": ()},
            "see systemctl status keepalived on lb1 and lb2",
        ),
        (
            0,
            {"greetings": (AmqpProbeResult(5672, refusal="no answer", unreached=True),)},
            "(no answer): HAProxy answers at another port there, so its haproxy.cfg lacks this one, or a firewall",
        ),
        (
            0,
            {"greetings": (AmqpProbeResult(5672, refusal="no answer"),)},
            "has reached haproxy.maxconn",
        ),
        (
            1,
            {"answers": (FitnessProbeResult(15672, refusal="no answer"),)},
            "(no answer): it accepts connections and does not answer",
        ),
        (
            0,
            {"greetings": (AmqpProbeResult(5672, refusal="nonsense"),)},
            "(nonsense): another program than HAProxy uses the",
        ),
        (
            1,
            {"greetings": (AWAY,), "answers": ()},
            "(connection refused): HAProxy does not run there, or a firewall blocks it",
        ),
        (
            2,
            {"greetings": (SILENT,)},
            "balancer lb2 accepts AMQP connections at 10.0.0.12:5672 and closes them without",
        ),
        (2, {"greetings": (SILENT,)}, "compare send-proxy-v2 in haproxy.cfg with proxy_protocol"),
        (1, {"greetings": (AmqpProbeResult(5672, "RabbitMQ", "3.10"),)}, "to RabbitMQ, not to Warren"),
        (
            1,
            {"answers": (FitnessProbeResult(15672, refusal="x"),)},
            "balancer lb1 does not answer over HTTP at 10.0.0.11:15672 (x)",
        ),
        (
            1,
            {"answers": (FitnessProbeResult(15672, refusal="x", silent=True),)},
            "accepts HTTP connections at 10.0.0.11:15672",
        ),
        (1, {"answers": (FitnessProbeResult(15672, 503, "lb1"),)}, "with status 503, not as a node would"),
        (1, {"answers": (answered("lb2"),)}, "10.0.0.11 should be lb1 and says that it is lb2"),
        (0, {"answers": (answered("other"),)}, "is answered by a balancer other, which is not in this deployment"),
    ],
)
def test_a_balancer_port_that_does_not_reach_a_node_is_an_error(
    at: int, changes: dict[str, Any], sentence: str
) -> None:
    level, said = only(findings(entry_points(at=at, **changes)))
    assert level == "wrong"
    assert sentence in said


@pytest.mark.parametrize(
    ("answer", "level", "sentence"),
    [
        (
            FitnessProbeResult(15672, 503, "", "unfit", "warren@n2", ("It is paused.",)),
            "wrong",
            "unfit to serve clients: It is paused.",
        ),
        (
            FitnessProbeResult(15672, 503, "", "reluctant", "warren@n2", ("Low.",)),
            "warning",
            "no new clients while other nodes do: Low.",
        ),
        (
            FitnessProbeResult(15672, 404),
            "wrong",
            "does not know /api/warren/fitness: it is not a node of this version",
        ),
        (FitnessProbeResult(15672, 500), "wrong", "with status 500, without its fitness"),
        (answered(node_no=3), "wrong", "at 10.0.0.22:15672 there is node warren@n3, not warren@n2"),
        (
            FitnessProbeResult(15672, refusal="no answer"),
            "wrong",
            "(no answer): it does not run, or a firewall blocks it",
        ),
        (answered(node_no=2, ahead_s=9.0), "warning", "the clock of warren@n2 is 9 s ahead of that of warren@n1"),
    ],
)
def test_a_node_that_is_not_well_is_named_with_the_reason(
    answer: FitnessProbeResult, level: str, sentence: str
) -> None:
    found, said = only(findings(seen_nodes=nodes(answer=answer)))
    assert (found, sentence in said) == (level, True), said


def test_a_node_behind_a_firewall_that_runs_is_only_a_remark() -> None:
    hidden = nodes(answer=FitnessProbeResult(15672, refusal="no answer", unreached=True))
    assert only(findings(seen_nodes=hidden, seen_cluster=cluster()))[0] == "remark"
    stopped = cluster(member(1), member(2, running=False), member(3))
    assert {level for level, _ in bad(findings(seen_nodes=hidden, seen_cluster=stopped))} == {"wrong"}


def test_a_node_that_takes_amqp_from_balancers_alone_is_a_remark() -> None:
    dropped = AmqpProbeResult(5672, refusal="no answer within 4 s", unreached=True)
    assert only(findings(seen_nodes=nodes(greeting=dropped)))[0] == "remark"
    level, said = only(findings(seen_nodes=nodes(greeting=dropped, called_from="10.0.0.11")))
    assert level == "wrong", "we are a balancer"
    assert "does not answer AMQP clients at 10.0.0.22:5672 (no answer within 4 s)" in said


@pytest.mark.parametrize(
    ("greeting", "sentence"),
    [
        (SILENT, "closes them without an answer, with a PROXY header and without"),
        (AWAY, "reports that it serves, but does not answer AMQP clients at 10.0.0.22:5672 (connection refused)"),
        (
            AmqpProbeResult(5672, refusal="no answer within 4 s"),
            "does not answer AMQP clients at 10.0.0.22:5672 (no answer",
        ),
        (AmqpProbeResult(5672, "RabbitMQ", "3.10"), "at 10.0.0.22:5672 AMQP clients reach RabbitMQ, not Warren"),
    ],
)
def test_a_node_that_is_fit_and_deaf_to_clients_is_wrong(greeting: AmqpProbeResult, sentence: str) -> None:
    level, said = only(findings(seen_nodes=nodes(greeting=greeting)))
    assert level == "wrong"
    assert sentence in said


def test_a_node_that_expects_a_proxy_header_from_any_client_should_name_the_balancers() -> None:
    demanding = nodes(wants_header=True)
    level, said = only(findings(seen_nodes=demanding))
    assert level == "warning"
    assert "name the balancers in proxy_protocol.from.*" in said
    assert bad(findings(seen_nodes=nodes(wants_header=True, called_from="10.0.0.12"))) == [], "we are a balancer"
    level, said = only(findings(seen_nodes=demanding, told=deployment(proxy_protocol=False)))
    assert level == "wrong"
    assert "the balancers of this deployment send none" in said


def test_clocks_that_agree_with_each_other_and_not_with_ours_are_a_remark() -> None:
    late = tuple(replace(seen, answer=replace(seen.answer, ahead_s=-60.0)) for seen in nodes())
    level, said = only(findings(seen_nodes=late))
    assert level == "remark"
    assert "differ from the clock here by 60 s" in said


@pytest.mark.parametrize(
    ("rows", "level", "sentence"),
    [
        ((member(1), member(2)), "wrong", "node warren@n3 is not a member of the cluster behind the balancers"),
        (
            (member(1), member(2), member(3), member(4), member(5)),
            "warning",
            "node warren@n4 is a member of the cluster",
        ),
        ((member(1), member(2), member(3, running=False)), "wrong", "node warren@n3 does not run"),
        ((member(1), member(2), member(3, running=False, paused=True)), "wrong", "node warren@n3 is paused, cut off"),
        ((member(1), member(2), member(3, partitions=["warren@n1"])), "wrong", "warren@n3 is cut off from warren@n1"),
        ((member(1), member(2), member(3, witness=True)), "warning", "warren@n3 is a witness, and a disc node in the"),
        (
            (member(1, type="ram"), member(2, type="ram"), member(3)),
            "warning",
            "warren@n3 is the only disc node: while",
        ),
        ((member(1, type="ram"), member(2, type="ram"), member(3)), "warning", "every node pauses until it is back"),
        (
            (member(1, type="ram"), member(2), member(3)),
            "warning",
            "two disc nodes, warren@n2, warren@n3, and both must",
        ),
        ((member(1),), "warning", "there is one node: if it is lost, everything is lost"),
        ((member(1), member(2), member(3), member(4)), "remark", "4 disc nodes survive the loss of 1, as 3 would"),
        (
            (member(1), member(2), member(3, applications=[{"name": "warren", "version": "0.2.0"}])),
            "warning",
            "different versions: 0.1.0 on warren@n1, warren@n2; 0.2.0 on warren@n3",
        ),
    ],
)
def test_a_cluster_that_differs_from_the_deployment_is_reported(rows: Any, level: str, sentence: str) -> None:
    found = bad(findings(seen_cluster=cluster(*rows)))
    assert [each for each, said in found if sentence in said] == [level], found


def test_queues_without_a_mirror_are_named() -> None:
    alone = [{"name": f"q{number}", "vhost": "/", "slave_nodes": []} for number in range(7)]
    private = {"name": "mine", "vhost": "/", "exclusive": True}
    level, said = only(findings(seen_cluster=cluster(queues=(*alone, private, *QUEUES))))
    assert level == "warning"
    assert "7 of 8 queues have no mirror" in said
    assert "q0, q1, q2, q3, q4 and 2 more" in said


def test_queues_whose_mirrors_lack_messages_are_named() -> None:
    late = {"name": "late", "vhost": "shop", "slave_nodes": ["warren@n2"], "synchronised_slave_nodes": []}
    level, said = only(findings(seen_cluster=cluster(queues=(late,))))
    assert level == "warning"
    assert said.endswith("late in shop")


def test_a_single_holder_of_queues_needs_no_mirrors() -> None:
    rows = (member(1), member(2, witness=True))
    found = bad(findings(seen_cluster=cluster(*rows, queues=({"name": "q", "vhost": "/"},))))
    assert not [said for _, said in found if "mirror" in said]


def test_a_client_that_is_seen_as_a_balancer_is_a_mismatch() -> None:
    seen = cluster(called_from="10.9.0.1", seen_from="10.0.0.12")
    level, said = only(findings(seen_cluster=seen))
    assert level == "wrong"
    assert "nodes see the balancer lb2 as the client" in said
    assert only(findings(seen_cluster=seen, told=deployment(proxy_protocol=False)))[0] == "remark"


def test_a_client_behind_something_that_changes_addresses_is_a_remark() -> None:
    level, said = only(findings(seen_cluster=cluster(called_from="192.168.0.7", seen_from="10.9.0.1")))
    assert level == "remark"
    assert "nodes see this machine as 10.9.0.1, and its address is 192.168.0.7" in said


def test_a_silent_cluster_is_an_error_and_a_failed_login_a_warning() -> None:
    assert "asked about its members and queues: no" in only(findings(seen_cluster=ClusterObservation(refusal="no")))[1]
    assert only(findings(seen_cluster=cluster(login_refusal="ACCESS_REFUSED")))[0] == "warning"


def test_of_many_names_the_first_are_shown() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
