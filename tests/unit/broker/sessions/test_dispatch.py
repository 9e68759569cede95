"""Every method that a client may send on a channel has a handler."""

import pytest

from tests.support.core_driver import Core, spoken
from warren.broker.sessions import input as session_input
from warren.broker.sessions.input import HANDLERS
from warren.wire.methods import NAMES, READERS, ChannelOpen, ConnectionClose, Method
from warren.wire.values import ArgumentReader

# recognised by their ids before a method is decoded
UNDECODED = {
    "basic.publish": session_input.BASIC_PUBLISH,
    "basic.ack": session_input.BASIC_ACK,
    "channel.open": session_input.CHANNEL_OPEN,
    "channel.close": session_input.CHANNEL_CLOSE,
    "channel.close-ok": session_input.CHANNEL_CLOSE_OK,
}

# methods that only a server sends: answers, and those sent unasked
OF_THE_SERVER = {name for name in NAMES.values() if name.endswith("-ok")} | {
    "basic.deliver",
    "basic.return",
    "basic.get-empty",
}


def of_channels() -> set[str]:
    return {name for name in NAMES.values() if not name.startswith("connection.")}


def test_the_registry_names_every_method_it_reads() -> None:
    assert NAMES.keys() == READERS.keys()
    assert len(set(NAMES.values())) == len(NAMES)


def test_every_method_of_a_channel_is_handled_or_takes_the_short_road() -> None:
    of_clients = (of_channels() - OF_THE_SERVER) | {"channel.close-ok"}
    assert HANDLERS.keys() | UNDECODED.keys() == of_clients
    assert HANDLERS.keys().isdisjoint(UNDECODED)


def test_the_short_road_goes_by_the_ids_of_the_registry() -> None:
    assert {NAMES[int(number)]: int(number) for number in UNDECODED.values()} == UNDECODED


def read_from_zeros(number: int) -> Method:
    """A method of that kind with every argument zero, false or empty."""
    return READERS[number](ArgumentReader(bytes(64), 0, 64))


@pytest.mark.parametrize("name", sorted(OF_THE_SERVER - {"channel.close-ok"}))
def test_methods_of_a_server_are_refused_from_a_client(name: str) -> None:
    core = Core()
    client = core.client()
    (number,) = [number for number, known in NAMES.items() if known == name]
    channel = 0 if name.startswith("connection.") else 1
    client.say(read_from_zeros(number), channel=channel)
    (heard,) = client.heard()
    assert isinstance(heard.method, ConnectionClose)
    assert heard.method.reply_code in (503, 504)


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_every_handler_answers_or_faults_but_never_breaks(name: str) -> None:
    core = Core()
    client = core.client()
    (number,) = [number for number, known in NAMES.items() if known == name]
    client.say(read_from_zeros(number))
    assert len(client.heard()) == 1


def test_a_channel_is_opened_once() -> None:
    core = Core()
    client = core.client()
    client.read(spoken(ChannelOpen()))
    (heard,) = client.heard()
    assert isinstance(heard.method, ConnectionClose)
    assert (heard.method.reply_code, heard.method.reply_text) == (504, "CHANNEL_ERROR - second 'channel.open' seen")
