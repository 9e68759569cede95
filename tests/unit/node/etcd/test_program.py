"""The versions of etcd that are accepted, and the environment they get."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from warren.errors import ConfigError, StoreError
from warren.node.etcd import program
from warren.node.etcd.program import EtcdMemberSettings
from warren.node.tls import TlsFiles


@pytest.mark.parametrize("version", ["3.4.23", "3.4.26", "3.5.9", "3.5.21", "3.6.0", "4.0.0", "3.10.0"])
def test_sound_versions_are_accepted(version: str) -> None:
    program.refuse_version("etcd", f"etcd Version: {version}\nGit SHA: 1234\nGo Version: go1.19.8\n")


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("etcd Version: 3.4.22", "etcd is etcd 3.4.22; a cluster needs 3.4.23 or newer, because older versions lack"),
        ("etcd Version: 3.3.25", "etcd is etcd 3.3.25; a cluster needs 3.4.23 or newer, because older versions lack"),
        ("etcd Version: 3.5.0", "versions 3.5.0 to 3.5.8 can lose data (up to 3.5.5)"),
        ("etcd Version: 3.5.8", "(CVE-2021-28235, CVE-2023-32082), use 3.5.9 or newer"),
        ("usage: etcd", "etcd does not tell its version as etcd does"),
    ],
)
def test_other_versions_are_refused_with_a_sentence(told: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        program.refuse_version("etcd", told)
    assert sentence in str(refused.value)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigError, match=r"the host nowhere\.invalid, where etcd is to listen, is not known"):
        program.free_port("nowhere.invalid")


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StoreError, match=f"cannot listen on port {port} of 127.0.0.1 .Address already in use.;"):
            program.free_port("127.0.0.1", port)
    assert program.free_port("127.0.0.1", port) == port


def test_names_are_advertised_and_addresses_are_listened_at() -> None:
    settings = EtcdMemberSettings("/var/lib/warren/etcd", "warren@a", "c", "localhost")
    given = program.member_arguments(settings, "localhost:1", "localhost:2", "", "existing")
    assert "--advertise-client-urls=http://localhost:1" in given
    assert "--initial-advertise-peer-urls=http://localhost:2" in given
    listening = [argument for argument in given if argument.startswith("--listen-client-urls=")]
    assert listening in (["--listen-client-urls=http://127.0.0.1:1"], ["--listen-client-urls=http://[::1]:1"])


def test_with_certificates_both_ports_ask_for_one() -> None:
    settings = EtcdMemberSettings("etcd", "warren@a", "c", tls=TlsFiles("ca.pem", "a.pem", "a.key"))
    given = program.member_arguments(settings, "127.0.0.1:1", "127.0.0.1:2", "", "new")
    assert "--listen-peer-urls=https://127.0.0.1:2" in given
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(given)


def test_a_binary_that_is_wanted_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a program that can be run"):
        program.find_binary(str(tmp_path / "etcd"))


def test_a_node_that_is_alone_does_not_load_grpc() -> None:
    code = "import sys, warren.node.service; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
