"""Definitions that the configuration names are there before clients are accepted."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.node.serving import COMMAND, Serving
from tests.support.operator import Operator

OPTIONS = ("--name", "warren@here", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
GUEST_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""Of the password test12, as RabbitMQ hashes."""

DEFINITIONS = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "guest",
            "password_hash": GUEST_HASH,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
        }
    ],
    "vhosts": [{"name": "shop"}],
    "permissions": [{"user": "guest", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}],
    "policies": [{"vhost": "shop", "name": "short", "pattern": ".*", "definition": {"max-length": 7}}],
    "queues": [{"vhost": "shop", "name": "orders", "durable": True, "auto_delete": False, "arguments": {}}],
    "bindings": [
        {
            "source": "amq.topic",
            "vhost": "shop",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "order.#",
            "arguments": {},
        }
    ],
}


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document, indent=1))
    return path


def started(directory: Path, configuration: str) -> Serving:
    return Serving(directory, *OPTIONS, configuration=configuration)


def refused(directory: Path, configuration: str) -> str:
    """The error message of a node that does not start."""
    config = directory / "refused.conf"
    config.write_text(configuration)
    command = [*COMMAND, "serve", "--config", str(config), "--data", str(directory / "data"), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    [said] = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    return said


def names(operator: Operator, *path: str) -> list[str]:
    return [row["name"] for row in operator.read(*path)]


@pytest.mark.parametrize("key", ["load_definitions", "management.load_definitions", "definitions.local.path"])
def test_a_blank_node_has_what_the_file_says_and_nothing_else(tmp_path: Path, key: str) -> None:
    path = write(tmp_path / "shop.json", DEFINITIONS)
    node = started(tmp_path, f"{key} = {path}")
    try:
        operator = Operator(node.address("http"), "test12")
        assert names(operator, "users") == ["guest"]
        assert names(operator, "vhosts") == ["shop"]
        assert names(operator, "queues") == ["orders"]
        assert operator.read("queues", "shop", "orders")["policy"] == "short"
        assert node.events("definitions.imported")
        assert not node.events("credentials.defaulted")
        assert node.stop() == 0
    finally:
        node.end()


def test_existing_definitions_are_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.json", DEFINITIONS)
    node = started(tmp_path, f"load_definitions = {path}")
    try:
        operator = Operator(node.address("http"), "test12")
        operator.user("guest", "administrator", "mine")
        operator = Operator(node.address("http"), "mine")
        operator.permit("guest", configure="^mine", vhost="shop")
        assert node.stop() == 0
    finally:
        node.end()
    more = {**DEFINITIONS, "users": [*DEFINITIONS["users"], {"name": "other", "password": "x", "tags": ""}]}  # type: ignore[misc]
    more["policies"] = [{"vhost": "shop", "name": "short", "pattern": ".*", "definition": {"max-length": 8}}]
    write(path, more)
    node = started(tmp_path, f"load_definitions = {path}")
    try:
        operator = Operator(node.address("http"), "mine")
        assert names(operator, "users") == ["guest", "other"]
        assert operator.read("permissions", "shop", "guest")["configure"] == "^mine"
        assert operator.read("policies", "shop", "short")["definition"] == {"max-length": 7}
        assert node.stop() == 0
    finally:
        node.end()


def test_a_directory_is_imported_as_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "definitions.d"
    folder.mkdir()
    write(folder / "1.json", {"queues": DEFINITIONS["queues"]})
    write(folder / "2.json", {name: part for name, part in DEFINITIONS.items() if name != "queues"})
    (folder / "notes.txt").write_text("not JSON")
    configuration = f"definitions.import_backend = local_filesystem\ndefinitions.local.path = {folder}"
    node = started(tmp_path, configuration)
    try:
        assert names(Operator(node.address("http"), "test12"), "queues") == ["orders"]
        assert node.stop() == 0
    finally:
        node.end()


def test_a_file_that_is_at_fault_is_named_with_the_line_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"users": [\n  {"name": "a", "password": "a", "tags": ""},\n  {"name": "b"}\n]}')
    said = refused(tmp_path, f"load_definitions = {path}")
    assert said == f"warren: {path} line 3, users 'b': tags_not_present; nothing was imported"
    path.write_text('{"queues": [\n\n  {"name": "q", "vhost": "nosuch"}]}')
    said = refused(tmp_path, f"load_definitions = {path}")
    assert said == f"warren: {path} line 3, queues 'q': vhost_not_found; nothing was imported"
    node = started(tmp_path, "")
    try:
        operator = Operator(node.address("http"))
        assert (names(operator, "users"), names(operator, "vhosts"), names(operator, "queues")) == (
            ["guest"],
            ["/"],
            [],
        )
        assert node.stop() == 0
    finally:
        node.end()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{}x", "line 1: something follows the object"),
        (b"[1]", "the file is not a JSON object"),
        (b'{\n"users": [nope]}', "line 2 is not JSON: Expecting value"),
        (b'{"users":\n[{"name": "\xff"}]}', "line 2 is not UTF-8"),
    ],
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert refused(tmp_path, f"load_definitions = {path}") == f"warren: {path} {reason}"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nosuch.json"
    said = refused(tmp_path, f"load_definitions = {path}")
    assert said == f"warren: the definitions {path} cannot be read: No such file or directory"
