"""The public names: a missing or new name changes the interface."""

from importlib import import_module

import pytest

import warren.client

PROMISED = [
    "BatchFailed",
    "CallTimeout",
    "CannotConnect",
    "CannotConvert",
    "Channel",
    "ChannelClosed",
    "ClientError",
    "ConfirmRange",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "Consumer",
    "ConsumerCancelled",
    "DeclaredQueue",
    "Delivery",
    "LoginRefused",
    "Message",
    "Properties",
    "PublishFailed",
    "ReturnedMessage",
    "SettingsError",
    "TablesRefused",
    "Timestamp",
    "UriError",
    "connect",
]

CHANNEL = [
    "ack",
    "bind_exchange",
    "bind_queue",
    "cancel",
    "close",
    "commit",
    "confirm",
    "consume",
    "declare_exchange",
    "declare_queue",
    "delete_exchange",
    "delete_queue",
    "get",
    "is_open",
    "nack",
    "number",
    "prefetch",
    "publish",
    "purge_queue",
    "recover",
    "rollback",
    "select_transactions",
    "send",
    "send_encoded",
    "send_many",
    "unbind_exchange",
    "unbind_queue",
    "unconfirmed",
    "wait_for_confirms",
]

PACKAGES = {
    "warren.client.batches": [
        "BATCH_BYTES_MAX",
        "BatchBody",
        "batch_messages",
        "batch_records",
        "json_text",
        "plain_text",
    ],
    "warren.client.converters": [
        "BytesConverter",
        "CONVERTERS",
        "Converter",
        "JsonConverter",
        "Received",
        "TextConverter",
        "body_of",
        "payload_of",
    ],
    "warren.client.listening": [
        "Acknowledge",
        "Arrival",
        "Filter",
        "Handler",
        "ImmediateAck",
        "Listener",
        "MessageGroup",
        "Program",
        "Puller",
        "RejectAndDontRequeue",
        "Requester",
        "Retries",
        "StreamReading",
        "Unwanted",
        "backoff",
        "group_layout",
        "group_queue",
        "header_key",
        "parking_queue",
        "retry_queue",
        "routed",
        "tagged",
    ],
    "warren.client.inbox": ["Inbox", "Refused", "Subject", "receipt_for", "subject_of"],
    "warren.client.ledgers": ["OpenItem", "OpenRows", "Standing", "StatusCount", "open_items", "standing"],
    "warren.client.listening.blocking": ["Job", "Program", "Puller", "Requester"],
    "warren.client.measures": ["CONSUMER", "DATABASE", "DESTINATION", "Kind", "Measure", "Measured", "Point", "STATUS"],
    "warren.client.outbox": ["Outbox", "Relay", "RelaySettings"],
    "warren.client.outbox.blocking": ["Relay"],
    "warren.client.receipts": [
        "Alert",
        "Chased",
        "Chaser",
        "ChasingSettings",
        "Marked",
        "Receipts",
        "Refused",
        "compensate",
        "compensating_id",
        "receipt_for",
    ],
    "warren.client.receipts.blocking": ["Chaser"],
    "warren.client.recovering": [
        "ConnectionDown",
        "ConnectionUp",
        "GivenUp",
        "LayoutRefused",
        "Notice",
        "ReconnectFailed",
        "RecoveringTransport",
        "SubscriptionDown",
        "SubscriptionUp",
        "open",
    ],
    "warren.client.recovering.blocking": ["Taken", "Transport", "open"],
    "warren.client.settings": [
        "Absence",
        "Finding",
        "Settings",
        "SettingsBuilder",
        "TemplateSettings",
        "absences",
        "lint",
        "read_settings",
    ],
    "warren.client.tables": [
        "Executor",
        "INBOX",
        "LEASES",
        "LEASE_S_MAX",
        "Lease",
        "METADATA",
        "OUTBOX",
        "VERSIONS",
        "check_tables",
        "connection_of",
        "create_tables",
        "database_time",
        "insert_unless_there",
        "release_lease",
        "renew_lease",
        "take_lease",
    ],
    "warren.client.telemetry": ["Traced", "in_span", "observe", "stamped"],
    "warren.client.template": [
        "Overrides",
        "Template",
        "Transaction",
        "new_message_id",
        "open_template",
        "with_alternate",
    ],
    "warren.client.template.blocking": ["Template", "open_template"],
    "warren.client.testing": ["FaultProxy", "Faults", "MemoryBroker", "MemoryTransport", "StoredMessage"],
    "warren.client.testing.fixtures": ["fault_proxy", "memory_broker", "transport"],
}


def test_the_client_has_its_public_names_and_no_others() -> None:
    assert sorted(warren.client.__all__) == PROMISED
    assert all(hasattr(warren.client, name) for name in PROMISED)


def test_a_channel_has_its_public_names_and_no_others() -> None:
    machinery = {"ended", "happened", "leave"}
    offered = [name for name in dir(warren.client.Channel) if not name.startswith("_") and name not in machinery]
    assert offered == CHANNEL


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_the_client_has_its_public_names_and_no_others(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == PACKAGES[package]
    assert all(hasattr(module, name) for name in PACKAGES[package])
