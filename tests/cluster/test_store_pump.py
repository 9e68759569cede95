"""Events of the metadata store for the core: the age of an answer, and refusals of the store."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.etcd_world import CIPHER, Members, as_user, carry_out, connected
from tests.support.deadlines import DEADLINE_S, in_event_loop, until
from warren.admin.background import BackgroundTasks
from warren.broker.model.effects import Effect, ProposeTransaction
from warren.broker.model.events import DefinitionsChanged, DefinitionsCurrent, Event, TransactionDecided
from warren.errors import StoreError
from warren.node.cluster.metadata_store import MetadataPump
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.messages import encode_text
from warren.node.etcd.store import EtcdStore
from warren.node.logs import Log, LogLevels
from warren.node.tls import TlsFiles
from warren.node.turn_loop import Clock, TurnLoop

PASSWORD = "open sesame"
FROZEN_S = 0.5
"""Far shorter than the deadline of a question."""

AGE_MS_MIN = 400


class Listener:
    """In the core's place: remembers each event and its time."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Event]] = []

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]:
        self.heard += [(now_ms, event) for event in events]
        return []

    def currents(self) -> list[tuple[int, DefinitionsCurrent]]:
        return [(at_ms, event) for at_ms, event in self.heard if isinstance(event, DefinitionsCurrent)]


class QuestionedStore(EtcdStore):
    """Counts the questions for the current revision."""

    questions = 0

    async def current(self) -> int:
        self.questions += 1
        return await super().current()


class Pumped:
    """A pump between a store and a listener."""

    def __init__(self, store: QuestionedStore) -> None:
        self.store = store
        self.core = Listener()
        self.said = io.StringIO()
        self.failures: list[StoreError] = []
        self.log = Log(LogLevels({}), stream=self.said)
        turns = TurnLoop(self.core, asyncio.get_running_loop(), Clock(), self.log, lambda code: None)
        self.pump = MetadataPump(store, turns, self.log, self.failures.append, BackgroundTasks(self.log))
        turns.attach(self.pump.orders())

    def propose(self, key: str) -> None:
        self.pump.orders()[ProposeTransaction](ProposeTransaction(1, [(key, 0)], [(key, b"")], [], []))

    async def hear_current(self) -> None:
        """Once more."""
        before = len(self.core.currents())
        await until(lambda: len(self.core.currents()) > before)

    async def ask(self) -> None:
        """A question is under way that was not before."""
        before = self.store.questions
        await until(lambda: self.store.questions > before)

    def ages_ms(self) -> list[int]:
        """How old each answer was."""
        return [at_ms - event.asked_ms for at_ms, event in self.core.currents()]

    def log_says(self, words: str) -> bool:
        self.log.settle()
        return words in self.said.getvalue()


@asynccontextmanager
async def pumped(guarded: Members, files: TlsFiles, cluster: str) -> AsyncIterator[Pumped]:
    connection = EtcdConnection(EtcdAddress(tuple(guarded.endpoints()), **as_user("warren", PASSWORD, files)))
    store = QuestionedStore(connection, cluster, "warren@a", CIPHER)
    assert not await store.begun(DEADLINE_S)
    await store.move_in(0, {})
    revision, _snapshot = await store.snapshot()
    made = Pumped(store)
    made.pump.start(revision)
    await made.hear_current()
    yield made
    await made.pump.close()
    await connection.close()
    made.log.close()


async def change_password(guarded: Members, files: TlsFiles, password: str) -> None:
    async with connected(guarded.endpoints()[0], **as_user("root", "top secret", files)) as connection:
        request = encode_text(1, "warren") + encode_text(2, password)
        await carry_out(connection, "/etcdserverpb.Auth/UserChangePassword", request)


@in_event_loop
async def test_a_store_that_declines_is_not_heard_of_until_it_accepts_this_node_again(
    guarded: Members, files: TlsFiles
) -> None:
    async with pumped(guarded, files, "declining") as node:
        await change_password(guarded, files, "another one")
        await until(lambda: node.log_says("event=store.declined"))
        silent_since = len(node.core.currents())
        node.propose("vhosts/refused")
        await until(lambda: any(isinstance(event, TransactionDecided) for _at_ms, event in node.core.heard))
        decided = next(event for _at_ms, event in node.core.heard if isinstance(event, TransactionDecided))
        sentence = "the metadata store does not know this user and password"
        assert (decided.outcome, decided.reason) == ("failed", sentence)
        assert len(node.core.currents()) == silent_since
        assert node.log_says(sentence)
        assert not node.log_says("event=store.accepted")
        await change_password(guarded, files, PASSWORD)
        await node.hear_current()
        node.propose("vhosts/made")
        await until(lambda: any(isinstance(event, DefinitionsChanged) for _at_ms, event in node.core.heard))
        # which is said by the first answer after the watch has begun anew
        await until(lambda: node.log_says("event=store.accepted"))
        assert node.failures == []


@in_event_loop
async def test_an_answer_of_the_store_is_as_old_as_its_question(guarded: Members, files: TlsFiles) -> None:
    async with pumped(guarded, files, "slow") as node:
        # once is enough, unless a question that was frozen for too long was given up
        while max(node.ages_ms()) < AGE_MS_MIN:
            await freeze_an_answer(guarded, node)
        assert min(node.ages_ms()) >= 0


async def freeze_an_answer(guarded: Members, node: Pumped) -> None:
    """Questions asked meanwhile are answered afterwards."""
    guarded.pause(0)
    try:
        await node.ask()
        await asyncio.sleep(FROZEN_S)
    finally:
        guarded.go_on(0)
    await node.hear_current()
