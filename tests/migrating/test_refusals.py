"""A move that is impossible is refused with a sentence, and changes nothing."""

import subprocess

import pytest

from tests.migrating.moving import WARREN, Moving
from tests.support.ports import free_port


def refusal(*arguments: str) -> tuple[int, str]:
    ended = subprocess.run([WARREN, "migrate", *arguments], capture_output=True, text=True, timeout=100)
    return ended.returncode, ended.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from", "rabbit"], "the address of RabbitMQ is that of its HTTP API: http://USER:PASSWORD@HOST:15672"),
        (["--from", "http://h:x"], "the address of RabbitMQ is invalid"),
        (["--from", "http://h", "--amqp", "http://h"], "--amqp: an AMQP URL begins with amqp:// or amqps://"),
        (["--from", "http://h", "--first", "both"], "--first takes consumers or publishers, not both"),
        ([], "Missing option '--from'"),
    ],
)
def test_a_wrong_option_is_wrong_usage(arguments: list[str], sentence: str) -> None:
    code, err = refusal(*arguments)
    assert code == 2
    assert sentence in err


def test_a_missing_rabbitmq_is_reported(moving: Moving) -> None:
    silent = f"http://127.0.0.1:{free_port()}"
    code, err = refusal("--from", silent)
    assert code == 1
    assert err.startswith(f"warren: RabbitMQ at {silent} does not answer: ")


def test_a_wrong_password_is_named_as_the_reason(moving: Moving) -> None:
    host, port = moving.rabbitmq.http
    code, err = refusal("--from", f"http://guest:wrong@{host}:{port}")
    assert code == 1
    assert err.startswith(f"warren: RabbitMQ at http://{host}:{port} refuses 'guest'")


def test_a_virtual_host_that_rabbitmq_has_not_is_refused(moving: Moving) -> None:
    code, _, err = moving.run("--vhost", "nowhere")
    assert (code, err) == (1, "warren: RabbitMQ has no virtual host 'nowhere'; nothing was changed\n")


def vhosts_at_warren(moving: Moving) -> list[str]:
    return [row["name"] for row in moving.operator.read("vhosts")]


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["a move", "a dry run"])
def test_a_user_without_access_to_rabbitmqs_virtual_host_gets_instructions(
    more: tuple[str, ...], moving: Moving
) -> None:
    moving.fill("orders", [b"one"])
    moving.source_operator.user("carrier")
    host, port = moving.rabbitmq.address
    code, _, err = moving.run("--amqp", f"amqp://carrier:carrier@{host}:{port}", *more)
    assert code == 1
    assert f"rabbitmqctl set_permissions -p {moving.vhost} carrier '' '' '.*'" in err
    assert vhosts_at_warren(moving) == ["/"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["a move", "a dry run"])
def test_a_queue_of_rabbitmqs_that_the_user_may_not_read_is_named_before_anything_is_brought(
    more: tuple[str, ...], moving: Moving
) -> None:
    moving.fill("bills", [b"one"])
    moving.fill("orders", [b"one"])
    moving.source_operator.user("reader")
    moving.source_operator.permit("reader", configure="", write="", read="^bills$", vhost=moving.vhost)
    host, port = moving.rabbitmq.address
    code, _, err = moving.run("--amqp", f"amqp://reader:reader@{host}:{port}", *more)
    assert code == 1
    assert f"'reader' may not read queue 'orders' in '{moving.vhost}' of RabbitMQ" in err
    assert f"rabbitmqctl set_permissions -p {moving.vhost} reader '' '' '.*'" in err
    assert vhosts_at_warren(moving) == ["/"]
    moving.source_operator.permit("reader", configure="", write="", read=".*", vhost=moving.vhost)
    assert moving.run("--amqp", f"amqp://reader:reader@{host}:{port}", *more)[0] == 0


