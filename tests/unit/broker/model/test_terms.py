"""Field values in reply texts, as RabbitMQ prints them."""

from decimal import Decimal

import pytest

from warren.broker.model.erlang_terms import term
from warren.wire.field_tables import Timestamp


# The text of these values in RabbitMQ 3.10.8's refusal of an x-match argument.
@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("all", '<<"all">>'),
        ("", "<<>>"),
        ("a'\"b\\é", '<<"a\'\\"b\\\\é">>'),
        ("éł", "<<195,169,197,130>>"),
        ("a\nb\x00", "<<97,10,98,0>>"),
        (b"zz", '<<"zz">>'),
        (5, "5"),
        (None, "undefined"),
        (True, "true"),
        (False, "false"),
        (2.5, "2.5"),
        (1e30, "1.0e30"),
        (1.5e-30, "1.5e-30"),
        (Decimal("3.14"), "{2,314}"),
        (Timestamp(3), "3"),
        (["a", 1], '[{longstr,<<"a">>},{signedint,1}]'),
        ({"n": 2**40}, '[{<<"n">>,long,1099511627776}]'),
    ],
)
def test_a_value_is_printed_as_rabbitmq_prints_it(value: object, printed: str) -> None:
    assert term(value) == printed
