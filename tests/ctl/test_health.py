"""Status commands, and the health checks that orchestrators run."""

import json

import pytest

from tests.ctl.conftest import Ctl, Said
from tests.node.serving import Serving

NAME = "warren@here"


def lines(said: Said) -> list[str]:
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


def test_the_status_has_the_sections_and_lines_that_scripts_look_for(node: Serving, ctl: Ctl) -> None:
    found = lines(ctl("status"))
    assert found[0] == f"Status of node {NAME} ..."
    sections = [
        "Runtime",
        "Data directory",
        "Alarms",
        "Memory",
        "File Descriptors",
        "Free Disk Space",
        "Totals",
        "Listeners",
    ]
    assert [line for line in found if line in sections] == sections
    assert {f"OS PID: {node.process.pid}", f"Node name: {NAME}", "(none)", "Queue count: 0"} <= set(found)
    assert "RabbitMQ version: 3.10.8" in found
    host, port = node.address()
    assert f"Interface: {host}, port: {port}, protocol: amqp, purpose: AMQP 0-9-1 and AMQP 1.0" in found
    document = json.loads(ctl("status", "--formatter", "json").out)
    assert (document["pid"], document["totals"]["virtual_host_count"]) == (node.process.pid, 1)


def test_sizes_are_shown_in_the_unit_that_is_asked_for(ctl: Ctl) -> None:
    (limit,) = [
        line for line in lines(ctl("status", "--unit", "MB")) if line.startswith("Low free disk space watermark")
    ]
    assert limit == "Low free disk space watermark: 50.0 MB"
    assert ctl("status", "--unit", "feet").code == 64


def test_the_cluster_is_this_node_and_its_name_can_be_set(ctl: Ctl) -> None:
    assert lines(ctl("set_cluster_name", "warehouse")) == ["Setting cluster name to warehouse ..."]
    found = lines(ctl("-q", "cluster_status"))
    assert found[:9] == ["Basics", "", "Cluster name: warehouse", "", "Disk Nodes", "", NAME, "", "Running Nodes"]
    assert f"Node: {NAME}, status: not under maintenance" in found
    assert json.loads(ctl("cluster_status", "--formatter", "json").out)["running_nodes"] == [NAME]


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        ("ping", "Ping succeeded"),
        ("is_running", f"RabbitMQ on node {NAME} is fully booted and running"),
        ("check_running", f"RabbitMQ on node {NAME} is fully booted and running"),
        ("check_alarms", f"Node {NAME} reported no alarms, local or clusterwide"),
        ("check_local_alarms", f"Node {NAME} reported no local alarms"),
        ("check_virtual_hosts", f"Node {NAME} reported all vhosts as running"),
        ("check_certificate_expiration", "No certificates are expiring within 4 weeks."),
        (
            "check_if_node_is_mirror_sync_critical",
            f"Node {NAME} seems to be the only one in a single node cluster, the check does not apply",
        ),
        ("node_health_check", "Health check passed"),
    ],
)
def test_a_node_that_is_well_passes_every_check(verb: str, sentence: str, ctl: Ctl) -> None:
    assert lines(ctl("-q", verb)) == [sentence]


def test_ports_and_protocols_are_found_or_the_others_are_named(node: Serving, ctl: Ctl) -> None:
    ports = {protocol: node.address(protocol)[1] for protocol in ("amqp", "http")}
    sentence = f"A listener for port {ports['amqp']} is running on node {NAME}."
    assert lines(ctl("-q", "check_port_listener", str(ports["amqp"]))) == [sentence]
    assert lines(ctl("-q", "check_protocol_listener", "amqp"))
    refused = ctl("-q", "check_port_listener", "1")
    assert (refused.code, refused.out) == (69, "")
    assert refused.err.startswith(f"No listener for port 1 is active on node {NAME}. Found listeners that use the ")
    assert str(ports["amqp"]) in refused.err
    refused = ctl("-q", "check_protocol_listener", "mqtt")
    assert (refused.code, refused.out) == (69, "")
    assert "No listener for protocol mqtt is active on node" in refused.err
    (sentence,) = lines(ctl("-q", "check_port_connectivity"))
    assert sentence.startswith("Successfully connected to ports ")
    assert all(str(port) in sentence for port in ports.values())
    assert len(lines(ctl("-q", "listeners"))) >= 2
