"""Scrapes of a node while clients work."""

import math

import pytest

from tests.support.core_driver import published
from tests.unit.admin.history.world import SampledCore
from tests.unit.admin.metrics.scraping import scraped
from warren.admin.metrics.groups import BY_NAME, PER_OBJECT, WHOLE, MetricGroup, named
from warren.admin.metrics.scrape import PIECE_SAMPLES
from warren.wire.methods import BasicAck, BasicGet, BasicQos, BasicReject

CLASSIC = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}
NAME = "127.0.0.1:40001 -> 127.0.0.1:5672"


def busy_core() -> SampledCore:
    """Twelve messages in q, three of them unacked and one acked; one unroutable."""
    core = SampledCore()
    client = core.client(channels=2)
    client.declare("q")
    client.declare("empty")
    client.confirm()
    client.read(b"".join(published("q", b"four") for _ in range(13)) + published("nowhere"))
    client.say(BasicQos(prefetch_count=4), channel=2)
    client.consume("q", channel=2)
    client.say(BasicAck(delivery_tag=1), channel=2)
    client.say(BasicReject(delivery_tag=2, requeue=False), channel=2)
    client.say(BasicGet(queue="empty"), channel=2)
    client.heard()
    return core


@pytest.mark.parametrize("groups", [WHOLE, PER_OBJECT, named(list(BY_NAME)), named([])])
def test_a_document_is_well_formed(groups: list[MetricGroup]) -> None:
    scraped(busy_core(), groups).check_form()
    scraped(SampledCore(), groups).check_form()


def test_totals_are_exported() -> None:
    told = scraped(busy_core(), WHOLE)
    assert told.value("rabbitmq_queue_messages_ready") == 7
    assert told.value("rabbitmq_queue_messages_unacked") == 4
    assert told.value("rabbitmq_queue_messages") == 11
    assert told.value("rabbitmq_queue_messages_bytes") == 44
    assert told.value("rabbitmq_queue_messages_ready_ram") == 7
    assert told.value("rabbitmq_queue_consumers") == 1
    assert told.value("rabbitmq_queues") == 2
    assert told.value("rabbitmq_connections") == 1
    assert told.value("rabbitmq_channels") == 2
    assert told.value("rabbitmq_consumers") == 1
    assert told.value("rabbitmq_channel_messages_unacked") == 4
    assert told.value("rabbitmq_consumer_prefetch") == 4
    assert told.value("rabbitmq_connection_channels") == 2
    assert told.value("rabbitmq_connection_incoming_bytes_total") > 500
    assert told.types["rabbitmq_queue_messages_ready"] == "gauge"
    assert told.types["rabbitmq_connections_opened_total"] == "counter"
    assert told.types["rabbitmq_alarms_memory_used_watermark"] == "unknown"


def test_counters_of_the_node_are_exported_for_all_time() -> None:
    told = scraped(busy_core(), WHOLE)
    assert told.value("rabbitmq_global_messages_received_total", protocol="amqp091") == 14
    assert told.value("rabbitmq_global_messages_received_confirm_total", protocol="amqp091") == 14
    assert told.value("rabbitmq_global_messages_routed_total", protocol="amqp091") == 13
    assert told.value("rabbitmq_global_messages_confirmed_total", protocol="amqp091") == 14
    assert told.value("rabbitmq_global_messages_unroutable_dropped_total", protocol="amqp091") == 1
    assert told.value("rabbitmq_global_messages_delivered_total", **CLASSIC) == 6
    assert told.value("rabbitmq_global_messages_delivered_consume_manual_ack_total", **CLASSIC) == 6
    assert told.value("rabbitmq_global_messages_acknowledged_total", **CLASSIC) == 1
    assert told.value("rabbitmq_global_messages_get_empty_total", **CLASSIC) == 1
    assert told.value("rabbitmq_global_publishers", protocol="amqp091") == 1
    rejected = "rabbitmq_global_messages_dead_lettered_rejected_total"
    assert told.value(rejected, queue_type="rabbit_classic_queue", dead_letter_strategy="disabled") == 1
    assert told.value(rejected, queue_type="rabbit_classic_queue", dead_letter_strategy="at_most_once") == 0


