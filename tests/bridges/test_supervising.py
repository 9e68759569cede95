"""Bridges run where and while they are wanted, as they are defined, and one of each."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from tests.bridges.lone_host import LoneHost
from tests.bridges.test_carrying import run
from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.host import BridgeHost
from warren.bridges.supervisor import BridgeSupervisor
from warren.client import UriError


@dataclass
class Diary:
    """What happened to bridges, in order."""

    lines: list[str] = field(default_factory=list)
    running: int = 0
    wanted_at_the_end: list[str] = field(default_factory=list)
    # unset: those that are to end take their time
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_end.set()


@dataclass(frozen=True)
class Written(Bridge):
    """Writes down when it lives; `then` is how its life ends, if not because it is told to."""

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
                raise KeyError("nobody expected it")
            if self.then == "":
                await asyncio.Event().wait()
        finally:
            await self.diary.may_end.wait()
            self.diary.running -= 1
            self.diary.lines.append(f"{self.name}.{self.version} ends")

    async def retire(self, host: BridgeHost, wanted: Collection[Bridge]) -> None:
        self.diary.lines.append(f"{self.name}.{self.version} retires")
        self.diary.wanted_at_the_end = [bridge.key for bridge in wanted]


class Wishes:
    """A kind whose bridges the test names."""

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
        self.host, self.wishes = LoneHost(), Wishes(*bridges)
        self.supervisor = BridgeSupervisor(self.host, [self.wishes])
        self.supervisor.start()

    async def want(self, *bridges: Bridge) -> None:
        self.wishes.bridges = list(bridges)
        await self.look()

    async def look(self) -> None:
        """Returns when what was wanted is done: who asks again has done with what he was told before."""
        for _ in range(2):
            asked = self.wishes.asked
            self.host.change()
            while self.wishes.asked == asked:
                await asyncio.sleep(0.001)


async def written(diary: Diary, *lines: str) -> None:
    """Returns when that is all that happened; a test that waits for ever for it fails by its deadline."""
    while diary.lines != list(lines):
        await asyncio.sleep(0.001)


def test_a_changed_bridge_ends_before_it_begins_anew_and_an_unchanged_one_is_left_alone() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await stage.look()
        await stage.want(Written("a", diary))
        await stage.want(Written("a", diary, version=2))
        await written(diary, "a.1 begins", "a.1 ends", "a.2 begins")
        assert stage.supervisor.keepers["a"].facts == {"version": 2}
        await stage.supervisor.stop()
        # its node stops: it is still wanted
        assert diary.lines[-1] == "a.2 ends"

    run(scenario())


def test_one_that_is_wanted_no_more_retires_and_one_that_moves_does_not() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await stage.look()
        stage.host.responsible = False
        await stage.look()
        await written(diary, "a.1 begins", "a.1 ends")
        stage.host.responsible = True
        await stage.look()
        await stage.want()
        await written(diary, "a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends", "a.1 retires")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_is_deleted_while_it_ends_for_another_reason_retires() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
        diary.may_end.clear()
        await stage.want(Written("a", diary, version=2))
        await stage.want()
        diary.may_end.set()
        await written(diary, "a.1 begins", "a.1 ends", "a.1 retires")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_is_defined_again_while_it_ends_does_not_retire() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
        diary.may_end.clear()
        await stage.want()
        await stage.want(Written("a", diary))
        diary.may_end.set()
        await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_retires_is_told_who_is_wanted() -> None:
    async def scenario() -> None:
        first, second = Diary(), Diary()
        stage = Stage(Written("a", first))
        await written(first, "a.1 begins")
        await stage.want(Written("b", second))
        await written(first, "a.1 begins", "a.1 ends", "a.1 retires")
        assert first.wanted_at_the_end == ["b"]
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_belongs_to_a_node_runs_there_alone() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary, at="other@test"))
        await stage.look()
        assert diary.lines == []
        stage.host.responsible = False
        await stage.want(Written("a", diary, at="lone@test"))
        await written(diary, "a.1 begins")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_breaks_is_tried_again_and_says_why() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary, then="break"))
        while diary.lines.count("a.1 begins") < 3:
            await asyncio.sleep(0.005)
        # for the same reason, and so it is said once
        [broke] = stage.host.log.of("bridge.broke")
        assert broke == {"name": "a", "reason": "a sentence", "again_in_s": 0.01}
        await stage.supervisor.stop()

    run(scenario())


def test_one_without_a_delay_stays_terminated_until_it_is_told_to_begin_anew() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary, then="defect", delay_s=0))
        await written(diary, "a.1 begins", "a.1 ends")
        await stage.look()
        keeper = stage.supervisor.keepers["a"]
        assert keeper.state == "terminated"
        assert "nobody expected it" in keeper.reason
        assert await stage.supervisor.restart("a")
        await written(diary, "a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends")
        assert not await stage.supervisor.restart("b")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_is_done_does_not_begin_again_unless_it_is_changed() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary, then="done"))
        await written(diary, "a.1 begins", "a.1 ends")
        await stage.look()
        assert diary.lines == ["a.1 begins", "a.1 ends"]
        await stage.want(Written("a", diary, version=2, then="done"))
        await written(diary, "a.1 begins", "a.1 ends", "a.2 begins", "a.2 ends")
        await stage.supervisor.stop()

    run(scenario())


def test_a_kind_that_cannot_say_what_it_wants_costs_nobody_anything() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await stage.look()
        stage.wishes.is_broken = True
        await stage.look()
        assert diary.lines == ["a.1 begins"]
        assert stage.host.log.of("bridges.failed")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_takes_long_to_end_holds_up_nobody_but_its_successor() -> None:
    async def scenario() -> None:
        slow, quick = Diary(), Diary()
        stage = Stage(Written("a", slow))
        await written(slow, "a.1 begins")
        slow.may_end.clear()
        await stage.want(Written("a", slow, version=2), Written("b", quick))
        await written(quick, "b.1 begins")
        assert slow.lines == ["a.1 begins"]
        slow.may_end.set()
        await written(slow, "a.1 begins", "a.1 ends", "a.2 begins")
        await stage.supervisor.stop()

    run(scenario())


def test_however_often_it_is_told_to_begin_anew_at_once_one_of_it_lives_and_can_be_stopped() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
        diary.may_end.clear()
        restarts = [asyncio.ensure_future(stage.supervisor.restart("a")) for _ in range(5)]
        await asyncio.sleep(0)
        # one who asked goes away: it begins anew all the same
        restarts[0].cancel()
        diary.may_end.set()
        assert await asyncio.gather(*restarts[1:]) == [True] * 4
        await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
        await stage.supervisor.stop()
        assert diary.lines == ["a.1 begins", "a.1 ends", "a.1 begins", "a.1 ends"]

    run(scenario())


def test_whoever_tells_one_to_begin_anew_that_takes_long_to_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.bridges.supervisor.RESTART_ANSWER_S", 0.01)

    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
        diary.may_end.clear()
        assert await stage.supervisor.restart("a")
        assert diary.lines == ["a.1 begins"]
        diary.may_end.set()
        await written(diary, "a.1 begins", "a.1 ends", "a.1 begins")
        await stage.supervisor.stop()

    run(scenario())


def test_one_that_is_deleted_while_it_is_told_to_begin_anew_does_not() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
        diary.may_end.clear()
        restart = asyncio.ensure_future(stage.supervisor.restart("a"))
        await asyncio.sleep(0)
        await stage.want()
        diary.may_end.set()
        await restart
        await written(diary, "a.1 begins", "a.1 ends", "a.1 retires")
        await stage.supervisor.stop()
        assert diary.running == 0

    run(scenario())


def test_whoever_stops_all_waits_for_those_that_were_about_to_end_and_hurries_none() -> None:
    async def scenario() -> None:
        diary = Diary()
        stage = Stage(Written("a", diary))
        await written(diary, "a.1 begins")
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

    run(scenario())


def test_whoever_stops_all_and_has_little_time_cuts_short_what_they_wait_for() -> None:
    async def scenario() -> None:
        ending, running = Diary(), Diary()
        stage = Stage(Written("a", ending), Written("b", running))
        await written(ending, "a.1 begins")
        await written(running, "b.1 begins")
        ending.may_end.clear()
        running.may_end.clear()
        await stage.want(Written("b", running))
        await stage.supervisor.stop(patience_s=0.01)
        assert stage.supervisor.is_idle

    run(scenario())
