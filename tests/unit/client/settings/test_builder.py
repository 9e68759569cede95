"""The fluent way to settings: the same object as from a file, by the same rules, and no builder is ever changed."""

import pytest

from tests.unit.client.settings.test_files import ENVIRONMENT, EXCHANGE, EXPECTED, TOML
from warren.client.errors import SettingsError
from warren.client.settings import SettingsBuilder
from warren.client.settings.files import toml_settings


def built() -> SettingsBuilder:
    return (
        SettingsBuilder()
        .hosts("one:5673", "[::1]")
        .login("shop", ENVIRONMENT["PASSWORD"])
        .vhost("SHOP_VHOST")
        .tls(cacertfile="/etc/ca.pem")
        .options(heartbeat=30)
        .name("shop on here")
        .template(exchange=EXCHANGE, routing_key="order", converter="text", mandatory=False)
        .template(persistent=False, timeout_s=2.5, window=50)
        .exchange(EXCHANGE, "topic")
        .exchange("SHOP_TO_LOG_EXCHANGE", "x-delayed-message", durable=False, arguments={"x-delayed-type": "fanout"})
        .queue("SHOP_QUEUE", arguments={"x-max-length": 1000, "x-single-active-consumer": True})
        .queue("SHOP_TEMPORARY_QUEUE", durable=False, exclusive=True, auto_delete=True)
        .bind(EXCHANGE, "SHOP_QUEUE", "order.#")
        .bind_exchange(EXCHANGE, "SHOP_TO_LOG_EXCHANGE", "#")
    )


def test_a_builder_and_a_file_give_the_same_settings() -> None:
    assert built().build() == toml_settings(TOML, ENVIRONMENT, "shop.toml")


def test_a_layout_that_was_made_elsewhere_is_taken_whole() -> None:
    assert SettingsBuilder().layout(EXPECTED.layout).build().layout == EXPECTED.layout


def test_a_builder_stays_as_it_is() -> None:
    first = SettingsBuilder().queue("one")
    second = first.queue("two")
    assert [queue.name for queue in first.build().layout.queues] == ["one"]
    assert [queue.name for queue in second.build().layout.queues] == ["one", "two"]


def test_settings_do_not_change_with_their_builder() -> None:
    arguments: dict[str, object] = {"x-max-length": 1}
    settings = SettingsBuilder().queue("one", arguments=arguments).build()
    arguments["x-max-length"] = 2
    assert settings.layout.queues[0].arguments == {"x-max-length": 1}


def test_text_that_looks_like_a_variable_is_plain_text() -> None:
    assert SettingsBuilder().template(routing_key="${HOME}").build().template.routing_key == "${HOME}"


@pytest.mark.parametrize(
    ("builder", "key", "said"),
    [
        (SettingsBuilder().template(windw=5), "template.windw", "did you mean window?"),
        (SettingsBuilder().template(window="5"), "template.window", "is a whole number from 1 to 1000000, not '5'"),
        (SettingsBuilder().url("amqp://h").vhost("v"), "connection.vhost", "is a part of connection.url"),
        (SettingsBuilder().options(hearbeat=1), "connection.hearbeat", "did you mean heartbeat?"),
        (SettingsBuilder().queue("a").queue("a"), "queues[1].name", "is that of another one, too"),
    ],
)
def test_an_invalid_value_is_refused_with_its_key(builder: SettingsBuilder, key: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        builder.build()
    assert str(refused.value).startswith(f"{key} ")
    assert said in str(refused.value)
    assert (refused.value.file, refused.value.key) == ("", key)
