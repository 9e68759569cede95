"""check_hardening: the verdict on each point, at nodes that are hardened and at nodes that are not."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.ctl.conftest import Ctl, speaking_to
from tests.docs.pages import DOCS, read_page
from tests.node.serving import Serving
from tests.support.amqp_client import Connection

HARDENED = """
credential_validator.validation_backend = rabbit_credential_validator_min_password_length
credential_validator.min_length = 12
default_user = operator
default_pass = correct-horse-battery
disk_free_limit.absolute = 1GB
"""
NEGLECTED = """
password_hashing_module = rabbit_password_hashing_sha256
ssl_options.versions.1 = tlsv1
proxy_protocol = true
management.allow_hosts.1 = *
management.cors.allow_origins.1 = *
loopback_users = none
vm_memory_high_watermark.relative = 0.9
log.level = error
cluster.etcd.endpoints.1 = 127.0.0.1:1
"""
NOT_CONFIGURED = {"administrators", "permissions", "data directory", "key of parameters"}
"""What a node does not neglect by its configuration alone."""


def verdicts(ctl: Ctl, *words: str) -> dict[str, str]:
    said = ctl("-q", "check_hardening", "--formatter", "json", *words)
    found = {row["point"]: row["verdict"] for row in json.loads(said.out)}
    assert said.code == (0 if set(found.values()) == {"good"} else 1)
    return found


@pytest.fixture
def private_directory(tmp_path: Path) -> Path:
    """A folder in which the configuration is written for its owner alone."""
    (tmp_path / "node.conf").touch(mode=0o600)
    return tmp_path


@pytest.fixture
def hardened(private_directory: Path) -> Iterator[Serving]:
    yield from serving(private_directory, HARDENED, "127.0.0.1:0")


@pytest.fixture
def hardened_ctl(hardened: Serving, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    monkeypatch.setenv("WARREN_USER", "operator")
    monkeypatch.setenv("WARREN_PASSWORD", "correct-horse-battery")
    return speaking_to(hardened, monkeypatch)


@pytest.fixture
def neglected(tmp_path: Path) -> Iterator[Serving]:
    yield from serving(tmp_path, NEGLECTED, "0.0.0.0:0")


def serving(directory: Path, configuration: str, address: str) -> Iterator[Serving]:
    node = Serving(
        directory, "--name", "warren@here", "--amqp", address, "--http", address, configuration=configuration
    )
    yield node
    node.end()


def test_a_hardened_node_is_good_at_every_point(hardened_ctl: Ctl) -> None:
    assert set(verdicts(hardened_ctl).values()) == {"good"}
    lines = hardened_ctl("check_hardening").out.splitlines()
    assert lines[:2] == ["Checking how node warren@here is hardened ...", "verdict\tpoint\tfound\tadvice"]
    assert lines[2] == "good\tdefault password\tno default user has the password guest\t"


def test_a_neglected_node_is_weak_at_every_point_of_its_configuration(
    neglected: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctl = speaking_to(neglected, monkeypatch)
    monkeypatch.setenv("WARREN_HTTP", f"http://127.0.0.1:{neglected.address('http')[1]}")
    found = verdicts(ctl)
    assert {point for point, verdict in found.items() if verdict != "weak"} == NOT_CONFIGURED
    rows = json.loads(ctl("check_hardening", "--formatter", "json").out)
    assert all(row["advice"] for row in rows if row["verdict"] == "weak")


def test_the_configuration_of_the_page_is_good_at_every_point_on_every_interface(
    private_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = read_page(DOCS / "hardening.md").blocks_in("ini")
    configuration = re.sub(r"\b(5671|15671)$", "0", block.text, flags=re.MULTILINE)
    write_certificates(private_directory)
    options = ("--name", "warren@here", "--peer", "0.0.0.0:0", "--data", str(private_directory / "data"))
    node = Serving(
        private_directory,
        *options,
        configuration=configuration.replace("/etc/warren", str(private_directory)) + "prometheus.tcp.port = 0\n",
    )
    monkeypatch.setenv("WARREN_USER", "operator")
    monkeypatch.setenv("WARREN_PASSWORD", "correct horse battery staple")
    ctl = speaking_to(node, monkeypatch)
    monkeypatch.setenv("WARREN_HTTP", f"https://127.0.0.1:{node.address('http')[1]}")
    try:
        found = verdicts(ctl, "--ca-file", str(private_directory / "nodes-authority.pem"))
        assert set(found.values()) == {"good"}
        rows = ctl("-q", "listeners", "--ca-file", str(private_directory / "nodes-authority.pem")).out
        assert "Interface: 0.0.0.0" in rows
    finally:
        node.end()


def write_certificates(directory: Path) -> None:
    """The files that the page's configuration names, of one authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "nodes-authority.pem")
    for name in ("server", "node"):
        leaf = authority.issue_cert("127.0.0.1")
        leaf.cert_chain_pems[0].write_to_path(directory / f"{name}.pem")
        leaf.private_key_pem.write_to_path(directory / f"{name}.key")


