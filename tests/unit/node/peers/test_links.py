"""Links between nodes on loopback: they come, carry, go, and come back."""

import pytest

from tests.support.ports import free_port
from tests.unit.node.peers.burrow import COOKIE, SILENCE_S, Peer, Wire, burrow, rounds_counted, until
from tests.unit.node.shell import LOOPS, ScriptedCore, run_on
from warren.broker.cluster.addresses import parse_address
from warren.broker.model.effects import DropPeer, Effect, SendToPeer
from warren.broker.model.events import Event, PeerConnected, PeerLost, PeerReceived, PeerWritesPaused, PeerWritesResumed
from warren.node.peers import connections
from warren.node.peers.connection import WRITE_HIGH_WATER_BYTES
from warren.node.peers.handshake import DialFailed

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


def test_two_members_have_one_link(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, incarnation=4)
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            assert ant.connections() == [("warren@bee", 4)]
            assert bee.connections() == [("warren@ant", 1)]
            assert ant.losses() == bee.losses() == []
            assert ant.links.links["warren@bee"].facts.address == bee.address

    run_on(loop_name, conversation())


def test_bytes_come_whole_and_in_order_both_ways(loop_name: str) -> None:
    forth = [bytes((number % 251,)) * number * 37 for number in range(1, 300)]
    back = b"a large piece " * 500_000

    def greet(event: Event) -> list[Effect]:
        return [SendToPeer(event.node, piece) for piece in forth] if isinstance(event, PeerConnected) else []

    def answer(event: Event) -> list[Effect]:
        return [SendToPeer(event.node, back)] if isinstance(event, PeerConnected) else []

    async def conversation() -> None:
        ant = Peer("warren@ant", {}, core=ScriptedCore(greet))
        bee = Peer("warren@bee", {}, core=ScriptedCore(answer))
        async with burrow(ant, bee):
            await bee.core.until(lambda: len(bee.received("warren@ant")) >= len(b"".join(forth)))
            await ant.core.until(lambda: len(ant.received("warren@bee")) >= len(back))
            assert bee.received("warren@ant") == b"".join(forth)
            assert ant.received("warren@bee") == back
            assert isinstance(bee.core.events[0], PeerConnected)
            assert ant.links.links["warren@bee"].sent_bytes == len(b"".join(forth))

    run_on(loop_name, conversation())


def test_a_full_buffer_and_its_draining_are_reported(loop_name: str) -> None:
    flood = b"x" * (WRITE_HIGH_WATER_BYTES + 32 * 1024 * 1024)

    def pour(event: Event) -> list[Effect]:
        return [SendToPeer(event.node, flood)] if isinstance(event, PeerConnected) else []

    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}, core=ScriptedCore(pour)), Peer("warren@bee", {})
        async with burrow(ant, bee):
            await ant.core.until(lambda: ant.core.of(PeerWritesPaused))
            await ant.core.until(lambda: ant.core.of(PeerWritesResumed))
            await bee.core.until(lambda: len(bee.received("warren@ant")) == len(flood))

    run_on(loop_name, conversation())


