"""Cluster settings from the file, the environment and the flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warren.broker.cluster.addresses import NodeAddress, PeerAddress
from warren.errors import ConfigError
from warren.node.config.cluster_settings import ClusterSettings
from warren.node.config.settings import NodeFlags, read_settings
from warren.node.listeners import ListenAddress
from warren.node.tls import TlsFiles

Read = Callable[..., ClusterSettings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(text: str = "", environment: dict[str, str] | None = None, **flags: Any) -> ClusterSettings:
        config = tmp_path / "my.conf"
        config.write_text(text)
        return read_settings(NodeFlags(config=str(config), **flags), environment or {}).cluster

    return settings


def test_a_node_has_by_default_the_usual_port_and_a_cookie_in_its_data(read: Read) -> None:
    settings = read(data="burrow")
    assert settings == ClusterSettings(cookie_file="burrow/cookie")
    assert (settings.peer_listener, settings.peer_asked_for) == (ListenAddress("", 25672), False)


def test_the_flag_says_where_to_listen(read: Read) -> None:
    settings = read(peer="127.0.0.1:25700")
    assert (settings.peer_listener, settings.peer_asked_for) == (ListenAddress("127.0.0.1", 25700), True)


def test_with_a_free_port_for_amqp_the_port_for_nodes_is_free_too(read: Read) -> None:
    settings = read(amqp="127.0.0.1:0")
    assert (settings.peer_listener, settings.peer_asked_for) == (ListenAddress("127.0.0.1", 0), False)
    assert read(amqp="127.0.0.1:5673").peer_listener == ListenAddress("127.0.0.1", 25672)
    assert read(amqp=":5673").peer_listener == ListenAddress("", 25672)


def test_the_nodes_to_join_are_a_list(read: Read) -> None:
    assert read(join=("hare", "mole:25700")).join == [PeerAddress("hare", 25672), PeerAddress("mole", 25700)]
    with pytest.raises(
        ConfigError, match="--join must be HOST or HOST:PORT, with a port from 1 to 65535, not 'hare:x'"
    ):
        read(join=("hare:x",))


def test_a_ram_node_is_one_by_its_flag_or_its_file(read: Read) -> None:
    assert read(ram=True).ram
    assert read("cluster_formation.node_type = ram").ram
    assert not read("cluster_formation.node_type = disc").ram


def test_a_witness_is_one_by_its_flag_or_its_file_and_no_ram_node(read: Read) -> None:
    assert read(witness=True).witness
    assert read("cluster_formation.node_type = witness").witness
    assert not read().witness
    with pytest.raises(ConfigError, match="a witness keeps definitions on its disk, and a RAM node does not"):
        read("cluster_formation.node_type = witness", ram=True)


def test_the_keys_fill_their_settings(read: Read) -> None:
    settings = read(
        "cluster.cookie = sixteen letters!\n"
        "cluster.cookie_file = /etc/warren/cookie\n"
        "cluster.tls.certfile = a.pem\ncluster.tls.keyfile = a.key\n"
        "cluster.tls.cacertfile = ca.pem\ncluster.tls.password = sesame\n"
        "cluster_formation.peer_discovery_backend = rabbit_peer_discovery_dns\n"
        "cluster_formation.dns.hostname = burrow.example.com\n"
        "cluster_formation.classic_config.nodes.1 = warren@hare\n"
        "cluster_formation.classic_config.nodes.2 = warren@mole:25700\n"
        "cluster_partition_handling = pause_if_all_down\n"
        "cluster_partition_handling.pause_if_all_down.nodes.1 = warren@hare\n"
        "cluster_partition_handling.pause_if_all_down.recover = autoheal\n"
        "net_ticktime = 7\n"
    )
    assert (settings.cookie, settings.cookie_file, settings.silence_s) == ("sixteen letters!", "/etc/warren/cookie", 7)
    tls = settings.tls
    assert (tls.certfile, tls.keyfile, tls.cacertfile, tls.password) == ("a.pem", "a.key", "ca.pem", "sesame")
    assert (settings.discovery, settings.discovery_hostname) == ("dns", "burrow.example.com")
    assert settings.discovery_nodes == [
        NodeAddress("warren@hare", PeerAddress("hare", 25672)),
        NodeAddress("warren@mole", PeerAddress("mole", 25700)),
    ]
    assert (settings.partition_handling, settings.pause_nodes) == ("pause_if_all_down", ["warren@hare"])
    assert settings.pause_recovery == "autoheal"


def test_pausing_is_also_called_pause(read: Read) -> None:
    assert read("cluster_partition_handling = pause").partition_handling == "pause_minority"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "cluster_formation.peer_discovery_backend = dns",
            "cluster_formation.peer_discovery_backend = dns needs cluster_formation.dns.hostname",
        ),
        (
            "cluster_partition_handling = pause_if_all_down",
            "cluster_partition_handling = pause_if_all_down needs cluster_partition_handling.pause_if_all_down.nodes.1",
        ),
        (
            "cluster_formation.classic_config.nodes.1 = hare",
            "cluster_formation.classic_config.nodes.1 must be a node, like warren@HOST or warren@HOST:PORT, not 'hare'",
        ),
        ("net_ticktime = 0", "net_ticktime must be a whole number from 1 to 3600, not '0'"),
        ("cluster.etcd.endpoints.1 = etcd", "cluster.etcd.endpoints.1 must be HOST:PORT, not 'etcd'"),
        (
            "cluster.etcd.client_port = 2379\ncluster.etcd.peer_port = 2379",
            "cluster.etcd.client_port and cluster.etcd.peer_port must be two ports",
        ),
        ("cluster.etcd.tls.certfile = a.pem", "TLS with etcd needs cluster.etcd.tls.cacertfile, too"),
        (
            "cluster.etcd.tls.cacertfile = ca.pem",
            "TLS with etcd needs both cluster.etcd.tls.certfile and cluster.etcd.tls.keyfile",
        ),
        (
            "cluster.etcd.endpoints.1 = etcd:1\ncluster.etcd.tls.cacertfile = ca.pem\ncluster.etcd.tls.keyfile = a.key",
            "TLS with etcd needs both cluster.etcd.tls.certfile and cluster.etcd.tls.keyfile",
        ),
        ("cluster.cookie = sesame", "cluster.cookie must have 16 characters or more"),
    ],
)
def test_contradicting_settings_are_one_sentence(read: Read, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(text)
    assert str(refusal.value).endswith(sentence)


def test_a_cookie_is_not_shown(read: Read) -> None:
    settings = read("", {"WARREN_CLUSTER__COOKIE": "sixteen letters!"})
    assert settings.cookie == "sixteen letters!"
    assert "sixteen" not in repr(settings)
    with pytest.raises(ConfigError) as refusal:
        read("cluster.cookie = sesame")
    assert "sesame" not in str(refusal.value)


def test_etcd_listens_above_the_node_by_default(read: Read) -> None:
    etcd = read().etcd
    assert etcd.listens(PeerAddress("hare", 25672)) == ("hare", 26672, 27672)
    assert etcd.listens(PeerAddress("hare", 64000)) == ("hare", 65000, 0)
    text = "cluster.etcd.host = 10.0.0.7\ncluster.etcd.client_port = 2379\ncluster.etcd.peer_port = 2380\n"
    assert read(text).etcd.listens(PeerAddress("hare", 25672)) == ("10.0.0.7", 2379, 2380)


def test_another_etcd_may_be_used(read: Read) -> None:
    etcd = read(
        "cluster.etcd.endpoints.1 = one:2379\ncluster.etcd.endpoints.2 = [::1]:2379\n"
        "cluster.etcd.user = warren\ncluster.etcd.password = sesame\ncluster.etcd.tls.cacertfile = ca.pem\n"
    ).etcd
    assert (etcd.endpoints, etcd.user, etcd.password) == (["one:2379", "[::1]:2379"], "warren", "sesame")
    assert etcd.tls == TlsFiles("ca.pem")
    assert "sesame" not in repr(etcd)


def test_the_binary_of_etcd_may_be_named(read: Read) -> None:
    settings = read(
        "cluster.etcd.binary = /opt/etcd\ncluster.etcd.tls.cacertfile = ca.pem\n"
        "cluster.etcd.tls.certfile = a.pem\ncluster.etcd.tls.keyfile = a.key\n"
    )
    assert (settings.etcd.binary, settings.etcd.tls) == ("/opt/etcd", TlsFiles("ca.pem", "a.pem", "a.key"))
