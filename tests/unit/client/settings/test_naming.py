"""The naming convention, rule by rule."""

import pytest

from warren.client.settings import SettingsBuilder, lint
from warren.client.settings.checks import sender_and_receiver

SHOP = SettingsBuilder().vhost("SHOP_VHOST")


def rules(builder: SettingsBuilder) -> list[tuple[str, str]]:
    """The rule and the name of every finding."""
    return [(finding.rule, finding.name) for finding in lint(builder.build())]


def test_names_that_keep_to_the_convention_are_not_found() -> None:
    builder = (
        SHOP.exchange("SHOP_TO_BILLING_EXCHANGE")
        .exchange("BILLING_TO_SHOP_EXCHANGE")
        .queue("SHOP_QUEUE")
        .queue("SHOP_ORDERS_2_QUEUE")
        .bind("SHOP_TO_BILLING_EXCHANGE", "SHOP_QUEUE")
        .bind("BILLING_TO_SHOP_EXCHANGE", "SHOP_ORDERS_2_QUEUE")
        .template(exchange="SHOP_TO_BILLING_EXCHANGE")
    )
    assert rules(builder) == []


@pytest.mark.parametrize(
    "name", ["/", "shop_vhost", "SHOP__VHOST", "SHOP-VHOST", "_SHOP_VHOST", "2SHOP_VHOST", "É_VHOST"]
)
def test_a_name_is_of_capitals_digits_and_single_underscores(name: str) -> None:
    assert rules(SettingsBuilder().vhost(name)) == [("case", name)]


@pytest.mark.parametrize("name", ["SHOP", "SHOPVHOST", "SHOP_QUEUE", "VHOST"])
def test_a_name_ends_with_its_kind(name: str) -> None:
    assert rules(SettingsBuilder().vhost(name)) == [("ending", name)]


@pytest.mark.parametrize("name", ["SHOP_EXCHANGE", "TO_SHOP_EXCHANGE", "SHOP_TO_EXCHANGE", "SHOP_TO_A_TO_B_EXCHANGE"])
def test_an_exchange_names_sender_and_receiver(name: str) -> None:
    assert rules(SHOP.exchange(name)) == [("direction", name)]


def test_the_exchange_that_is_sent_to_counts_also_if_it_is_not_declared() -> None:
    assert rules(SHOP.template(exchange="orders")) == [("case", "orders")]


def test_everything_in_a_virtual_host_bears_the_name_of_its_system() -> None:
    builder = SHOP.exchange("BANK_TO_BILLING_EXCHANGE").queue("BILLING_QUEUE").queue("SHOPPING_QUEUE")
    assert rules(builder) == [
        ("vhost", "BANK_TO_BILLING_EXCHANGE"),
        ("vhost", "BILLING_QUEUE"),
        ("vhost", "SHOPPING_QUEUE"),
    ]


def test_a_virtual_host_whose_name_is_wrong_says_nothing_about_others() -> None:
    assert rules(SettingsBuilder().vhost("shop").queue("BILLING_QUEUE")) == [("case", "shop")]


def test_a_bound_queue_begins_as_one_side_of_its_exchange() -> None:
    builder = SHOP.bind("SHOP_TO_BILLING_EXCHANGE", "BANK_QUEUE").bind("SHOP_TO_BILLING_EXCHANGE", "BILLING_NEW_QUEUE")
    assert rules(builder) == [("binding", "SHOP_TO_BILLING_EXCHANGE to BANK_QUEUE")]


def test_names_of_the_broker_and_names_that_are_not_known_have_no_convention() -> None:
    builder = SHOP.exchange("amq.topic").queue("${SYSTEM}_QUEUE").bind("amq.topic", "SHOP_QUEUE")
    assert rules(builder) == []


def test_a_finding_suggests_a_correction() -> None:
    (finding,) = lint(SHOP.queue("BILLING_QUEUE").build())
    assert str(finding) == "queue BILLING_QUEUE: begin it with SHOP, as SHOP_VHOST does (vhost)"


def test_the_sides_of_an_exchange_may_be_several_words() -> None:
    assert sender_and_receiver("NEW_SHOP_TO_OLD_BILLING_EXCHANGE") == ("NEW_SHOP", "OLD_BILLING")