def test_a_missing_write_permission_at_warren_is_reported_before_the_move(moving: Moving) -> None:
    moving.fill("bills", [b"one"])
    moving.fill("orders", [b"one"])
    moving.operator.vhost(moving.vhost)
    moving.operator.permit("guest", write="^(bills|amq)", vhost=moving.vhost)
    code, _, err = moving.run("--keep")
    assert code == 1
    assert f"'guest' may not write to queue 'orders' in '{moving.vhost}' of Warren" in err
    assert moving.operator.read("queues", moving.vhost) == []
    moving.operator.permit("guest", configure="^migrate-", read="^migrate-", write="s$|^amq", vhost=moving.vhost)
    assert moving.run("--keep")[0] == 0


def test_a_closed_amqp_port_is_not_reported_as_missing_permissions(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    code, _, err = moving.run("--amqp", f"amqp://guest:guest@127.0.0.1:{free_port()}")
    assert code == 1
    assert "RabbitMQ's AMQP is not reached" in err
    assert "set_permissions" not in err
    assert vhosts_at_warren(moving) == ["/"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["a move", "a dry run"])
def test_a_wrong_password_over_amqp_is_reported_before_the_move(more: tuple[str, ...], moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    host, port = moving.rabbitmq.address
    code, _, err = moving.run("--amqp", f"amqp://guest:wrong@{host}:{port}", *more)
    assert code == 1
    assert "RabbitMQ refuses 'guest' over AMQP" in err
    assert vhosts_at_warren(moving) == ["/"]
    assert moving.run("--amqp", f"amqp://guest:wrong@{host}:{port}", "--definitions-only")[0] == 0


def test_a_virtual_host_of_warren_that_the_mover_may_not_enter_is_left_as_it_is(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    moving.operator.vhost(moving.vhost)
    moving.operator.forbid("guest", moving.vhost)
    moving.source_operator.forbid("guest", moving.vhost)
    code, _, err = moving.run()
    assert code == 1
    assert f"warren ctl set_permissions -p {moving.vhost} guest '.*' '.*' '.*'" in err
    assert moving.operator.read("queues", moving.vhost) == []


def test_another_shovel_with_a_reserved_name_refuses_the_move(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    moving.run("--definitions-only")
    moving.operator.parameter("shovel", "migrate-orders", own_shovel(moving), moving.vhost)
    moving.fill("bills", [b"one"])
    code, _, err = moving.run()
    assert code == 1
    assert "of its own; names with migrate- are reserved for the move" in err
    assert moving.shovels() == ["migrate-orders"]
    assert [row["name"] for row in moving.operator.read("queues", moving.vhost)] == ["orders"]


def test_a_shovel_of_rabbitmqs_with_such_a_name_is_not_brought_with_contents(moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    moving.source_operator.parameter("shovel", "migrate-orders", own_shovel(moving), moving.vhost)
    code, _, err = moving.run("--bridges")
    assert code == 1
    assert f"RabbitMQ has a shovel 'migrate-orders' in '{moving.vhost}'" in err
    assert vhosts_at_warren(moving) == ["/"]


def own_shovel(moving: Moving) -> dict[str, object]:
    """A shovel with another purpose, from a queue that stays empty."""
    ends = {"src-uri": moving.source_url, "dest-uri": moving.source_url}
    return {**ends, "src-protocol": "amqp091", "src-queue": "elsewhere", "dest-protocol": "amqp091", "dest-queue": "x"}


@pytest.mark.parametrize("where", ["Warren", "RabbitMQ"])
def test_another_exchange_with_a_reserved_name_is_neither_used_nor_deleted(where: str, moving: Moving) -> None:
    moving.fill("orders", [b"one"])
    if where == "Warren":
        moving.run("--definitions-only")
    channel = moving.at_warren() if where == "Warren" else moving.at_source()
    channel.declare_exchange("migrate-orders", "fanout", durable=True)
    code, _, err = moving.run()
    assert code == 1
    assert f"exchange 'migrate-orders' in '{moving.vhost}' belongs to others" in err
    assert moving.shovels() == []
    assert moving.at_source().declare_queue("orders", passive=True).messages == 1
    channel.declare_exchange("migrate-orders", passive=True)
    assert moving.run("--definitions-only")[0] == 0
