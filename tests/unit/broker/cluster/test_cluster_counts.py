"""Limits of users and virtual hosts in a cluster count the connections of all nodes."""

from librt.strings import BytesWriter

from tests.support.core_driver import Core
from warren.broker.access.passwords import SHA256, hash_password
from warren.broker.cluster.join import TransientDefinitions, shared_snapshot
from warren.broker.cluster.peer_notices import COUNTS
from warren.broker.commands.requests import JoinCluster, PutUser, SetPermission, SetUserLimits, SetVhostLimits
from warren.broker.links.records import NOTICE, write_text
from warren.broker.metadata.access_definitions import UserDefinition
from warren.broker.metadata.cluster_definitions import NodeDefinition
from warren.broker.model.effects import DropPeer, Effect, SendToPeer
from warren.broker.model.events import (
    Command,
    CommandReceived,
    DefinitionsChanged,
    MetadataMigrated,
    PeerConnected,
    PeerLost,
    PeerReceived,
)
from warren.broker.model.journal import MetadataChange
from warren.broker.model.settings import DISC, BrokerSettings
from warren.wire.methods import ChannelClose, ChannelOpen, ChannelOpenOk, ConnectionClose

NAMES = ("warren@one", "warren@other")
TICKET = 9
PASSWORD_HASH = hash_password(SHA256, "u", b"salt")


class Member(Core):
    """A node with a user `u`, and its notices for the other node."""

    def __init__(self, name: str, limits: list[Command]) -> None:
        super().__init__(BrokerSettings(node_name=name))
        self.outbox: list[bytes] = []
        self.dropped: list[str] = []
        self.command(PutUser("u", PASSWORD_HASH, SHA256, []))
        self.command(SetPermission("u", "/", ".*", ".*", ".*"))
        for limit in limits:
            self.command(limit)

    def join(self) -> None:
        self.turn(CommandReceived(TICKET, JoinCluster()))
        moved = self.answers[TICKET].result
        assert isinstance(moved, TransientDefinitions)
        nodes = [NodeDefinition(node, DISC, "127.0.0.1:1") for node in NAMES]
        own = self.broker.settings.node_name
        shared = shared_snapshot({}, [*moved.definitions, *nodes], own, moved.revision + 1)
        self.turn(MetadataMigrated(100, {key: (created, 50, value) for key, (created, value) in shared.items()}))

    def tried(self) -> str:
        """The reason why another connection of the user is refused, or empty."""
        client = self.connect()
        answer = client.shake_hands(user="u")[-1].method
        client.lose()
        return "" if not isinstance(answer, ConnectionClose) else answer.reply_text

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if isinstance(effect, SendToPeer):
            self.outbox.append(effect.data)
        elif isinstance(effect, DropPeer):
            self.dropped.append(effect.reason)


class Pair:
    """Two nodes with the same definitions, and a link between them."""

    def __init__(self, *limits: Command) -> None:
        self.one, self.other = (Member(name, list(limits)) for name in NAMES)

    def link(self) -> None:
        self.one.turn(PeerConnected(NAMES[1], 1))
        self.other.turn(PeerConnected(NAMES[0], 1))
        self.carry()

    def part(self) -> None:
        self.one.turn(PeerLost(NAMES[1], "it hangs", refused=False))
        self.other.turn(PeerLost(NAMES[0], "it hangs", refused=False))

    def carry(self) -> list[bytes]:
        """Deliver the notices of both nodes; these notices."""
        carried: list[bytes] = []
        while self.one.outbox or self.other.outbox:
            for sender, receiver, name in ((self.one, self.other, NAMES[0]), (self.other, self.one, NAMES[1])):
                outbox, sender.outbox = sender.outbox, []
                for data in outbox:
                    receiver.turn(PeerReceived(name, data))
                carried += outbox
        return carried


def linked(*limits: Command) -> Pair:
    pair = Pair(*limits)
    pair.one.join()
    pair.other.join()
    pair.link()
    return pair


