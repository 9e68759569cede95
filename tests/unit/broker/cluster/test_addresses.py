"""Addresses of nodes as operators write them."""

import pytest

from warren.broker.cluster.addresses import NodeAddress, PeerAddress, parse_address, parse_node


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("hare", "hare", 25672),
        ("hare:1234", "hare", 1234),
        ("hare.example.com:65535", "hare.example.com", 65535),
        ("10.0.0.7:25672", "10.0.0.7", 25672),
        ("[::1]:25673", "::1", 25673),
        ("[::1]", "::1", 25672),
        ("fe80::7", "fe80::7", 25672),
    ],
)
def test_an_address_is_understood_and_written_the_same_way(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == PeerAddress(host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", ":25672", "hare:", "hare:0", "hare:65536", "hare:many", "hare:²", "a b", "[::1]25672", "[]:1", "a@b"]
)
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST or HOST:PORT, with a port from 1 to 65535"):
        parse_address(text)


def test_a_node_is_found_at_the_host_of_its_name() -> None:
    assert parse_node("warren@hare") == NodeAddress("warren@hare", PeerAddress("hare", 25672))
    assert parse_node("warren@hare:25673") == NodeAddress("warren@hare", PeerAddress("hare", 25673))


@pytest.mark.parametrize("text", ["hare", "@hare", "warren@", "warren@hare:0", "warren@mole@hare", "war ren@hare"])
def test_invalid_node_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a node, like warren@HOST or warren@HOST:PORT"):
        parse_node(text)


def test_equal_addresses_are_one() -> None:
    assert len({PeerAddress("hare", 1), PeerAddress("hare", 1), PeerAddress("hare", 2)}) == 2
    nodes = [NodeAddress(name, PeerAddress("hare", 1)) for name in ("warren@hare", "warren@hare", "other@hare")]
    assert len(set(nodes)) == 2
    assert repr(PeerAddress("hare", 1)) == "PeerAddress('hare', 1)"
