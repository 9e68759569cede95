"""`add_queue`: from words to a queue, and back to the words a client would use."""

import json
from typing import Any

import pika
import pytest

from tests.ctl.conftest import Ctl
from tests.node.serving import Serving


def queue_of(ctl: Ctl, name: str) -> dict[str, Any]:
    said = ctl("--formatter", "json", "list_queues", "name", "durable", "auto_delete", "arguments")
    (found,) = [queue for queue in json.loads(said.out) if queue["name"] == name]
    return dict(found)


def argument_values(queue: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, _type, value in queue["arguments"]}


def test_a_queue_is_durable_unless_it_is_said_otherwise(ctl: Ctl) -> None:
    said = ctl("add_queue", "ctl-plain")
    assert (said.code, said.out, said.err) == (0, "Adding queue 'ctl-plain' to vhost '/' ...\n", "")
    assert queue_of(ctl, "ctl-plain") == {"name": "ctl-plain", "durable": True, "auto_delete": False, "arguments": []}
    assert ctl("add_queue", "ctl-plain").code == 0
    assert ctl("add_queue", "ctl-other", "durable=false", "auto_delete=true", 'arguments={"x-max-length": 5}').code == 0
    other = queue_of(ctl, "ctl-other")
    assert (other["durable"], other["auto_delete"], argument_values(other)) == (False, True, {"x-max-length": 5})


def test_a_copy_is_the_one_that_a_client_declares_in_the_usual_words(node: Serving, ctl: Ctl) -> None:
    mirroring = {"copies": [{"src_name": "ctl.source", "routing_key": "ctl.#"}], "mirrored": True}
    assert ctl("add_queue", "ctl-copy", f"mirroring={json.dumps(mirroring)}").code == 0
    with pika.BlockingConnection(pika.ConnectionParameters(*node.address())) as connection:
        channel = connection.channel()
        arguments = {"x-copy-from": "ctl.source", "x-copy-routing-key": "ctl.#", "x-ha-mode": "all"}
        channel.queue_declare("ctl-copy", durable=True, arguments=arguments)
        channel.queue_declare("ctl.source")
        channel.confirm_delivery()
        channel.basic_publish("", "ctl.source", b"once")
        assert [channel.basic_get(name, auto_ack=True)[2] for name in ("ctl.source", "ctl-copy")] == [b"once", b"once"]


def test_a_queue_may_copy_several(node: Serving, ctl: Ctl) -> None:
    copies = [{"src_name": "ctl-one"}, {"src_name": "ctl-two", "routing_key": "#"}]
    assert ctl("add_queue", "ctl-both", f"mirroring={json.dumps({'copies': copies})}").code == 0
    with pika.BlockingConnection(pika.ConnectionParameters(*node.address())) as connection:
        channel = connection.channel()
        channel.queue_declare("ctl-both", durable=True, arguments={"copy_from": copies})
        channel.confirm_delivery()
        for name in ("ctl-one", "ctl-two"):
            channel.queue_declare(name)
            channel.basic_publish("", name, name.encode())
        found = [channel.basic_get("ctl-both", auto_ack=True)[2] for _ in range(2)]
        assert found == [b"ctl-one", b"ctl-two"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["", "durable=true"], "the name of a queue must not be empty"),
        (["q", "durable"], "expected one of durable, auto_delete, arguments, mirroring with = and a value, got"),
        (["q", "lazy=true"], "expected one of durable, auto_delete, arguments, mirroring with = and a value, got"),
        (["q", "durable=yes"], "durable must be true or false, not 'yes'"),
        (["q", "durable=true", "durable=true"], "durable is given twice"),
        (["q", "mirroring={"], "mirroring is not JSON: Expecting property name"),
        (["q", "mirroring=[]"], "mirroring must be a JSON object"),
        (["q", 'mirroring={"copy": []}'], "mirroring may have copies and mirrored, but not copy"),
        (["q", 'mirroring={"copies": "orders"}'], "copies of mirroring must be a list, such as"),
        (["q", 'mirroring={"copies": ["orders"]}'], "each of the copies must be an object with a src_name"),
        (["q", 'mirroring={"copies": [{}]}'], "each of the copies must be an object with a src_name"),
        (
            ["q", 'mirroring={"copies": [{"src_name": "a", "key": "b"}]}'],
            "copies may have routing_key and src_name, but not key",
        ),
        (
            ["q", 'arguments={"x-copy-from": "a"}', 'mirroring={"copies": [{"src_name": "b"}]}'],
            "both arguments and mirroring say x-copy-from",
        ),
    ],
)
def test_invalid_arguments_are_refused_with_a_reason(words: list[str], reason: str, ctl: Ctl) -> None:
    said = ctl("add_queue", *words)
    assert (said.code, said.out) == (64, "")
    assert said.err.startswith(f"Error (argument validation): {reason}")


def test_a_refusal_of_the_server_is_printed_in_its_words(ctl: Ctl) -> None:
    said = ctl("-q", "add_queue", "ctl-me", 'mirroring={"copies": [{"src_name": "ctl-me"}]}')
    assert said.code == 69
    reason = "invalid arg 'x-copy-from' for queue 'ctl-me' in vhost '/': \"a queue cannot copy itself\""
    assert said.err == f"Error:\n{reason}\n"
    missing = ctl("-q", "-p", "ctl-nowhere", "add_queue", "q")
    assert (missing.code, missing.err) == (65, "Virtual host 'ctl-nowhere' does not exist\n")