def test_an_idle_link_stays(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            link = ant.links.links["warren@bee"]
            # half as long again as silence needs to end it, in heartbeats of five octets each
            await until(lambda: link.received_bytes >= 6 * 5)
            assert ant.links.links["warren@bee"] is link
            assert ant.losses() == bee.losses() == []
            assert ant.core.of(PeerReceived) == []

    run_on(loop_name, conversation())


def test_a_node_of_more_patience_sends_heartbeats_for_one_of_less(loop_name: str) -> None:
    async def conversation() -> None:
        hasty, calm = Peer("warren@ant", {}), Peer("warren@bee", {}, silence_s=60)
        async with burrow(hasty, calm):
            await hasty.connected_to(calm)
            link = hasty.links.links["warren@bee"]
            await until(lambda: link.received_bytes >= 6 * 5)
            assert hasty.losses() == []

    run_on(loop_name, conversation())


def test_silence_ends_a_link_within_the_setting_and_it_comes_back(loop_name: str) -> None:
    async def conversation() -> None:
        bee = Peer("warren@bee", {})
        wire = Wire(bee.port)
        async with wire as address, burrow(ant := Peer("warren@ant", {"warren@bee": address}), bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            wire.freeze()
            async with rounds_counted(SILENCE_S / 10) as rounds:
                await ant.core.until(ant.losses)
                await bee.core.until(bee.losses)
            # the setting, and as much again for a loop that runs late
            assert rounds[0] < 20
            # the first node to notice connects anew, and the other may hear that before it notices
            reasons = [peer.losses()[0].reason for peer in (ant, bee)]
            assert "it was silent for 1 s" in reasons
            assert set(reasons) <= {"it was silent for 1 s", "it knocked, without a link"}
            assert not any(peer.losses()[0].refused for peer in (ant, bee))
            wire.thaw()
            await ant.connected_to(bee, times=2)
            await bee.connected_to(ant, times=2)

    run_on(loop_name, conversation())


@pytest.mark.parametrize("survivor", ["warren@ant", "warren@bee"])
def test_the_end_of_a_process_is_reported_at_once_and_then_proved(survivor: str, loop_name: str) -> None:
    async def conversation() -> None:
        peers = [Peer("warren@ant", {}), Peer("warren@bee", {})]
        alive, dead = sorted(peers, key=lambda peer: peer.name != survivor)
        async with burrow(*peers):
            await alive.connected_to(dead)
            await dead.connected_to(alive)
            await dead.links.close("it is late")
            await alive.core.until(lambda: len(alive.losses()) == 2)
            told, proved = alive.losses()
            assert (told.node, told.reason, told.refused) == (dead.name, "it said goodbye: it is late", False)
            assert (proved.node, proved.reason, proved.refused) == (dead.name, "connection refused", True)
            await alive.logged("event=peer.died")

    run_on(loop_name, conversation())


def test_a_socket_that_closes_ends_the_link_at_once_and_it_comes_back(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}, silence_s=60), Peer("warren@bee", {}, silence_s=60)
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            bee.links.links["warren@ant"].end("a reason that is not sent")
            await ant.connected_to(bee, times=2)
            await bee.connected_to(ant, times=2)
            assert [loss.refused for loss in ant.losses()] == [False]

    run_on(loop_name, conversation())


@pytest.mark.parametrize("returning", ["warren@ant", "warren@bee"])
def test_a_node_that_comes_back_has_its_links_at_once(
    returning: str, loop_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For either dialling side: the other may be in its longest pause, and must not wait for its end."""
    monkeypatch.setattr(connections, "PAUSE_MIN_S", 600.0)

    async def conversation() -> None:
        port = free_port()
        stays, comes = ("warren@bee", "warren@ant") if returning == "warren@ant" else ("warren@ant", "warren@bee")
        there = Peer(stays, {comes: f"127.0.0.1:{port}"})
        async with burrow(there):
            await there.logged("connection refused")
            back = Peer(comes, {stays: there.address}, port=port)
            async with burrow(back):
                await back.connected_to(there)
                await there.connected_to(back)

    run_on(loop_name, conversation())


def test_a_dropped_node_hears_why_and_is_dialled_again(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            ant.shell.order(DropPeer("warren@bee", "it spoke in riddles"), DropPeer("warren@nobody", ""))
            await bee.core.until(bee.losses)
            assert bee.losses()[0].reason == "it said goodbye: it spoke in riddles"
            await ant.connected_to(bee, times=2)
            assert [loss.reason for loss in ant.losses()] == ["it spoke in riddles"]

    run_on(loop_name, conversation())


def test_bytes_to_an_unconnected_node_are_dropped(loop_name: str) -> None:
    async def conversation() -> None:
        ant = Peer("warren@ant", {})
        async with burrow(ant):
            ant.shell.order(SendToPeer("warren@bee", b"are you there?"))
            await ant.core.until(lambda: ant.core.turns)
            assert ant.shell.stops == []

    run_on(loop_name, conversation())


def test_a_link_ends_when_its_node_is_no_longer_a_member(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            del ant.members["warren@bee"]
            ant.links.members_changed()
            await bee.core.until(bee.losses)
            assert bee.losses()[0].reason == "it said goodbye: warren@bee is no longer a member"
            line = await bee.logged("event=refusal.received")
            assert 'reason="warren@bee is not a member of the cluster of warren@ant"' in line

    run_on(loop_name, conversation())


def test_a_member_without_an_address_does_not_keep_the_others_from_linking(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {"warren@cat": ""}), Peer("warren@bee", {})
        ant.links.members_changed()
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            assert "node=warren@cat" in await ant.logged("event=peer.unreachable")

    run_on(loop_name, conversation())


def test_a_later_run_of_a_node_replaces_the_link_of_the_earlier(loop_name: str) -> None:
    """The earlier one went without a word, and its silence is not noticed yet."""

    async def conversation() -> None:
        bee = Peer("warren@bee", {}, silence_s=60)
        wire = Wire(bee.port)
        async with wire as address, burrow(earlier := Peer("warren@ant", {"warren@bee": address}, silence_s=60), bee):
            await bee.connected_to(earlier)
            wire.freeze()
            await earlier.links.close()
            later = Peer("warren@ant", {"warren@bee": bee.address}, incarnation=2, port=earlier.port)
            async with burrow(later):
                await replaced(bee, "it dialled again")

    run_on(loop_name, conversation())


def test_a_later_run_of_a_node_that_knocks_replaces_the_link_of_the_earlier(loop_name: str) -> None:
    async def conversation() -> None:
        earlier = Peer("warren@ant", {}, silence_s=60)
        wire = Wire(earlier.port)
        async with wire as address:
            aal = Peer("warren@aal", {"warren@ant": address}, silence_s=60)
            async with burrow(aal, earlier):
                await aal.connected_to(earlier)
                await earlier.connected_to(aal)
                wire.freeze()
                await earlier.links.close()
                aal.members["warren@ant"] = earlier.address
                aal.links.members_changed()
                later = Peer("warren@ant", {"warren@aal": aal.address}, incarnation=2, port=earlier.port)
                async with burrow(later):
                    await replaced(aal, "it knocked, without a link")

    run_on(loop_name, conversation())


async def replaced(peer: Peer, reason: str) -> None:
    """A link to the second incarnation of the ant replaces that to the first, whose end is reported in between."""
    await peer.core.until(lambda: len(peer.connections()) == 2)
    kinds = [type(event) for event in peer.core.events if not isinstance(event, PeerReceived)]
    assert kinds == [PeerConnected, PeerLost, PeerConnected]
    assert peer.losses()[0].reason == reason
    assert peer.connections() == [("warren@ant", 1), ("warren@ant", 2)]


def test_a_node_that_wants_to_join_is_answered(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, cluster_id="")
        async with burrow(ant), burrow(bee):
            facts, answer = await bee.links.ask_to_join(parse_address(ant.address), b"x" * 300_000)
            assert (facts.name, answer) == ("warren@ant", b"answer to " + b"x" * 300_000)
            assert ant.asked == [("warren@bee", b"x" * 300_000)]
            assert ant.core.events == []

    run_on(loop_name, conversation())


def test_a_node_that_wants_to_join_without_the_cookie_is_refused_with_that_reason(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {}, cookie=COOKIE + b"!")
        async with burrow(ant), burrow(bee):
            with pytest.raises(DialFailed, match="warren@bee and warren@ant do not have the same cookie"):
                await bee.links.ask_to_join(parse_address(ant.address), b"?")
            assert ant.asked == []

    run_on(loop_name, conversation())
