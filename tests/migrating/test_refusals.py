"""What cannot be done is said in a sentence, with nothing half done."""

import subprocess

import pytest

from tests.migrating.moving import WARREN, Moving
from tests.support.ports import free_port
from warren.migrating.queues import FoundQueue, QueueName
from warren.migrating.shovels import shovel_value


def refusal(*arguments: str) -> tuple[int, str]:
    ended = subprocess.run([WARREN, "migrate", *arguments], capture_output=True, text=True, timeout=100)
    return ended.returncode, ended.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from", "rabbit"], "the address of RabbitMQ is that of its HTTP API: http://USER:PASSWORD@HOST:15672"),
        (["--from", "http://h:x"], "the address of RabbitMQ makes no sense"),
        (["--from", "http://h", "--amqp", "http://h"], "--amqp: an AMQP URL begins with amqp:// or amqps://"),
        (["--from", "http://h", "--first", "both"], "--first takes consumers or publishers, not both"),
        ([], "Missing option '--from'"),
    ],
)
def test_a_wrong_option_is_wrong_usage(arguments: list[str], sentence: str) -> None:
    code, err = refusal(*arguments)
    assert code == 2
    assert sentence in err


def test_a_rabbitmq_that_is_not_there_is_said_to_be(moving: Moving) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    code, err = refusal("--from", nobody)
    assert code == 1
    assert err.startswith(f"warren: RabbitMQ at {nobody} does not answer: ")


def test_a_wrong_password_is_said_to_be(moving: Moving) -> None:
    host, port = moving.rabbitmq.http
    code, err = refusal("--from", f"http://guest:wrong@{host}:{port}")
    assert code == 1
    assert err.startswith(f"warren: RabbitMQ at http://{host}:{port} does not let 'guest' in")


def test_a_virtual_host_that_rabbitmq_has_not_is_refused(moving: Moving) -> None:
    code, _, err = moving.run("--vhost", "nowhere")
    assert (code, err) == (1, "warren: RabbitMQ has no virtual host 'nowhere'; nothing was changed\n")


def test_a_user_who_may_not_enter_rabbitmqs_virtual_host_is_told_how_to(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    moving.source_operator.user("carrier")
    host, port = moving.rabbitmq.address
    code, _, err = moving.run("--amqp", f"amqp://carrier:carrier@{host}:{port}")
    assert code == 1
    assert f"rabbitmqctl set_permissions -p {moving.vhost} carrier '' '' '.*'" in err
    assert moving.shovels() == []


def test_a_wrong_password_over_amqp_is_said_before_anything_is_carried(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    host, port = moving.rabbitmq.address
    code, _, err = moving.run("--amqp", f"amqp://guest:wrong@{host}:{port}")
    assert code == 1
    assert "RabbitMQ does not let 'guest' in over AMQP" in err
    assert moving.shovels() == []


def test_a_shovel_of_somebodys_own_is_not_taken_for_one_of_the_move(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    moving.run("--definitions-only")
    value = shovel_value(FoundQueue(QueueName(moving.vhost, "orders")), moving.source_url)
    own = {**value, "dest-exchange": "amq.fanout"}
    moving.operator._change("PUT", ["parameters", "shovel", moving.vhost, "migrate-orders"], {"value": own})
    code, _, err = moving.run()
    assert code == 1
    assert "of somebody's own; names with migrate- are taken" in err
    assert moving.shovels() == ["migrate-orders"]


@pytest.mark.parametrize("where", ["Warren", "RabbitMQ"])
def test_an_exchange_of_somebodys_own_is_neither_published_to_nor_deleted(where: str, moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    if where == "Warren":
        moving.run("--definitions-only")
    channel = moving.at_warren() if where == "Warren" else moving.at_source()
    channel.declare_exchange("migrate-orders", "fanout", durable=True)
    code, _, err = moving.run()
    assert code == 1
    assert f"exchange 'migrate-orders' in '{moving.vhost}' is somebody's own" in err
    assert moving.shovels() == []
    assert moving.at_source().declare_queue("orders", passive=True).messages == 1
    channel.declare_exchange("migrate-orders", passive=True)
    assert moving.run("--definitions-only")[0] == 0