def test_each_object_is_exported_with_its_labels() -> None:
    told = scraped(busy_core(), PER_OBJECT)
    assert told.value("rabbitmq_queue_messages_ready", vhost="/", queue="q") == 7
    assert told.value("rabbitmq_queue_messages_ready", vhost="/", queue="empty") == 0
    assert told.value("rabbitmq_queue_consumers", vhost="/", queue="q") == 1
    assert 0 <= told.value("rabbitmq_queue_consumer_capacity", vhost="/", queue="q") <= 1
    assert math.isnan(told.value("rabbitmq_queue_head_message_timestamp", vhost="/", queue="q"))
    assert told.value("rabbitmq_queue_messages_published_total", queue_vhost="/", queue="q") == 13
    assert told.value("rabbitmq_connection_channels", channel=NAME) == 2
    assert told.value("rabbitmq_channel_consumers", channel=f"{NAME} (2)") == 1
    into = {"channel": f"{NAME} (1)", "vhost": "/", "exchange": ""}
    assert told.value("rabbitmq_channel_messages_published_total", **into) == 14
    assert told.value("rabbitmq_channel_messages_confirmed_total", **into) == 14
    assert told.value("rabbitmq_channel_messages_unroutable_dropped_total", **into) == 1
    from_q = {"channel": f"{NAME} (2)", "vhost": "/", "queue": "q"}
    assert told.value("rabbitmq_channel_messages_delivered_ack_total", **from_q) == 6
    assert told.value("rabbitmq_channel_messages_acked_total", **from_q) == 1
    assert told.value("rabbitmq_queues") == 2


def test_objects_and_their_sum_have_the_same_metrics() -> None:
    core = busy_core()
    whole, each = scraped(core, WHOLE), scraped(core, PER_OBJECT)
    # shares cannot be summed, nor can the timestamp of the head
    singular = ("capacity", "utilisation", "head_message")
    names = [name for name, _ in whole.samples if name.startswith(("rabbitmq_queue_", "rabbitmq_channel_"))]
    assert len(names) > 20
    for name in names:
        if not any(word in name for word in singular):
            assert sum(each.of(name).values()) == whole.value(name), name


def test_detailed_metrics_are_the_requested_ones_with_their_own_names() -> None:
    core = busy_core()
    told = scraped(core, named(["queue_coarse_metrics", "nosuch", "queue_coarse_metrics", "exchange_names"]))
    assert told.value("rabbitmq_detailed_queue_messages", vhost="/", queue="q") == 11
    exchanges = {dict(labels)["exchange"] for labels in told.of("rabbitmq_cluster_exchange_name")}
    assert exchanges == {"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"}
    others = {name for name, _ in told.samples if "queue" not in name} - {"rabbitmq_cluster_exchange_name"}
    assert others == {"rabbitmq_build_info", "rabbitmq_identity_info"}


def test_a_family_that_two_groups_have_is_exported_once() -> None:
    told = scraped(busy_core(), named(["queue_metrics", "queue_consumer_count"]))
    told.check_form()
    assert told.value("rabbitmq_detailed_queue_consumers", vhost="/", queue="q") == 1


def test_details_may_be_of_some_virtual_hosts_only() -> None:
    core = busy_core()
    groups = named(["queue_coarse_metrics"])
    assert scraped(core, groups, frozenset({"nosuch"})).of("rabbitmq_detailed_queue_messages") == {}
    assert len(scraped(core, groups, frozenset({"/", "x"})).of("rabbitmq_detailed_queue_messages")) == 2


def test_a_name_may_hold_anything() -> None:
    core = SampledCore()
    client = core.client()
    names = ['quote " and \\', "tab\t", "emoji 🐇", "x" * 255, "{}=,"]
    for name in names:
        client.declare(name)
    told = scraped(core, PER_OBJECT)
    told.check_form()
    shown = {dict(labels)["queue"] for labels in told.of("rabbitmq_queue_messages")}
    assert shown == set(names)


def test_a_long_document_leaves_in_pieces() -> None:
    core = SampledCore()
    client = core.client()
    for number in range(PIECE_SAMPLES + 1):
        client.declare(f"q{number}")
    told = scraped(core, PER_OBJECT)
    told.check_form()
    assert len(told.pieces) > 20
    assert max(map(len, told.pieces)) < 500 * PIECE_SAMPLES
    assert len(told.of("rabbitmq_queue_messages_ram")) == PIECE_SAMPLES + 1
    assert len(scraped(core, WHOLE).pieces) == 1


def test_logins_are_exported_by_protocol() -> None:
    core = busy_core()
    core.connect().log_in("guest", "wrong")
    core.verify_passwords()
    told = scraped(core, WHOLE)
    assert told.value("rabbitmq_auth_attempts_total", protocol="amqp091") == 2
    assert told.value("rabbitmq_auth_attempts_failed_total", protocol="amqp091") == 1
    assert told.value("rabbitmq_auth_attempts_succeeded_total", protocol="amqp091") == 1
    assert told.value("rabbitmq_auth_attempts_total", protocol="http") == 0


def test_an_alarm_is_reported() -> None:
    core = SampledCore()
    assert scraped(core, WHOLE).value("rabbitmq_alarms_memory_used_watermark") == 0
    core.broker.alarm = "low on memory & disk"
    told = scraped(core, WHOLE)
    assert told.value("rabbitmq_alarms_memory_used_watermark") == 1
    assert told.value("rabbitmq_alarms_free_disk_space_watermark") == 1
    assert told.value("rabbitmq_alarms_file_descriptor_limit") == 0