def test_users_permissions_and_parameters_are_judged_as_they_change(hardened: Serving, hardened_ctl: Ctl) -> None:
    def weak() -> set[str]:
        return {point for point, verdict in verdicts(hardened_ctl).items() if verdict == "weak"}

    hash_of_test12 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    definitions = {"users": [{"name": "shop", "password_hash": hash_of_test12, "tags": ""}]}
    assert hardened_ctl("import_definitions", typed=json.dumps(definitions)).code == 0
    assert weak() == {"password hashes"}
    assert hardened_ctl("change_password", "shop", "another-long-one").code == 0
    assert hardened_ctl("set_permissions", "shop", ".*", ".*", ".*").code == 0
    assert weak() == {"permissions"}
    assert hardened_ctl("set_permissions", "shop", "^shop", ".*", ".*").code == 0
    shovel = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://u:secret@127.0.0.1:1", "dest-queue": "b"}
    assert hardened_ctl("set_parameter", "shovel", "away", json.dumps(shovel)).code == 0
    assert weak() == {"key of parameters"}
    assert hardened_ctl("clear_parameter", "shovel", "away").code == 0
    client = Connection.opened(hardened.address(), user="operator", password="correct-horse-battery")
    assert weak() == {"administrators"}
    client.close()
    assert weak() == set()


def test_modes_of_files_are_judged_where_they_can_be_seen(
    hardened: Serving, hardened_ctl: Ctl, private_directory: Path
) -> None:
    data = private_directory / "data"
    os.chmod(data / "metadata.db", 0o640)
    assert verdicts(hardened_ctl)["data directory"] == "weak"
    os.chmod(data / "metadata.db", 0o600)
    assert verdicts(hardened_ctl, "--data", str(data))["data directory"] == "good"
    os.chmod(private_directory / "node.conf", 0o644)
    assert verdicts(hardened_ctl)["configuration file"] == "weak"
    assert hardened_ctl("check_hardening", "--data", str(data / "absent")).code == 1


def test_the_files_of_another_machine_are_not_judged(hardened_ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.cli.ctl.verbs.hardening._is_loopback", lambda host: False)
    found = verdicts(hardened_ctl)
    assert {point for point, verdict in found.items() if verdict == "cannot tell"} == {
        "data directory",
        "configuration file",
    }


def test_only_administrators_may_ask(ctl: Ctl) -> None:
    assert ctl("add_user", "watcher", "s3cret").code == 0
    assert ctl("set_user_tags", "watcher", "monitoring").code == 0
    assert ctl("--user", "watcher", "--password", "s3cret", "check_hardening").code == 69


def test_the_page_explains_every_point_with_its_verdict(ctl: Ctl) -> None:
    page = read_page(DOCS / "hardening.md")
    explained = [row[0] for row in page.rows("point", "why", "what does it", "what verifies it")]
    assert explained == list(verdicts(ctl))