def test_a_user_s_connections_to_all_nodes_count() -> None:
    pair = linked(SetUserLimits("u", {"max-connections": 2}))
    first = pair.one.client(user="u")
    pair.carry()
    assert pair.other.tried() == ""
    second = pair.other.client(user="u")
    pair.carry()
    refused = "NOT_ALLOWED - connection refused for user 'u': user connection limit (2) is reached"
    assert (pair.one.tried(), pair.other.tried()) == (refused, refused)
    first.lose()
    pair.carry()
    assert pair.other.tried() == ""
    second.lose()


def test_a_virtual_host_s_connections_to_all_nodes_count() -> None:
    pair = linked(SetVhostLimits("/", {"max-connections": 1}))
    pair.one.client(user="guest")
    pair.carry()
    refused = "NOT_ALLOWED - access to vhost '/' refused for user 'u': connection limit (1) is reached"
    assert pair.other.tried() == refused


def test_a_user_s_channels_on_all_nodes_count() -> None:
    pair = linked(SetUserLimits("u", {"max-channels": 3}))
    here, there = pair.one.client(user="u", channels=1), pair.other.client(user="u", channels=1)
    pair.carry()
    there.say(ChannelOpen(), channel=2)
    assert isinstance(there.methods()[0], ChannelOpenOk)
    pair.carry()
    there.say(ChannelClose(reply_code=200, reply_text="", blamed_class_id=0, blamed_method_id=0), channel=2)
    pair.carry()
    here.say(ChannelOpen(), channel=2)
    assert isinstance(here.methods()[0], ChannelOpenOk)
    pair.carry()
    there.heard()
    there.say(ChannelOpen(), channel=2)
    (refusal,) = there.methods()
    assert isinstance(refusal, ConnectionClose)
    text = "NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of (3)"
    assert refusal.reply_text == text


def test_counts_from_before_the_link_count_and_a_lost_node_takes_them_with_it() -> None:
    pair = Pair(SetUserLimits("u", {"max-connections": 1}))
    pair.one.client(user="u")
    pair.one.join()
    pair.other.join()
    assert pair.other.tried() == ""
    pair.link()
    assert pair.other.tried() != ""
    pair.part()
    assert pair.other.tried() == ""
    pair.link()
    assert pair.other.tried() != ""


def test_links_of_a_node_to_itself_count_nowhere() -> None:
    pair = linked(SetUserLimits("u", {"max-connections": 1, "max-channels": 1}))
    pair.one.link(user="u")
    pair.carry()
    assert pair.other.tried() == ""
    client = pair.one.client(user="u", channels=1)
    assert len(pair.one.broker.connections[client.number].channels) == 1


def test_a_later_limit_counts_existing_connections_and_a_cleared_one_none() -> None:
    pair = linked()
    pair.one.client(user="u")
    assert pair.carry() == [], "nobody has a limit"
    for revision, limits in ((101, {"max-connections": 1}), (102, {}), (103, {"max-connections": 1})):
        user = UserDefinition("u", PASSWORD_HASH, SHA256, [], limits)
        for node in (pair.one, pair.other):
            node.turn(DefinitionsChanged(revision, [MetadataChange(revision, user.key(), user.value())]))
        if revision == 103:
            # the other node has not sent its counts: an old count would be wrong
            assert pair.other.tried() == ""
        pair.carry()
        assert (pair.other.tried() != "") == bool(limits)


def test_only_counts_that_moved_are_sent_once_a_turn() -> None:
    pair = linked(SetUserLimits("u", {"max-connections": 9}), SetVhostLimits("/", {"max-connections": 9}))
    client = pair.one.client(user="u", channels=0)
    assert len(pair.carry()) == 1
    client.say(ChannelOpen())
    assert pair.carry() == []


def test_malformed_counts_end_the_link() -> None:
    pair = linked()
    out = BytesWriter()
    write_text(out, NOTICE, 0, bytes([COUNTS, 1, 0]))
    pair.one.turn(PeerReceived(NAMES[1], out.getvalue()))
    assert pair.one.dropped == ["counts that end too soon"]
