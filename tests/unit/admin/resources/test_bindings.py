"""The properties key of a binding in a path."""

import pytest

from warren.admin.resources.bindings import BindingFacts, has_key, properties_key
from warren.wire.field_tables import Table


@pytest.mark.parametrize(
    ("routing_key", "key"),
    [
        ("", "~"),
        ("#", "%23"),
        ("*", "%2A"),
        ("a b", "a+b"),
        ("a.b", "a.b"),
        ("a/b", "a%2Fb"),
        ("a_b-c", "a_b-c"),
        ("a~b", "a%7Eb"),
        ("~", "%7E"),
        ("é", "%C3%A9"),
        ("tab\tq", "tab%09q"),
        ("\udcff", "%FF"),
    ],
)
def test_the_routing_key_is_quoted_as_rabbitmq_quotes_it(routing_key: str, key: str) -> None:
    assert properties_key(routing_key, {}) == key


def test_arguments_add_a_digest_that_does_not_depend_on_their_order() -> None:
    one = properties_key("k", {"a": 1, "b": "x"})
    assert one.startswith("k~")
    assert one == properties_key("k", {"b": "x", "a": 1})
    assert one != properties_key("k", {"a": 2, "b": "x"})
    assert properties_key("", {"a": 1}).startswith("~")


@pytest.mark.parametrize("arguments", [{}, {"x": 1}])
def test_a_binding_is_found_by_its_key_quoted_once_or_twice(arguments: Table) -> None:
    facts = BindingFacts("/", "x", "q", "queue", "with/slash %", arguments)
    key = properties_key(facts.routing_key, arguments)
    assert has_key(facts, key)
    assert has_key(facts, key.replace("%2F", "/").replace("+", " ").replace("%25", "%"))
    assert not has_key(facts, "with")
