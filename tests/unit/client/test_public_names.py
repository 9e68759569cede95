"""What programs may rely on: a name that is missing or new here changes what is promised."""

import warren.client

PROMISED = [
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


def test_the_client_offers_what_it_promises_and_nothing_else() -> None:
    assert sorted(warren.client.__all__) == PROMISED
    assert all(hasattr(warren.client, name) for name in PROMISED)


def test_a_channel_offers_what_it_promises_and_nothing_else() -> None:
    machinery = {"ended", "happened"}
    offered = [name for name in dir(warren.client.Channel) if not name.startswith("_") and name not in machinery]
    assert offered == CHANNEL
