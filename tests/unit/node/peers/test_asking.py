"""Questions between nodes on loopback: answered, refused, given up, and never in the way of each other."""

import asyncio

import pytest

from tests.unit.node.peers.burrow import Peer, burrow, until
from tests.unit.node.shell import DEADLINE_S, LOOPS, run_on
from warren.node.peers import requests

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node is given up because the machine is busy."""
    monkeypatch.setattr(requests, "ANSWER_PATIENCE_S", DEADLINE_S)


async def echo(question: bytes) -> bytes:
    return b"you said " + question


def test_a_member_answers_a_member_both_ways(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            ant.links.answers(echo)
            bee.links.answers(echo)
            assert await ant.links.ask("warren@bee", b"hello") == b"you said hello"
            assert await bee.links.ask("warren@ant", b"") == b"you said "
            large = b"x" * 5_000_000
            assert await ant.links.ask("warren@bee", large) == b"you said " + large

    run_on(loop_name, conversation())


def test_one_conversation_serves_many_questions_and_several_at_once_have_several(loop_name: str) -> None:
    open_now = most = 0

    async def conversation() -> None:
        all_there = asyncio.Event()

        async def together(question: bytes) -> bytes:
            """No question is answered before there are as many as allowed, and one more has time to come."""
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            if open_now == requests.CONVERSATIONS_MAX:
                all_there.set()
            await all_there.wait()
            await asyncio.sleep(0.01)
            open_now -= 1
            return question

        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            bee.links.answers(echo)
            for number in range(3):
                await ant.links.ask("warren@bee", b"%d" % number)
            assert len(bee.links._answerer._conversations) == 1
            bee.links.answers(together)
            wanted = [b"%d" % number for number in range(3 * requests.CONVERSATIONS_MAX)]
            assert await asyncio.gather(*(ant.links.ask("warren@bee", one) for one in wanted)) == wanted
            assert most == requests.CONVERSATIONS_MAX == len(bee.links._answerer._conversations)

    run_on(loop_name, conversation())


def test_a_node_that_takes_too_long_is_given_up_and_asked_again_later(
    loop_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            never = asyncio.get_running_loop().create_future()

            async def wait(question: bytes) -> bytes:
                return bytes(await never)

            bee.links.answers(wait)
            monkeypatch.setattr(requests, "ANSWER_PATIENCE_S", 0.2)
            with pytest.raises(OSError, match=r"no answer in 0\.2 s"):
                await ant.links.ask("warren@bee", b"hello")
            await until(lambda: not bee.links._answerer._conversations)
            bee.links.answers(echo)
            monkeypatch.setattr(requests, "ANSWER_PATIENCE_S", DEADLINE_S)
            assert await ant.links.ask("warren@bee", b"hello") == b"you said hello"

    run_on(loop_name, conversation())


def test_an_idle_conversation_ends_unnoticed(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tire(question: bytes) -> bytes:
        # not before: a conversation in which nothing was asked yet may have to wait for the question
        monkeypatch.setattr(requests, "IDLE_S", 0.05)
        return await echo(question)

    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            bee.links.answers(tire)
            for _ in range(2):
                monkeypatch.setattr(requests, "IDLE_S", DEADLINE_S)
                assert await ant.links.ask("warren@bee", b"hello") == b"you said hello"
                await until(lambda: not bee.links._answerer._conversations)

    run_on(loop_name, conversation())


def test_an_answer_that_is_too_long_is_none(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            bee.links.answers(echo)
            monkeypatch.setattr(requests, "PIECE_BYTES_MAX", 100)
            with pytest.raises(OSError, match="hung up"):
                await ant.links.ask("warren@bee", b"x" * 100)
            assert await ant.links.ask("warren@bee", b"x") == b"you said x"

    run_on(loop_name, conversation())


def test_early_questions_and_those_to_strangers_fail(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            with pytest.raises(OSError, match="hung up"):
                await ant.links.ask("warren@bee", b"hello")
            with pytest.raises(OSError, match="warren@cat is not a member"):
                await ant.links.ask("warren@cat", b"hello")

    run_on(loop_name, conversation())


def test_a_stranger_with_the_cookie_is_not_answered(loop_name: str) -> None:
    async def conversation() -> None:
        bee = Peer("warren@bee", {})
        async with burrow(bee, cat := Peer("warren@cat", {"warren@bee": bee.address})):
            bee.members.pop("warren@cat", None)
            bee.links.answers(echo)
            with pytest.raises(OSError, match="warren@cat is not a member of the cluster of warren@bee"):
                await cat.links.ask("warren@bee", b"hello")

    run_on(loop_name, conversation())


def test_links_are_listed_with_their_addresses_and_bytes(loop_name: str) -> None:
    async def conversation() -> None:
        ant, bee = Peer("warren@ant", {}), Peer("warren@bee", {})
        async with burrow(ant, bee):
            await ant.connected_to(bee)
            await bee.connected_to(ant)
            (there,) = ant.links.standing()
            (back,) = bee.links.standing()
            assert (there.node, back.node) == ("warren@bee", "warren@ant")
            assert (there.own_host, there.own_port) == (back.peer_host, back.peer_port)
            assert there.peer_port == bee.port

    run_on(loop_name, conversation())
