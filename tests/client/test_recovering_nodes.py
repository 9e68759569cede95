"""A recovering transport while its brokers are killed, stopped and blocked: Warren, and RabbitMQ."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.client.conftest import url_of
from tests.client.recovery import contents, first_seen, kinds, numbered, only, taken, to
from tests.support.deadlines import in_event_loop, run, until
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.client import CallTimeout, LoginRefused, Message, Properties, recovering
from warren.client.recovering import RecoveringTransport
from warren.client.testing import FaultProxy
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout

Start = Callable[..., NodeProcess]
KILLS = 3
PUBLISHERS = 4


pytestmark = pytest.mark.timeout(480)


@dataclass
class Victim:
    """A broker that is killed, and comes back with its data and its port."""

    url: str
    kill: Callable[[], None]
    start: Callable[[], None]


@pytest.fixture(params=["warren", "rabbitmq"])
def victim(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Victim]:
    if request.param == "warren":
        node = NodeProcess(tmp_path / "victim")
        yield Victim(url_of(node.amqp), node.kill, node.start)
        node.kill()
    else:
        server = RabbitMQ()
        yield Victim(server.url, server.kill, server.start)
        server.close()


class Count:
    """Records of published, confirmed and received messages."""

    def __init__(self) -> None:
        self.confirmed: set[bytes] = set()
        self.arrived: Counter[bytes] = Counter()
        self.is_over = False
        self.publishing = PUBLISHERS

    async def publish(self, transport: RecoveringTransport, queue: str, name: int) -> None:
        number = 0
        while not self.is_over:
            bodies = [b"%d-%06d" % (name, number + each) for each in range(20)]
            number += 20
            outcomes = await transport.publish(to(queue, *bodies))
            self.confirmed |= {body for body, error in zip(bodies, outcomes, strict=True) if error is None}
            assert outcomes == [None] * 20
        self.publishing -= 1

    async def consume(self, transport: RecoveringTransport, queue: str) -> None:
        subscription = await transport.subscribe(queue)
        while self.publishing or not self.confirmed <= self.arrived.keys():
            for message in await subscription.batch(0.1):
                self.arrived[message.body] += 1
                message.ack()
        await subscription.cancel()


def test_nothing_that_was_confirmed_is_lost_while_the_broker_is_killed_again_and_again(victim: Victim) -> None:
    count = Count()

    async def kill_and_start(transport: RecoveringTransport) -> None:
        for _ in range(KILLS):
            enough = len(count.confirmed) + 500
            await until(lambda enough=enough: len(count.confirmed) >= enough)  # type: ignore[misc]
            await asyncio.to_thread(victim.kill)
            await until(lambda: not transport.is_connected)
            await asyncio.to_thread(victim.start)
        enough = len(count.confirmed) + 500
        await until(lambda: len(count.confirmed) >= enough)
        count.is_over = True

    async def talk() -> None:
        async with await recovering.open(victim.url) as transport:
            await transport.declare(only("q"))
            async with asyncio.TaskGroup() as tasks:
                for name in range(PUBLISHERS):
                    tasks.create_task(count.publish(transport, "q", name))
                tasks.create_task(count.consume(transport, "q"))
                await kill_and_start(transport)
            assert await transport.get("q") is None

    run(talk())
    assert set(count.arrived) == count.confirmed
    assert len(count.confirmed) >= 2000


@in_event_loop
async def test_objects_that_did_not_survive_the_broker_are_declared_before_messages_are_resent(victim: Victim) -> None:
    """Neither the exchange nor the queue is durable, so both are gone when the broker is."""
    layout = Layout(
        (ExchangeLayout("topic", "topic", durable=False),),
        (QueueLayout("passing", durable=False),),
        (BindingLayout("topic", "passing", "#"),),
    )
    async with await recovering.open(victim.url) as transport:
        await transport.declare(layout)
        subscription = await transport.subscribe("passing")
        await asyncio.to_thread(victim.kill)
        call = asyncio.ensure_future(transport.publish([Outgoing(Message(b"x"), "topic", "a")] * 100))
        await asyncio.to_thread(victim.start)
        assert await call == [None] * 100
        for message in await taken(subscription, 100):
            message.ack()


@in_event_loop
async def test_the_next_host_is_taken_when_one_is_lost_and_the_first_again_when_that_is(start: Start) -> None:
    first, second = start(), start()
    url = url_of(first.amqp).replace("/%2F", f",{second.amqp[0]}:{second.amqp[1]}/%2F")
    ups: list[str] = []

    def observer(notice: recovering.Notice) -> None:
        if isinstance(notice, recovering.ConnectionUp):
            ups.append(notice.address)

    async def arrives(transport: RecoveringTransport, at: NodeProcess) -> None:
        assert await transport.publish(to("q", b"x")) == [None]
        async with await recovering.open(url_of(at.amqp)) as beside:
            assert await contents(beside, "q") == [b"x"]

    async with await recovering.open(url, observer=observer) as transport:
        await transport.declare(only("q"))
        await arrives(transport, first)
        await asyncio.to_thread(first.kill)
        await until(lambda: not transport.is_connected)
        await arrives(transport, second)
        await until(lambda: transport.is_connected)
        await asyncio.to_thread(first.start)
        await asyncio.to_thread(second.stop)
        await until(lambda: not transport.is_connected)
        await arrives(transport, first)
        await until(lambda: transport.is_connected)
    there, back = (f"{node.amqp[0]}:{node.amqp[1]}" for node in (second, first))
    assert ups == [there, there, back, back]


@in_event_loop
async def test_a_broker_that_stops_in_words_is_waited_for(start: Start) -> None:
    node = start()
    async with await recovering.open(url_of(node.amqp)) as transport:
        await transport.declare(only("q"))
        await asyncio.to_thread(node.stop)
        call = asyncio.ensure_future(transport.publish(numbered("q", 10)))
        await asyncio.to_thread(node.start)
        assert await call == [None] * 10
        assert first_seen(await contents(transport, "q")) == [b"%06d" % number for number in range(10)]


async def control(node: NodeProcess, *words: str) -> None:
    http = f"http://{node.addresses['http'][0]}:{node.addresses['http'][1]}"
    command = [*NodeProcess.COMMAND, "ctl", "--http", http, *words]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)


@in_event_loop
async def test_a_login_that_is_refused_for_a_while_is_tried_again(start: Start) -> None:
    node = start()
    url = url_of(node.amqp).replace("guest:guest", "app:old")
    notices: list[recovering.Notice] = []

    def refusals() -> set[str]:
        failed = [notice for notice in notices if isinstance(notice, recovering.ReconnectFailed)]
        return {notice.role for notice in failed if isinstance(notice.error, LoginRefused)}

    await control(node, "add_user", "app", "old")
    await control(node, "set_permissions", "app", ".*", ".*", ".*")
    async with await recovering.open(url, observer=notices.append) as transport:
        await transport.declare(only("q"))
        await control(node, "change_password", "app", "new")
        await asyncio.to_thread(node.kill)
        call = asyncio.ensure_future(transport.publish(to("q", b"x")))
        await asyncio.to_thread(node.start)
        await until(lambda: refusals() == {"publishing", "consuming"})
        assert kinds(await transport.publish(to("q", b"y"), 0.1)) == [("CannotConnect", "not_sent")]
        await control(node, "change_password", "app", "old")
        assert await call == [None]
        assert await contents(transport, "q") == [b"x"]


@in_event_loop
async def test_a_login_refused_while_reconnecting_becomes_final_and_reaches_all_callers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.client.recovering.connection.LOGIN_PATIENCE_S", 1.0)
    node = start()
    url = url_of(node.amqp).replace("guest:guest", "app:old")
    notices: list[recovering.Notice] = []
    await control(node, "add_user", "app", "old")
    await control(node, "set_permissions", "app", ".*", ".*", ".*")
    transport = await recovering.open(url, observer=notices.append)
    await transport.declare(only("q"))
    subscription = await transport.subscribe("q")
    await control(node, "change_password", "app", "new")
    await asyncio.to_thread(node.kill)
    call = asyncio.ensure_future(transport.publish(to("q", b"x")))
    await asyncio.to_thread(node.start)
    assert kinds(await call) == [("LoginRefused", "not_sent")]
    with pytest.raises(LoginRefused):
        await subscription.batch()
    for attempt in (transport.subscribe("q"), transport.send(to("q", b"x")), transport.get("q")):
        with pytest.raises(LoginRefused):
            await attempt
    assert kinds(await transport.publish(to("q", b"x"))) == [("LoginRefused", "not_sent")]
    assert {notice.role for notice in notices if isinstance(notice, recovering.GivenUp)} == {
        "publishing",
        "consuming",
    }
    await transport.close()


@pytest.mark.parametrize("lacks", ["user", "virtual host"])
@in_event_loop
async def test_a_host_that_refuses_does_not_prevent_another_one(start: Start, lacks: str) -> None:
    one, two = start(), start()
    await control(one, "add_vhost", "v")
    await control(one, "add_user", "app", "secret")
    await control(one, "set_permissions", "-p", "v", "app", ".*", ".*", ".*")
    if lacks == "user":
        await control(two, "add_vhost", "v")
    else:
        await control(two, "add_user", "app", "secret")
    async with FaultProxy(url_of(one.amqp)) as proxy:
        address = f"{two.amqp[0]}:{two.amqp[1]}"
        url = proxy.url.replace("guest:guest", "app:secret").replace("/%2F", f",{address}/v")
        async with await recovering.open(url) as transport:
            await transport.declare(only("q"))
            proxy.cut()
            await until(lambda: not transport.is_connected)
            assert await transport.publish(to("q", b"x"), 30) == [None]
            assert await contents(transport, "q") == [b"x"]


@in_event_loop
async def test_while_the_broker_takes_no_publishes_they_wait_and_acks_go_on(start: Start) -> None:
    node = start()
    async with await recovering.open(url_of(node.amqp)) as transport:
        await transport.declare(only("q"))
        await transport.publish(numbered("q", 10))
        subscription = await transport.subscribe("q", prefetch=1)
        await control(node, "set_disk_free_limit", "900000GB")
        # a broker with an alarm notifies publishers
        while transport.blocked_reason is None:
            await transport.send([Outgoing(Message(b"x"), "", "elsewhere", mandatory=False)])
            await asyncio.sleep(0.02)
        assert "disk" in transport.blocked_reason
        [refused] = await transport.publish(to("q", b"given up"), 0.2)
        assert isinstance(refused, CallTimeout)
        assert refused.outcome == "not_sent"
        assert "disk" in str(refused)
        waiting = asyncio.ensure_future(transport.publish(to("q", b"patient")))
        for _ in range(10):
            [message] = await taken(subscription, 1)
            message.ack()
        assert not waiting.done()
        await control(node, "set_disk_free_limit", "1MB")
        assert await waiting == [None]
        [message] = await taken(subscription, 1)
        assert message.body == b"patient"
        message.ack()
        assert transport.blocked_reason is None


@in_event_loop
async def test_a_close_of_a_blocked_transport_does_not_hang(start: Start) -> None:
    node = start()
    transport = await recovering.open(url_of(node.amqp))
    await control(node, "set_disk_free_limit", "900000GB")
    while transport.blocked_reason is None:
        await transport.send([Outgoing(Message(b"x", Properties()), "", "elsewhere", mandatory=False)])
        await asyncio.sleep(0.02)
    async with asyncio.timeout(30):
        await transport.close(2.0)
