"""The jobs of `warren client`, as an operator runs them: real processes, databases and brokers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from tests.client.awaited_rows import be_late, relay, send
from tests.client.databases import sqlite_url
from tests.client.relayed_rows import add, change, statuses
from tests.support.deadlines import run, until
from tests.support.ports import free_port
from tests.support.rabbitmq import RabbitMQ
from warren.client import blocking
from warren.client.tables import check_tables

DEADLINE_S = 60.0
WARREN = str(Path(sys.executable).with_name("warren"))


def whole(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Commands that run until they are told to end; none is left."""
    started: list[subprocess.Popen[str]] = []

    def start_one(*arguments: str, **variables: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [WARREN, "client", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [WARREN, "client", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def until_sent(engine: Engine, count: int) -> None:
    run(until(lambda: list(statuses(engine).values()) == ["sent"] * count))


@pytest.fixture
def broker_url(request: pytest.FixtureRequest, url: str) -> str:
    """The node that all tests share, unless a test asks for RabbitMQ."""
    if getattr(request, "param", "warren") == "warren":
        return url
    server: RabbitMQ = request.getfixturevalue("rabbitmq")
    return server.url


@pytest.mark.parametrize("broker_url", ["warren", "rabbitmq"], indirect=True)
def test_rows_are_published_until_the_relay_is_stopped(
    database: Engine, broker_url: str, start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    queue = f"relayed-{tmp_path.name}"
    settings = tmp_path / "shop.toml"
    settings.write_text(f'[[queues]]\nname = "{queue}"\n')
    add(database, "one", routing_key=queue)
    process = start("relay", "--database", whole(database), "--url", broker_url, "--settings", str(settings))
    assert first_line(process).startswith("ready database=")
    until_sent(database, 1)
    add(database, "two", "three", routing_key=queue)
    until_sent(database, 3)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert " event=relay.leads" in log
    with blocking.connect(broker_url) as connection, connection.channel() as channel:
        got = [channel.get(queue, no_ack=True) for _ in range(3)]
        channel.delete_queue(queue)
    assert [each.body for each in got if each] == [b"one", b"two", b"three"]


def test_secrets_may_be_in_the_environment_and_none_is_printed(
    database: Engine, url: str, queue: str, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    with_password = database.url.set(password="moles" if database.dialect.name == "postgresql" else None)
    variables = {
        "WARREN_CLIENT_DATABASE": with_password.render_as_string(hide_password=False),
        "WARREN_CLIENT_URL": url,
        "WARREN_CLIENT_LOG_FORMAT": "json",
    }
    process = start("relay", **variables)
    assert "moles" not in first_line(process)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [json.loads(line)["event"] for line in log.splitlines()][:1] in ([], ["relay.leads"])


def test_once_it_says_how_many_went(database: Engine, url: str, queue: str, tmp_path: Path) -> None:
    settings = tmp_path / "shop.toml"
    settings.write_text(f'[connection]\nurl = "{url}"\n\n[[queues]]\nname = "{queue}"\n')
    add(database, "one", "two", routing_key=queue)
    done = ended("relay", "--once", "--database", whole(database), "--settings", str(settings), "--set", "tries=1")
    assert (done.returncode, done.stdout) == (0, "sent 2 rows\n")


def test_one_takes_over_from_one_that_is_killed(
    database: Engine, url: str, queue: str, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    with blocking.connect(url) as connection, connection.channel() as channel:
        channel.declare_queue(queue, durable=True)
    command = ("relay", "--database", whole(database), "--url", url, "--set", "lease_s=0.6")
    first = start(*command)
    first_line(first)
    add(database, "one", routing_key=queue)
    until_sent(database, 1)
    second = start(*command)
    first_line(second)
    first.kill()
    add(database, "two", routing_key=queue)
    until_sent(database, 2)
    second.terminate()
    assert second.wait(DEADLINE_S) == 0


PROGRAM = """
import sys

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from warren.cli.main import run

reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr))
metrics.set_meter_provider(MeterProvider([reader]))
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
sys.exit(run(sys.argv[1:]))
"""


def test_open_telemetry_gets_metrics_if_it_is_configured(database: Engine, url: str, queue: str) -> None:
    with blocking.connect(url) as connection, connection.channel() as channel:
        channel.declare_queue(queue, durable=True)
    add(database, "one", routing_key=queue)
    command = ["client", "relay", "--once", "--telemetry", "--database", whole(database), "--url", url]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "sent 1 rows\n")
    told = ("warren.client.relay.rows", "warren.client.outbox.rows", f"publish {queue}", "messaging.client.sent")
    assert [each for each in told if each not in done.stderr] == []


def test_a_missing_broker_or_database_is_reported_in_one_sentence(database: Engine, url: str) -> None:
    port = free_port()
    silent = f"amqp://guest:guest@127.0.0.1:{port}"
    for arguments, said in {
        ("--database", whole(database), "--url", silent): f"cannot connect to 127.0.0.1:{port}: connection refused",
        ("--database", f"postgresql://shop:moles@127.0.0.1:{port}/shop", "--url", url): "cannot connect to postgresql",
    }.items():
        done = ended("relay", *arguments)
        assert done.returncode == 1
        [sentence] = [line for line in done.stderr.splitlines() if line.startswith("warren: ")]
        assert said in sentence
        assert "moles" not in done.stderr + done.stdout


def test_missing_tables_are_reported_and_created(empty_database: Engine, url: str) -> None:
    options = ("--database", whole(empty_database))
    # an SQLite file exists as soon as it was opened
    empty_database.connect().close()
    refused = ended("relay", *options, "--url", url)
    assert (refused.returncode, "the outbox tables are missing" in refused.stderr) == (1, True)
    checked = ended("tables", "--check", *options)
    assert (checked.returncode, "tables are missing" in checked.stderr) == (1, True)
    made = ended("tables", *options)
    assert (made.returncode, made.stderr) == (0, "")
    with empty_database.connect() as connection:
        check_tables(connection)
    assert ended("tables", "--check", *options).returncode == 0


def test_only_the_tables_command_creates_a_new_sqlite_file(tmp_path: Path) -> None:
    where = sqlite_url(tmp_path)
    refused = ended("tables", "--check", "--database", where)
    assert (refused.returncode, "that is not there" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert ended("tables", "--database", where).returncode == 0
    engine = create_engine(where)
    with engine.connect() as connection:
        check_tables(connection)
    engine.dispose()


# chasing


def test_overdue_messages_are_chased_until_the_chaser_is_stopped(
    database: Engine, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    send(database, "one")
    chaser = start("chase", "--database", whole(database), "--set", "resends=1", "--set", "poll_s=0.05")
    assert first_line(chaser).startswith("ready database=")
    be_late(database)
    run(until(lambda: statuses(database)["one"] == "pending"))
    relay(database)
    be_late(database)
    run(until(lambda: statuses(database)["one"] == "failed"))
    # the row is marked before the alert
    told = iter(chaser.stderr or ())
    assert any(" level=error event=receipt.alert business_id=one " in line for line in told)
    chaser.send_signal(signal.SIGTERM)
    assert chaser.wait(DEADLINE_S) == 0


def test_chase_once_prints_what_it_did(database: Engine) -> None:
    send(database, "again")
    send(database, "back", compensation="reverse")
    be_late(database)
    change(database, "back", resends=3)
    done = ended("chase", "--once", "--database", whole(database))
    assert (done.returncode, done.stdout) == (0, "resent 1, compensated 1, failed 0 rows\n")
    assert statuses(database)["again"] == "pending"
    assert statuses(database)["back"] == "reversing"


def test_a_database_without_tables_is_no_place_to_chase_in(empty_database: Engine) -> None:
    empty_database.connect().close()
    done = ended("chase", "--database", whole(empty_database))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "call warren.client.tables.create_tables" in done.stderr
