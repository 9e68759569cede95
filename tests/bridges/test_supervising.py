"""Each bridge runs once, on its node, as long as it is defined, and as its definition says."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from tests.bridges.lone_host import LoneHost
from tests.support.deadlines import in_event_loop, until
from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.host import BridgeHost
from warren.bridges.supervisor import BridgeSupervisor
from warren.client import UriError


@dataclass
class Diary:
    """The starts and ends of bridges, in order."""

    lines: list[str] = field(default_factory=list)
    running: int = 0
    wanted_at_the_end: list[str] = field(default_factory=list)
    # unset: bridges that are to end wait
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_end.set()


@dataclass(frozen=True)
class Written(Bridge):
    """Records its start and end; `then` is how it ends by itself."""

    name: str
    diary: Diary = field(compare=False)
    version: int = 1
    then: str = ""
    at: str = ""
    delay_s: float = 0.01

    @property
    def key(self) -> str:
        return self.name

    @property
    def home(self) -> str:
        return self.at

    @property
    def reconnect_delay_s(self) -> float:
        return self.delay_s

    def describe(self) -> Mapping[str, object]:
        return {"name": self.name}

    async def live(self, life: BridgeRun) -> None:
        self.diary.lines.append(f"{self.name}.{self.version} begins")
        self.diary.running += 1
        assert self.diary.running == 1, "two of them at once"
        try:
            life.is_up(version=self.version)
            if self.then == "break":
                raise UriError("a sentence")
            if self.then == "defect":
                raise KeyError("an unexpected error")
            if self.then == "":
                await asyncio.Event().wait()
        finally:
            await self.diary.may_end.wait()
            self.diary.running -= 1
            self.diary.lines.append(f"{self.name}.{self.version} ends")

    async def retire(self, host: BridgeHost, wanted: Collection[Bridge]) -> None:
        self.diary.lines.append(f"{self.name}.{self.version} retires")
        self.diary.wanted_at_the_end = [bridge.key for bridge in wanted]


class WantedBridges:
    """A kind of bridges; the test says which are wanted."""

    def __init__(self, *bridges: Bridge) -> None:
        self.bridges = list(bridges)
        self.is_broken = False
        self.asked = 0

    def wanted(self, host: BridgeHost) -> list[Bridge]:
        self.asked += 1
        if self.is_broken:
            raise KeyError("broken")
        return self.bridges


class Stage:
    def __init__(self, *bridges: Bridge) -> None:
        self.host, self.kind = LoneHost(), WantedBridges(*bridges)
        self.supervisor = BridgeSupervisor(self.host, [self.kind])
        self.supervisor.start(lambda work: asyncio.create_task(work()))

    async def want(self, *bridges: Bridge) -> None:
        self.kind.bridges = list(bridges)
        await self.look()

    async def look(self) -> None:
        """Returns when the supervisor has acted: it asks again after it has finished with the answer before."""
        for _ in range(2):
            asked = self.kind.asked
            self.host.change()
            while self.kind.asked == asked:
                await asyncio.sleep(0.001)


async def written(diary: Diary, *lines: str) -> None:
    """Returns when the diary has these lines and no others."""
    await until(lambda: diary.lines == list(lines), pause_s=0.001)


async def running_bridge() -> tuple[Diary, Stage]:
    """Version 1 of bridge a runs."""
    diary = Diary()
    stage = Stage(Written("a", diary))
    await written(diary, "a.1 begins")
    return diary, stage


@in_event_loop
async def test_a_changed_bridge_ends_before_it_begins_anew_and_an_unchanged_one_is_left_alone() -> None:
    diary, stage = await running_bridge()
    await stage.want(Written("a", diary))
    await stage.want(Written("a", diary, version=2))
    await written(diary, "a.1 begins", "a.1 ends", "a.2 begins")
    assert stage.supervisor.keepers["a"].facts == {"version": 2}
    await stage.supervisor.stop()
    # its node stops: it is still wanted, so it does not retire
    assert diary.lines[-1] == "a.2 ends"


@in_event_loop
async def test_a_bridge_that_is_deleted_retires_and_one_that_moves_to_another_node_does_not() -> None:
    diary, stage = await running_bridge()
    stage.host.responsible = False
    await stage.look()
    await written(diary, "a.1 begins", "a.1 ends")
    stage.host.responsible = True
    await stage.look()
    await stage.want()
    await written(diary, "a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends", "a.1 retires")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_is_deleted_while_it_ends_for_another_reason_retires() -> None:
    diary, stage = await running_bridge()
    diary.may_end.clear()
    await stage.want(Written("a", diary, version=2))
    await stage.want()
    diary.may_end.set()
    await written(diary, "a.1 begins", "a.1 ends", "a.1 retires")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_is_defined_again_while_it_ends_does_not_retire() -> None:
    diary, stage = await running_bridge()
    diary.may_end.clear()
    await stage.want()
    await stage.want(Written("a", diary))
    diary.may_end.set()
    await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_retires_is_given_the_bridges_that_are_still_wanted() -> None:
    diary, stage = await running_bridge()
    await stage.want(Written("b", Diary()))
    await written(diary, "a.1 begins", "a.1 ends", "a.1 retires")
    assert diary.wanted_at_the_end == ["b"]
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_with_a_home_node_runs_there_alone() -> None:
    diary = Diary()
    stage = Stage(Written("a", diary, at="other@test"))
    await stage.look()
    assert diary.lines == []
    stage.host.responsible = False
    await stage.want(Written("a", diary, at="lone@test"))
    await written(diary, "a.1 begins")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_breaks_is_tried_again_and_its_reason_is_logged_once() -> None:
    diary = Diary()
    stage = Stage(Written("a", diary, then="break"))
    await until(lambda: diary.lines.count("a.1 begins") >= 3)
    [broke] = stage.host.log.of("bridge.broke")
    assert broke == {"name": "a", "reason": "a sentence", "again_in_s": 0.01}
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_without_a_delay_stays_terminated_until_an_operator_restarts_it() -> None:
    diary = Diary()
    stage = Stage(Written("a", diary, then="defect", delay_s=0))
    await written(diary, "a.1 begins", "a.1 ends")
    await stage.look()
    keeper = stage.supervisor.keepers["a"]
    assert keeper.state == "terminated"
    assert "an unexpected error" in keeper.reason
    assert await stage.supervisor.restart("a")
    await written(diary, "a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends")
    assert not await stage.supervisor.restart("b")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_is_done_does_not_begin_again_unless_it_is_changed() -> None:
    diary = Diary()
    stage = Stage(Written("a", diary, then="done"))
    await written(diary, "a.1 begins", "a.1 ends")
    await stage.look()
    assert diary.lines == ["a.1 begins", "a.1 ends"]
    await stage.want(Written("a", diary, version=2, then="done"))
    await written(diary, "a.1 begins", "a.1 ends", "a.2 begins", "a.2 ends")
    await stage.supervisor.stop()


@in_event_loop
async def test_bridges_run_on_when_their_kind_fails_to_list_the_wanted_ones() -> None:
    diary, stage = await running_bridge()
    stage.kind.is_broken = True
    await stage.look()
    assert diary.lines == ["a.1 begins"]
    assert stage.host.log.of("bridges.failed")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_takes_long_to_end_delays_only_its_successor() -> None:
    slow, stage = await running_bridge()
    quick = Diary()
    slow.may_end.clear()
    await stage.want(Written("a", slow, version=2), Written("b", quick))
    await written(quick, "b.1 begins")
    assert slow.lines == ["a.1 begins"]
    slow.may_end.set()
    await written(slow, "a.1 begins", "a.1 ends", "a.2 begins")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_is_restarted_several_times_at_once_runs_once_and_can_be_stopped() -> None:
    diary, stage = await running_bridge()
    diary.may_end.clear()
    restarts = [asyncio.ensure_future(stage.supervisor.restart("a")) for _ in range(5)]
    await asyncio.sleep(0)
    # one caller is cancelled: the bridge restarts all the same
    restarts[0].cancel()
    diary.may_end.set()
    assert await asyncio.gather(*restarts[1:]) == [True] * 4
    await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
    await stage.supervisor.stop()
    assert diary.lines == ["a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends"]


@in_event_loop
async def test_a_restart_is_answered_although_the_bridge_takes_long_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.bridges.supervisor.RESTART_ANSWER_S", 0.01)
    diary, stage = await running_bridge()
    diary.may_end.clear()
    assert await stage.supervisor.restart("a")
    assert diary.lines == ["a.1 begins"]
    diary.may_end.set()
    await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
    await stage.supervisor.stop()


@in_event_loop
async def test_a_bridge_that_is_deleted_while_it_restarts_does_not_begin_again() -> None:
    diary, stage = await running_bridge()
    diary.may_end.clear()
    restart = asyncio.ensure_future(stage.supervisor.restart("a"))
    await asyncio.sleep(0)
    await stage.want()
    diary.may_end.set()
    await restart
    await written(diary, "a.1 begins", "a.1 ends", "a.1 retires")
    await stage.supervisor.stop()
    assert diary.running == 0


@in_event_loop
async def test_stopping_the_supervisor_waits_for_bridges_that_are_about_to_end() -> None:
    diary, stage = await running_bridge()
    diary.may_end.clear()
    await stage.want()
    assert not stage.supervisor.is_idle
    stopping = asyncio.ensure_future(stage.supervisor.stop())
    await asyncio.sleep(0.01)
    assert diary.lines == ["a.1 begins"]
    diary.may_end.set()
    await stopping
    assert diary.lines == ["a.1 begins", "a.1 ends", "a.1 retires"]
    assert stage.supervisor.is_idle


@in_event_loop
async def test_stopping_the_supervisor_with_little_patience_ends_bridges_that_wait() -> None:
    ending, running = Diary(), Diary()
    stage = Stage(Written("a", ending), Written("b", running))
    await written(ending, "a.1 begins")
    await written(running, "b.1 begins")
    ending.may_end.clear()
    running.may_end.clear()
    await stage.want(Written("b", running))
    await stage.supervisor.stop(patience_s=0.01)
    assert stage.supervisor.is_idle
