"""Findings about nodes that cannot be reached, and about clusters that were not asked."""

import pytest

from tests.unit.cli.ha.deployments import deployment, node
from tests.unit.cli.ha.test_verdict import bad, cluster, findings, nodes, only
from warren.cli.ha.observations import ClusterObservation, FitnessProbeResult

CLASSIC = deployment(nodes=(node(1, "ram"), node(2, "ram"), node(3)))


@pytest.mark.parametrize(
    ("answer", "called_from", "sentence"),
    [
        (
            FitnessProbeResult(15672, refusal="connection refused", unreached=True),
            "10.9.0.1",
            "so the health checks of the balancers fail",
        ),
        (
            FitnessProbeResult(15672, refusal="no answer within 4 s", unreached=True),
            "10.0.0.11",
            "so the health checks of the balancers fail",
        ),
        (
            FitnessProbeResult(15672, refusal="no answer within 4 s"),
            "10.9.0.1",
            "so the health checks of the balancers fail",
        ),
        (
            FitnessProbeResult(15672, refusal="it closes the connection", silent=True),
            "10.9.0.1",
            "closes them without an answer",
        ),
    ],
)
def test_a_node_that_runs_and_that_balancers_cannot_ask_is_wrong(
    answer: FitnessProbeResult, called_from: str, sentence: str
) -> None:
    """Balancers send it no clients, also if the cluster reports it as running."""
    level, said = only(findings(seen_nodes=nodes(answer=answer, called_from=called_from), seen_cluster=cluster()))
    assert level == "wrong"
    assert said.startswith("node warren@n2 ")
    assert sentence in said


def test_without_a_user_the_verdict_says_how_to_find_out_whether_a_node_runs() -> None:
    hidden = nodes(answer=FitnessProbeResult(15672, refusal="no answer within 4 s", unreached=True))
    level, said = only(findings(seen_nodes=hidden))
    assert level == "wrong"
    assert said.endswith("or a firewall blocks it; with --user the other nodes are asked whether it runs")


@pytest.mark.parametrize("asked", [None, ClusterObservation(refusal="no")])
def test_the_classic_plan_is_warned_of_though_the_cluster_says_nothing(asked: ClusterObservation | None) -> None:
    found = bad(findings(seen_cluster=asked, told=CLASSIC))
    assert [level for level, said in found if "warren@n3 is the only disc node: while it is down" in said] == [
        "warning"
    ]


def test_a_lone_node_is_nothing_to_warn_of_before_its_cluster_was_asked() -> None:
    """It may be the first of several."""
    assert bad(findings(told=deployment(nodes=(node(1),)))) == []
