"""Metrics and rates of a real node, over HTTP, while clients publish."""

import gzip
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pika
from prometheus_client.parser import text_string_to_metric_families

from tests.node.conftest import Connect, Serve
from tests.node.serving import COMMAND, DEADLINE_S, Serving
from tests.node.test_http import LOGIN, asked, plain
from tests.support.ports import free_port
from warren.admin.metrics.scrape import SCRAPES_MAX

INTERVAL_S = 0.5


def scrape_address(node: Serving) -> tuple[str, int]:
    (line,) = [line for line in node.events("listener.opened") if "http/prometheus" in line]
    found = re.search(r"address=(\S+):(\d+)", line)
    assert found is not None
    return found[1], int(found[2])


def scrapes(node: Serving) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*scrape_address(node), timeout=DEADLINE_S)


def values(text: str) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }


def test_metrics_are_scraped_from_their_own_port_and_from_the_http_port(serve: Serve) -> None:
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    for connection in (scrapes(node), plain(node)):
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("content-type") == "text/plain; version=0.0.4"
        told = values(answer.read().decode())
        assert told["rabbitmq_queues"] == 0
        assert told["rabbitmq_process_resident_memory_bytes"] > 10_000_000
        assert told["rabbitmq_process_open_tcp_sockets"] >= 3
        assert told["warren_journal_bytes"] > 0
        connection.close()
    assert node.stop() == 0


def test_the_port_for_metrics_serves_nothing_else(serve: Serve) -> None:
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    connection = scrapes(node)
    assert asked(connection, "/api/overview")[0] == 404
    assert asked(connection, "/metrics/")[0] == 200
    assert asked(connection, "/metrics/nosuch")[0::2] == (404, b"Unknown Registry")
    assert asked(connection, "/metrics", headers={"accept": "application/json"})[0] == 406
    assert asked(connection, "/metrics", method="HEAD")[0] == 204
    assert asked(connection, "/metrics", method="POST")[0] == 405
    usual = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    assert asked(connection, "/metrics", headers={"accept": usual})[0] == 200
    status, headers, body = asked(connection, "/metrics/per-object", headers={"accept-encoding": "gzip"})
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert b"rabbitmq_identity_info{" in gzip.decompress(body)
    status, _, body = asked(connection, "/metrics/detailed?family=vhost_status&family=nosuch")
    assert b'rabbitmq_cluster_vhost_status{vhost="/"} 1\n' in body
    _, _, body = asked(connection, "/metrics")
    assert b'telemetry_scrape_size_bytes_count{registry="per-object"' in body
    connection.close()


def statuses(connection: http.client.HTTPConnection, login: dict[str, str]) -> list[int]:
    found = []
    for path in ("/metrics", "/metrics/default", "/metrics/per-object", "/metrics/detailed?family=vhost_status"):
        connection.request("GET", path, headers=login)
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
    connection.close()
    return found


def test_names_of_objects_need_a_login_on_the_http_port(serve: Serve) -> None:
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    assert statuses(scrapes(node), {}) == [200, 200, 200, 200]
    assert statuses(plain(node), {}) == [200, 200, 401, 401]
    assert statuses(plain(node), LOGIN) == [200, 200, 200, 200]


def test_every_scrape_needs_a_login_if_configured_so(serve: Serve) -> None:
    configuration = "prometheus.authentication.enabled = true"
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", configuration=configuration)
    for connect in (scrapes, plain):
        assert statuses(connect(node), {}) == [401, 401, 401, 401]
        assert statuses(connect(node), LOGIN) == [200, 200, 200, 200]


def test_ports_that_are_not_given_are_on_the_host_that_is(serve: Serve) -> None:
    node = serve("--amqp", "127.0.0.1:0", configuration="management.tcp.port = 0")
    hosts = [line.partition("address=")[2].split()[0].rpartition(":")[0] for line in node.events("listener.opened")]
    assert len(hosts) >= 3
    assert set(hosts) == {"127.0.0.1"}


def test_the_configuration_says_where_and_how_metrics_are_served(serve: Serve) -> None:
    configuration = "\n".join(
        [
            "prometheus.tcp.port = 0",
            "prometheus.tcp.ip = 127.0.0.1",
            "prometheus.path = /figures",
            "prometheus.return_per_object_metrics = true",
        ]
    )
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", configuration=configuration)
    connection = scrapes(node)
    assert asked(connection, "/metrics")[0] == 404
    status, _, body = asked(connection, "/figures")
    assert status == 200
    assert b"# TYPE rabbitmq_queue_head_message_timestamp gauge" in body
    assert asked(connection, "/figures/detailed?family=node_metrics")[0] == 200
    connection.close()


