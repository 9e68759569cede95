"""Where HTTP is served, from a file, the environment and the flag."""

from pathlib import Path
from typing import Any

import pytest

from warren.errors import ConfigError
from warren.node.config.http_settings import HttpSettings
from warren.node.config.settings import NodeFlags, read_settings
from warren.node.listeners import ListenAddress
from warren.node.tls import server_context


def read(directory: Path, text: str = "", **flags: Any) -> HttpSettings:
    config = directory / "warren.conf"
    config.write_text(text)
    return read_settings(NodeFlags(config=str(config), **flags), {}).http


def test_http_is_served_on_rabbitmqs_port_of_every_interface(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings.tcp_listeners == [ListenAddress("", 15672)]
    assert settings.ssl_listeners == []


@pytest.mark.parametrize("family", ["management.tcp", "management.listener"])
def test_both_names_of_the_listener_are_understood(tmp_path: Path, family: str) -> None:
    settings = read(tmp_path, f"{family}.port = 8080\n{family}.ip = 127.0.0.1\n")
    assert settings.tcp_listeners == [ListenAddress("127.0.0.1", 8080)]


def test_the_flag_goes_before_the_file(tmp_path: Path) -> None:
    settings = read(tmp_path, "management.tcp.port = 8080\n", http="127.0.0.1:0")
    assert settings.tcp_listeners == [ListenAddress("127.0.0.1", 0)]


def test_ports_that_are_not_given_are_on_the_host_that_is(tmp_path: Path) -> None:
    settings = read(tmp_path, amqp="127.0.0.1:5673")
    assert settings.tcp_listeners == [ListenAddress("127.0.0.1", 15672)]
    assert settings.prometheus.address == ListenAddress("127.0.0.1", 15692)
    assert read(tmp_path, http="127.0.0.1:8080").prometheus.address == ListenAddress("127.0.0.1", 15692)
    assert read(tmp_path, "management.tcp.ip = ::1").prometheus.address == ListenAddress("::1", 15692)
    both = read(tmp_path, "prometheus.tcp.ip = 10.0.0.1", amqp="127.0.0.1:5673", http=":8080")
    assert (both.tcp_listeners, both.prometheus.address.host) == ([ListenAddress("", 8080)], "10.0.0.1")


def test_a_tls_listener_alone_leaves_no_plain_one(tmp_path: Path) -> None:
    settings = read(tmp_path, "management.ssl.port = 15671\n")
    assert (settings.tcp_listeners, settings.ssl_listeners) == ([], [ListenAddress("", 15671)])
    both = read(tmp_path, "management.ssl.port = 15671\nmanagement.tcp.port = 15672\n")
    assert (both.tcp_listeners, both.ssl_listeners) == ([ListenAddress("", 15672)], [ListenAddress("", 15671)])


def test_the_older_listener_may_speak_tls(tmp_path: Path) -> None:
    text = "management.listener.port = 15671\nmanagement.listener.ssl = true\n"
    settings = read(tmp_path, text + "management.listener.ssl_opts.certfile = /c.pem\n")
    assert (settings.tcp_listeners, settings.ssl_listeners) == ([], [ListenAddress("", 15671)])
    assert settings.tls.certfile == "/c.pem"


def test_a_tls_listener_without_a_certificate_is_refused_by_the_names_of_its_keys(tmp_path: Path) -> None:
    settings = read(tmp_path, "management.ssl.port = 15671\n")
    with pytest.raises(ConfigError, match=r"needs management\.ssl\.certfile and management\.ssl\.keyfile"):
        server_context(settings.tls)


def test_limits_and_origins_are_read(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "management.tcp.request_timeout = 500\nmanagement.tcp.idle_timeout = 2000\n"
        "management.http.max_body_size = 1000\nmanagement.cors.allow_origins.1 = https://a.example\n"
        "management.cors.max_age = 5\n",
    )
    assert (settings.limits.request_timeout_s, settings.limits.idle_timeout_s) == (0.5, 2.0)
    assert settings.application.body_bytes_max == 1000
    assert settings.application.cross_origin.allowed == ["https://a.example"]
    assert settings.application.cross_origin.max_age_s == 5
