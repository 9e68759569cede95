"""Parameters at rest: what a store keeps, and what a node with another cookie makes of it."""

import pytest

from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.policy_definitions import ParameterDefinition, is_sealed
from warren.node.parameter_cipher import ParameterCipher

CIPHER = ParameterCipher(b"the cookie of a cluster")
SHOVEL = ParameterDefinition("/", "shovel", "orders", {"src-uri": "amqp://user:geheim@far"})


def test_a_stored_parameter_is_encrypted_and_comes_back() -> None:
    stored = CIPHER.sealed(SHOVEL.key(), SHOVEL.value())
    assert b"geheim" not in stored
    assert CIPHER.opened(SHOVEL.key(), stored) == SHOVEL.value()


def test_another_node_with_the_same_cookie_decrypts_it() -> None:
    other = ParameterCipher(b"the cookie of a cluster")
    assert other.opened(SHOVEL.key(), CIPHER.sealed(SHOVEL.key(), SHOVEL.value())) == SHOVEL.value()


def test_a_parameter_of_another_cookie_is_kept_as_it_is() -> None:
    stored = CIPHER.sealed(SHOVEL.key(), SHOVEL.value())
    other = ParameterCipher(b"the cookie that came after")
    found = decode_definition(SHOVEL.key(), other.opened(SHOVEL.key(), stored))
    assert isinstance(found, ParameterDefinition)
    assert is_sealed(found.content)
    assert other.sealed(SHOVEL.key(), found.value()) == stored


def test_a_value_that_was_copied_to_another_parameter_is_not_decrypted() -> None:
    stored = CIPHER.sealed(SHOVEL.key(), SHOVEL.value())
    elsewhere = ParameterDefinition("mine", "shovel", "orders", {}).key()
    assert CIPHER.opened(elsewhere, stored) == stored


@pytest.mark.parametrize("key", ["queues/%2F/orders", "users/guest"])
def test_other_definitions_are_stored_as_they_are(key: str) -> None:
    assert CIPHER.sealed(key, b"anything") == b"anything"
    assert CIPHER.opened(key, b"anything") == b"anything"


def test_a_parameter_that_was_stored_in_the_clear_is_read() -> None:
    assert CIPHER.opened(SHOVEL.key(), SHOVEL.value()) == SHOVEL.value()