def test_a_node_goes_on_without_the_usual_port_but_not_without_a_configured_one(serve: Serve, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = tmp_path / "taken.conf"
        config.write_text(f"prometheus.tcp.port = {port}\nprometheus.tcp.ip = 127.0.0.1\n")
        options = ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path / "d")]
        refused = subprocess.run(
            [*COMMAND, "serve", "--config", str(config), *options], capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert refused.returncode == 3
        assert f"port {port} of 127.0.0.1 is in use; choose another with prometheus.tcp.port" in refused.stderr
    # The first node takes the usual port unless another process has it; the second finds it taken in any case.
    node = serve("--amqp", "127.0.0.1:0", "--http", f"127.0.0.1:{free_port()}")
    if not node.events("listener.skipped"):
        node = serve("--amqp", "127.0.0.1:0", "--http", f"127.0.0.1:{free_port()}")
    assert node.events("listener.skipped")
    connection = plain(node)
    assert asked(connection, "/metrics")[0] == 200
    connection.close()


def test_rates_and_samples_are_what_was_published(serve: Serve) -> None:
    node = serve(
        "--amqp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        configuration=f"collect_statistics_interval = {INTERVAL_S * 1000:.0f}",
    )
    host, port = node.address()
    client = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    channel = client.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    asking = plain(node)
    # when so many were confirmed
    confirmed: list[tuple[float, int]] = [(time.time(), 0)]
    rates: list[float] = []
    until = time.monotonic() + 8 * INTERVAL_S
    while time.monotonic() < until or not any(rates):
        assert time.monotonic() < until + DEADLINE_S
        for _ in range(20):
            channel.basic_publish("", "q", b"x")
            confirmed.append((time.time(), len(confirmed)))
        details = _stats(asking, "/api/queues/%2F/q").get("publish_details")
        rates.append(details["rate"] if details else 0.0)
    total = len(confirmed) - 1
    took_s = confirmed[-1][0] - confirmed[0][0]
    assert max(rates) > total / took_s / 3

    def newest() -> int:
        return int(_samples(asking, "/api/overview", 30)[0]["sample"])

    node.wait_for(lambda: newest() == total)
    for path in ("/api/overview", "/api/queues/%2F/q"):
        samples = _samples(asking, path, 30)
        assert [one["sample"] for one in samples] == sorted((one["sample"] for one in samples), reverse=True)
        for one in samples:
            _check_sample(one["sample"], one["timestamp"] / 1000, confirmed)
    node.wait_for(lambda: _stats(asking, "/api/queues/%2F/q")["publish_details"]["rate"] == 0.0)
    text = asked(asking, "/metrics")[2].decode()
    assert values(text)["rabbitmq_channel_messages_published_total"] == total
    asking.close()
    client.close()


def _check_sample(sample: int, at_s: float, confirmed: list[tuple[float, int]]) -> None:
    """It equals the count published some time before; a busy machine stretches that time."""
    slack_s = 3 * INTERVAL_S + 1.5
    least = max((count for when, count in confirmed if when < at_s - slack_s), default=0)
    most = max((count for when, count in confirmed if when < at_s + slack_s), default=0)
    assert least <= sample <= most + 1


def _stats(connection: http.client.HTTPConnection, path: str) -> dict[str, Any]:
    status, _, body = asked(connection, path)
    assert status == 200
    stats: dict[str, Any] = json.loads(body).get("message_stats", {})
    return stats


def _samples(connection: http.client.HTTPConnection, path: str, age_s: int) -> list[dict[str, int]]:
    details = _stats(connection, f"{path}?msg_rates_age={age_s}&msg_rates_incr=1")["publish_details"]
    samples: list[dict[str, int]] = details["samples"]
    return samples


def test_few_scrapes_are_under_way_at_a_time(serve: Serve) -> None:
    node = serve("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    queues = [{"name": f"queue {number}", "vhost": "/"} for number in range(6000)]
    with closing(plain(node)) as importing:
        importing.request("POST", "/api/definitions", json.dumps({"queues": queues}), LOGIN)
        assert importing.getresponse().status == 204
    with ExitStack() as unread:
        for _ in range(SCRAPES_MAX):
            scrape = unread.enter_context(socket.create_connection(scrape_address(node), timeout=DEADLINE_S))
            scrape.sendall(b"GET /metrics/per-object HTTP/1.1\r\nhost: localhost\r\n\r\n")
            # the answer has begun, and exceeds all buffers of a client that does not read
            assert scrape.recv(1) == b"H"
        assert scraped_status(node) == 503
    deadline = time.monotonic() + DEADLINE_S
    while scraped_status(node) != 200:
        assert time.monotonic() < deadline
    assert node.stop() == 0


def scraped_status(node: Serving) -> int:
    with closing(scrapes(node)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        answer.read()
        return answer.status


EVERY_TURN_IS_SLOW = """
from warren.admin import loop_holds
from warren.cli.main import main
loop_holds.SLOW_S = 0
main()
"""


def test_slow_turns_of_a_node_are_logged_and_counted(serve: Serve, connect: Connect) -> None:
    node = serve(command=[sys.executable, "-c", EVERY_TURN_IS_SLOW])
    client = connect(node, opened=True)
    channel = client.channel()
    channel.call("queue.declare", queue="q")
    channel.call("basic.consume", queue="q", no_ack=True)

    def delivering_turns() -> list[str]:
        channel.publish("", "q", b"x")
        return [line for line in node.events("turn.slow") if "BytesReceived:1" in line and "SendBytes:1" in line]

    # one line a second
    node.wait_for(delivering_turns)
    connection = scrapes(node)
    connection.request("GET", "/metrics")
    assert values(connection.getresponse().read().decode())["warren_slow_turns_total"] >= 5
    connection.close()
    client.cut()
