"""The mechanics of the turn, with a core that follows a script."""

import asyncio
import time
from pathlib import Path
from typing import cast

import pytest

from tests.unit.admin.stepped_clocks import SteppedClocks
from tests.unit.node.shell import LOOPS, ScriptedCore, Shell, listening, run_on
from warren.admin import loop_holds
from warren.admin.background import BackgroundTasks
from warren.admin.command_queue import CommandQueue
from warren.broker.cluster.hello import PeerIdentity
from warren.broker.commands.requests import DeleteVhost
from warren.broker.model.effects import (
    AppendRecords,
    CloseConnection,
    DropPeer,
    DropSegments,
    Effect,
    Note,
    PauseReading,
    PauseService,
    ReadJournal,
    RestartNode,
    ResumeReading,
    ResumeService,
    SaveMembers,
    SendBytes,
    SendToPeer,
    SetTimer,
    StopNode,
)
from warren.broker.model.events import (
    BytesReceived,
    CommandReceived,
    ConnectionOpened,
    Event,
    FlushCompleted,
    JournalRead,
    StopRequested,
    WritesPaused,
    WritesResumed,
)
from warren.node import turn_loop
from warren.node.cluster.metadata_store import MetadataPump
from warren.node.config.cluster_settings import ClusterSettings
from warren.node.disk.disk import Disk
from warren.node.etcd.store import EtcdStore
from warren.node.http_auth import HttpAuth, HttpAuthSettings
from warren.node.key_settings import KeySettings
from warren.node.listeners import ListenAddress
from warren.node.logs import Log, LogLevels
from warren.node.password_checks import PasswordChecks
from warren.node.peers.connections import PeerConnections
from warren.node.token_verification import TokenVerification
from warren.node.turn_loop import Clock

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)
BIG = b"x" * 32 * 1024 * 1024


def test_effects_for_other_nodes_go_before_those_for_the_disk_and_all_else_stays_in_order(loop_name: str) -> None:
    ordered: list[Effect] = [
        AppendRecords(1, [], 1, 0, b"data", True),
        SendBytes(1, b"delivery"),
        SendToPeer("warren@bee", b"step"),
        DropPeer("warren@ant", "it lies"),
        SendToPeer("warren@ant", b"too late"),
        Note("info", "done", {}),
    ]

    async def conversation() -> None:
        shell = Shell(ScriptedCore(lambda _event: list(ordered)))
        done: list[Effect] = []
        shell.turns.attach(dict.fromkeys((AppendRecords, SendBytes, SendToPeer, DropPeer, Note), done.append))
        shell.turns.add(StopRequested())
        await shell.core.until(lambda: done)
        assert done == [*ordered[2:5], *ordered[:2], ordered[5]]

    run_on(loop_name, conversation())


