"""A template on real brokers: Warren, or the broker that `WARREN_TEST_AMQP` names, and RabbitMQ."""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.deadlines import run
from tests.support.ports import free_port
from warren.cli.main import run as run_command
from warren.client import (
    BatchFailed,
    CannotConnect,
    CannotConvert,
    ChannelClosed,
    ClientError,
    LoginRefused,
    PublishFailed,
    blocking,
)
from warren.client.converters import TextConverter, payload_of
from warren.client.settings import Absence, Settings, SettingsBuilder, absences
from warren.client.template import Template, open_template, with_alternate
from warren.client.template import blocking as blocking_template
from warren.client.transport import ExchangeLayout


@dataclass
class Deposit:
    account: str
    amount: Decimal


@pytest.fixture(params=["warren", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    """The URL of a broker."""
    if request.param == "warren":
        return str(request.getfixturevalue("url"))
    return str(request.getfixturevalue("rabbitmq").url)


@pytest.fixture
def names() -> tuple[str, str]:
    """An exchange and a queue with unique names."""
    unique = uuid.uuid4().hex[:10].upper()
    return f"SHOP_TO_BILLING_{unique}_EXCHANGE", f"SHOP_{unique}_QUEUE"


@pytest.fixture
def settings(broker: str, names: tuple[str, str]) -> Iterator[Settings]:
    """An exchange with a queue for `order` that has room for five, and one for unroutable messages."""
    exchange, queue = names
    settings = (
        SettingsBuilder()
        .url(broker)
        .name("shop")
        .exchange(exchange)
        .queue(queue, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
        .bind(exchange, queue, "order")
        .template(exchange=exchange, routing_key="order", window=50)
        .build()
    )
    yield settings
    with blocking.connect(broker) as connection, connection.channel() as channel:
        channel.delete_queue(queue)
        channel.delete_exchange(exchange)


def taken(url: str, queue: str) -> list[object]:
    """The payloads of a queue, which then has none."""
    with blocking.connect(url) as connection, connection.channel() as channel:
        found: list[object] = []
        while (delivery := channel.get(queue, no_ack=True)) is not None:
            found.append(payload_of(delivery))
        return found


def test_settings_are_all_that_is_needed_to_send(settings: Settings, names: tuple[str, str]) -> None:
    async def main() -> str:
        async with open_template(settings) as template:
            return await template.send(Deposit("A-1", Decimal("10.10")), key="A-1")

    id = run(main())
    with blocking.connect(settings.url) as connection, connection.channel() as channel:
        delivery = channel.get(names[1], no_ack=True)
        assert delivery is not None
        assert payload_of(delivery) == {"account": "A-1", "amount": "10.10"}
        properties = delivery.properties
    assert (properties.message_id, properties.delivery_mode) == (id, 2)
    assert (properties.content_type, properties.content_encoding) == ("application/json", "utf-8")
    assert properties.headers == {"x-key": "A-1"}


def test_a_call_may_go_elsewhere_with_another_converter(settings: Settings, names: tuple[str, str]) -> None:
    async def main() -> None:
        async with open_template(settings) as template:
            await template.send("Grüße", exchange="", routing_key=names[1], converter=TextConverter("latin-1"))

    run(main())
    assert taken(settings.url, names[1]) == ["Grüße"]


def test_failures_in_a_batch_are_reported_for_each_message(settings: Settings, names: tuple[str, str]) -> None:
    async def main() -> BatchFailed:
        async with open_template(settings) as template:
            batch = [
                template.prepare(number, routing_key="order" if number != 2 else "nowhere", message_id=f"m{number}")
                for number in range(10)
            ]
            with pytest.raises(BatchFailed) as failed:
                await template.send_batch(batch)
            return failed.value

    failed = run(main())
    assert [id for id, _ in failed.failures] == ["m2", "m6", "m7", "m8", "m9"]
    errors = [error for _, error in failed.failures if isinstance(error, PublishFailed)]
    assert [bool(error.returned) for error in errors] == [True, False, False, False, False]
    assert failed.outcome == "rejected"
    assert taken(settings.url, names[1]) == [0, 1, 3, 4, 5]


def test_futures_are_those_of_their_messages_under_load(settings: Settings) -> None:
    async def main() -> list[BaseException | str]:
        async with open_template(settings) as template:
            futures = [
                await template.submit(number, routing_key="nowhere" if number % 2 else "order", mandatory=True)
                for number in range(2_000)
            ]
            return list(await asyncio.gather(*futures, return_exceptions=True))

    outcomes = run(main())
    came_back = [isinstance(each, PublishFailed) and bool(each.returned) for each in outcomes]
    assert came_back == [bool(number % 2) for number in range(2_000)]
    # the queue has room for five
    assert [number for number, each in enumerate(outcomes) if isinstance(each, str)] == [0, 2, 4, 6, 8]


def test_a_value_that_cannot_be_serialised_is_not_sent(settings: Settings, names: tuple[str, str]) -> None:
    async def main() -> None:
        async with open_template(settings) as template:
            with pytest.raises(CannotConvert):
                await template.send_batch(["a", object()])
            await template.send_one_way("b")

    run(main())
    assert taken(settings.url, names[1]) == ["b"]


def test_an_exchange_that_is_missing_is_an_error_and_the_template_goes_on(
    settings: Settings, names: tuple[str, str]
) -> None:
    async def main() -> ClientError:
        async with open_template(settings) as template:
            with pytest.raises(ClientError) as missing:
                await template.send("a", exchange="NOBODY_TO_NOBODY_EXCHANGE")
            await template.send("b")
            return missing.value

    error = run(main())
    assert isinstance(error, ChannelClosed)
    assert error.code == 404
    assert taken(settings.url, names[1]) == ["b"]


def test_unroutable_messages_go_to_the_alternate_exchange(broker: str, names: tuple[str, str]) -> None:
    layout = with_alternate(ExchangeLayout(names[0]))
    settings = SettingsBuilder().url(broker).layout(layout).template(exchange=names[0], routing_key="nowhere").build()
    try:
        with blocking_template.open_template(settings) as template:
            template.send("lost")
        assert taken(broker, layout.queues[0].name) == ["lost"]
    finally:
        with blocking.connect(broker) as connection, connection.channel() as channel:
            channel.delete_queue(layout.queues[0].name)
            for exchange in layout.exchanges:
                channel.delete_exchange(exchange.name)


def test_the_blocking_face_does_the_same(settings: Settings, names: tuple[str, str]) -> None:
    with blocking_template.open_template(settings) as template:
        assert template.send("a")
        assert len(template.send_batch(["b", "c"])) == 2
        futures = [template.submit("d"), template.submit("e", routing_key="nowhere")]
        assert futures[0].result(10)
        assert isinstance(futures[1].exception(10), PublishFailed)
        assert template.send_one_way(template.prepare("f"))
        template.drain()
        with pytest.raises(CannotConvert):
            template.submit(object())
    assert taken(settings.url, names[1]) == ["a", "b", "c", "d", "f"]


def test_the_blocking_face_has_transactions_too(settings: Settings, names: tuple[str, str]) -> None:
    with blocking_template.open_template(settings) as template:
        with template.transaction() as together:
            sent = [together.send("a"), together.send("b")]
        assert len(set(sent)) == 2

        def fail() -> None:
            with template.transaction() as undone:
                undone.send("c")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with template.transaction() as dropped:
            dropped.send("d")
            dropped.drop()
    assert taken(settings.url, names[1]) == ["a", "b"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_error_in_the_block_is_the_programs_own_and_the_thread_ends(
    settings: Settings, error: type[BaseException]
) -> None:
    kept: list[blocking_template.Template] = []

    def fail() -> None:
        with blocking_template.open_template(settings) as template:
            kept.append(template)
            raise error

    with pytest.raises(error):
        fail()
    with pytest.raises(ClientError, match="closed"):
        kept[0].send("a")


def test_submitted_messages_are_decided_before_the_block_is_left(settings: Settings, names: tuple[str, str]) -> None:
    async def main() -> list[bool]:
        async with open_template(settings) as template:
            futures = [await template.submit(number) for number in range(5)]
        return [future.done() for future in futures]

    assert run(main()) == [True] * 5
    assert taken(settings.url, names[1]) == [0, 1, 2, 3, 4]


def test_a_template_of_ones_own_shares_a_transport(settings: Settings, names: tuple[str, str]) -> None:
    from warren.client import recovering

    async def main() -> None:
        transport = await recovering.open(settings.url)
        await transport.declare(settings.layout)
        orders = Template.of(transport, settings.template)
        direct = Template(transport, routing_key=names[1], converter=TextConverter())
        await asyncio.gather(orders.send("a"), direct.send("b"))
        await transport.close()

    run(main())
    assert sorted(str(each) for each in taken(settings.url, names[1])) == ["a", "b"]


def test_a_broker_is_asked_what_it_lacks_and_given_nothing(settings: Settings, names: tuple[str, str]) -> None:
    exchange, queue = names
    assert run(absences(settings)) == [
        Absence("exchange", exchange, "missing"),
        Absence("queue", queue, "missing"),
    ]
    assert len(run(absences(settings))) == 2
    with blocking_template.open_template(settings):
        assert run(absences(settings)) == []


def test_an_exclusive_queue_of_another_connection_is_reported_in_the_brokers_words(broker: str) -> None:
    with blocking.connect(broker) as connection, connection.channel() as channel:
        queue = channel.declare_queue(exclusive=True).name
        [absence] = run(absences(SettingsBuilder().url(broker).queue(queue).build()))
    assert absence.reason.startswith("RESOURCE_LOCKED")


def test_the_check_command_says_what_is_missing(
    settings: Settings,
    names: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exchange, queue = names
    file = tmp_path / "shop.properties"
    lines = ["connection.url=${SHOP_URL}", f"template.exchange={exchange}", f"queues[0].name={queue}"]
    file.write_text("\n".join(lines))
    monkeypatch.setenv("SHOP_URL", settings.url)
    assert run_command(["client", "check", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"exchange {exchange}: missing",
        f"queue {queue}: missing",
        f"{file}: 2 problems found",
    ]
    with blocking_template.open_template(settings):
        assert run_command(["client", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: the broker has everything\n"


def test_a_host_that_does_not_answer_is_named_by_its_address() -> None:
    port = free_port()
    settings = SettingsBuilder().hosts(f"127.0.0.1:{port}").build()
    with (
        pytest.raises(CannotConnect, match=rf"127\.0\.0\.1:{port}: connection refused"),
        blocking_template.open_template(settings),
    ):
        pass


def test_a_refused_login_is_reported(broker: str) -> None:
    settings = SettingsBuilder().url(broker.replace("guest:guest@", "guest:wrong@")).build()
    with pytest.raises(LoginRefused), blocking_template.open_template(settings):
        pass


def test_settings_whose_layout_the_broker_refuses_open_nothing(settings: Settings, names: tuple[str, str]) -> None:
    with blocking_template.open_template(settings):
        pass
    other = SettingsBuilder().url(settings.url).exchange(names[0], "fanout").build()
    with pytest.raises(ChannelClosed, match="PRECONDITION_FAILED"), blocking_template.open_template(other):
        pass