def test_events_before_the_turn_are_one_call_of_the_core(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        events = [StopRequested(), BytesReceived(1, b"a"), BytesReceived(2, b"b")]
        for event in events:
            shell.turns.add(event)
        assert shell.core.turns == []
        await shell.core.until(lambda: shell.core.turns)
        assert shell.core.turns == [events]

    run_on(loop_name, conversation())


def test_an_event_that_an_effect_causes_waits_for_the_next_turn(loop_name: str) -> None:
    def flood(event: Event) -> list[Effect]:
        return [SendBytes(event.connection_id, BIG)] if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        core = ScriptedCore(flood)
        async with listening(core) as shell:
            reader, writer = await shell.connect()
            await core.until(lambda: core.of(WritesPaused))
            assert [type(event) for event in core.turns[0]] == [ConnectionOpened]
            assert [type(event) for event in core.turns[1]] == [WritesPaused]
            await reader.readexactly(len(BIG))
            await core.until(lambda: core.of(WritesResumed))
            writer.close()

    run_on(loop_name, conversation())


def test_effects_are_carried_out_in_order(loop_name: str) -> None:
    def answer(event: Event) -> list[Effect]:
        if not isinstance(event, BytesReceived):
            return []
        return [SendBytes(1, b"one "), SendBytes(1, event.data), SendBytes(1, b" three"), CloseConnection(1)]

    async def conversation() -> None:
        async with listening(ScriptedCore(answer)) as shell:
            reader, writer = await shell.connect()
            writer.write(b"two")
            assert await reader.read(-1) == b"one two three"
            writer.close()

    run_on(loop_name, conversation())


def test_effects_for_a_connection_that_is_gone_are_dropped(loop_name: str) -> None:
    async def conversation() -> None:
        async with listening(ScriptedCore()) as shell:
            gone = 77
            shell.order(
                SendBytes(gone, b"x"),
                PauseReading(gone),
                ResumeReading(gone),
                CloseConnection(gone),
                Note("info", "a.b", {}),
            )
            await shell.core.until(lambda: shell.core.turns)
            assert shell.stops == []
            assert [line.split("event=")[1] for line in shell.log.getvalue().splitlines()] == ["a.b"]

    run_on(loop_name, conversation())


def test_bytes_sent_after_the_close_of_their_connection_are_dropped(loop_name: str) -> None:
    def answer(event: Event) -> list[Effect]:
        farewell: list[Effect] = [SendBytes(1, b"bye"), CloseConnection(1), SendBytes(1, b"late"), CloseConnection(1)]
        return farewell if isinstance(event, ConnectionOpened) else []

    async def conversation() -> None:
        async with listening(ScriptedCore(answer)) as shell:
            reader, writer = await shell.connect()
            assert await reader.read(-1) == b"bye"
            assert shell.stops == []
            writer.close()

    run_on(loop_name, conversation())


def test_a_core_that_fails_stops_the_node_and_is_never_asked_again(loop_name: str) -> None:
    def fail(event: Event) -> list[Effect]:
        raise KeyError("a rule was broken")

    async def conversation() -> None:
        shell = Shell(ScriptedCore(fail))
        shell.turns.add(StopRequested())
        await shell.core.until(lambda: shell.core.turns)
        assert shell.stops == [1]
        shell.turns.add(StopRequested())
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(shell.core.turns) == 1
        assert "event=core.failed" in shell.log.getvalue()
        assert "KeyError: 'a rule was broken'" in shell.log.getvalue()

    run_on(loop_name, conversation())


def test_a_slow_turn_is_counted_and_logged_with_what_it_did(loop_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedClocks()
    clock.replace(monkeypatch, turn_loop, loop_holds)

    def take_long(event: Event) -> list[Effect]:
        if isinstance(event, CommandReceived):
            clock.work(0.06)
        return [SetTimer(0)]

    async def conversation() -> None:
        core = ScriptedCore(take_long)
        shell = Shell(core)
        turns = shell.turns
        command = CommandReceived(1, DeleteVhost("v"))
        events = [[StopRequested()], [BytesReceived(7, b"x" * 40), BytesReceived(8, b"y"), command], [command]]
        for number, together in enumerate(events):
            for event in together:
                turns.add(event)
            await core.until(lambda number=number: len(core.turns) > number)
        assert turns.holds.slow_count == 2
        [line] = [line for line in shell.log.getvalue().splitlines() if "event=turn.slow" in line]
        assert "ms=60 cpu_ms=60 effects_ms=0 events=BytesReceived:2,CommandReceived:1" in line
        assert "effects=SetTimer:3 sent_bytes=0" in line
        assert "connection=7 connection_bytes=40 commands=DeleteVhost:1 skipped=0" in line

    run_on(loop_name, conversation())


def test_every_effect_has_a_handler(loop_name: str, tmp_path: Path) -> None:
    async def conversation() -> None:
        turns = Shell(ScriptedCore()).turns
        disk = Disk(str(tmp_path), "hare@here")
        disk.start(turns, lambda error: turns.halt())
        turns.attach(disk.orders())
        turns.attach(CommandQueue(turns.loop, turns.add).orders())
        turns.attach(PasswordChecks(turns.loop, turns.add).orders())
        turns.attach(HttpAuth(HttpAuthSettings(), turns.loop, turns.add).orders())
        settings = ClusterSettings(peer_listener=ListenAddress("127.0.0.1", 0))
        log = Log(LogLevels({}))
        tokens = TokenVerification(KeySettings(), turns.loop, turns.add, log)
        turns.attach(tokens.orders())
        tokens.close()
        tasks = BackgroundTasks(log)
        links = PeerConnections(
            settings, PeerIdentity("hare@here", 1, "", ""), b"cookie", log, dict, _answer_nothing, tasks
        )
        turns.attach(links.orders())
        await links.close()
        turns.attach(MetadataPump(cast(EtcdStore, None), turns, log, lambda error: turns.halt(), tasks).orders())
        log.close()
        # the node's own life, which tests of real processes see: `node.node`, `node.cluster.agent`
        of_the_node = {SaveMembers, PauseService, ResumeService, RestartNode}
        assert set(turns.carried_out()) | of_the_node == set(Effect.__subclasses__())
        disk.close()

    run_on(loop_name, conversation())


async def _answer_nothing(facts: PeerIdentity, request: bytes) -> bytes:
    return b""


def test_an_order_for_the_disk_stops_a_node_that_has_none(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        shell.order(DropSegments([1]))
        await shell.core.until(lambda: shell.core.turns)
        assert shell.stops == [1]
        assert "event=core.failed" in shell.log.getvalue()

    run_on(loop_name, conversation())


def test_orders_for_the_disk_are_carried_out_and_answered(loop_name: str, tmp_path: Path) -> None:
    async def conversation() -> None:
        core = ScriptedCore()
        shell = Shell(core)
        disk = Disk(str(tmp_path), "hare@here")
        disk.start(shell.turns, lambda error: shell.turns.halt())
        shell.turns.attach(disk.orders())
        shell.order(AppendRecords(1, [], 1, 0, b"head", flush=True))
        await core.until(lambda: core.of(FlushCompleted))
        shell.order(ReadJournal(7, 1, [(0, 4)]))
        await core.until(lambda: core.of(JournalRead))
        [stored], [read] = core.of(FlushCompleted), core.of(JournalRead)
        assert (stored.written_no, stored.flushed_no) == (1, 1)
        assert (read.ticket, read.blocks) == (7, [b"head"])
        assert disk.close() == 0

    run_on(loop_name, conversation())


def test_a_halted_node_ends_with_exit_code_one_and_its_core_is_not_asked_again(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        shell.turns.add(StopRequested())
        shell.turns.halt()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (shell.stops, shell.core.turns) == ([1], [])

    run_on(loop_name, conversation())


def test_a_stop_order_stops_the_node_with_exit_code_zero(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        shell.order(StopNode())
        await shell.core.until(lambda: shell.core.turns)
        assert shell.stops == [0]

    run_on(loop_name, conversation())


def test_a_timer_wakes_the_core_at_its_time_and_not_before(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        at_ms = Clock().now_ms() + 60
        shell.order(SetTimer(at_ms))
        await shell.core.until(lambda: len(shell.core.turns) == 2)
        assert shell.core.turns[1] == []
        assert shell.core.times_ms[1] >= at_ms

    run_on(loop_name, conversation())


def test_a_timer_in_the_past_wakes_the_core_at_once(loop_name: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore(), Clock(lambda: 5_000_000_000, lambda: 0))
        shell.order(SetTimer(4_000))
        await shell.core.until(lambda: len(shell.core.turns) == 2)
        assert shell.core.times_ms == [5_000, 5_000]

    run_on(loop_name, conversation())


@pytest.mark.parametrize(("first_ms", "second_ms"), [(30, 120), (5_000_000, 60)])
def test_a_timer_replaces_the_one_before(loop_name: str, first_ms: int, second_ms: int) -> None:
    async def conversation() -> None:
        # time stands still until both are ordered: the first of them must not be over by then
        stands_at_ns: list[int] = [time.monotonic_ns()]
        clock = Clock(time.time_ns, lambda: stands_at_ns[0] if stands_at_ns else time.monotonic_ns())
        shell = Shell(ScriptedCore(), clock)
        start_ms = clock.now_ms()
        shell.order(SetTimer(start_ms + first_ms), SetTimer(start_ms + second_ms))
        await shell.core.until(lambda: len(shell.core.turns) == 1)
        stands_at_ns.clear()
        await shell.core.until(lambda: len(shell.core.turns) == 2)
        assert shell.core.times_ms[1] >= start_ms + second_ms
        # and it does not come twice: the loop reaches a later time without another turn
        await asyncio.sleep(0.05)
        assert len(shell.core.turns) == 2

    run_on(loop_name, conversation())


def test_a_turn_at_or_after_the_timers_time_counts_as_its_waking(loop_name: str) -> None:
    async def conversation() -> None:
        monotonic_ns = [0]
        shell = Shell(ScriptedCore(), Clock(lambda: 1_000_000_000, lambda: monotonic_ns[0]))
        shell.order(SetTimer(1_020))
        await shell.core.until(lambda: len(shell.core.turns) == 1)
        monotonic_ns[0] = 30_000_000
        shell.turns.add(StopRequested())
        await shell.core.until(lambda: len(shell.core.turns) == 2)
        await asyncio.sleep(0.05)
        assert shell.core.times_ms == [1_000, 1_030]

    run_on(loop_name, conversation())
