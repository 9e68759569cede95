"""Equality of field values, in the two senses that RabbitMQ has.

*Identical* decides whether two bindings are the same: any difference of type or value counts, the order of top-level
fields does not. *Matching* compares a message header with an argument of a headers binding: numbers are equal across
types (1 and 1.0), text equals a byte array with the same octets, and a boolean is not a number. Inside arrays and
tables both senses are strict, down to the order of fields.

Not here: which headers are compared (`broker.routing.exchange_types`).
"""

from decimal import Decimal
from zlib import crc32

from warren.wire.field_tables import Long, Table, Timestamp, encode_table


def identical(left: Table, right: Table) -> bool:
    """Whether both have the same names with strictly the same values, in any order."""
    if len(left) != len(right):
        return False
    return all(name in right and strictly_same(left[name], right[name]) for name in left)


def digest(arguments: Table) -> int:
    """A hash of arguments that does not depend on their order."""
    return sum([crc32(encode_table({name: arguments[name]})) for name in arguments])


def matching(wanted: object, present: object) -> bool:
    """Whether a header matches a binding's argument. The caller handles an argument without a value."""
    if isinstance(wanted, (dict, list, Decimal)) or isinstance(present, Decimal):
        return strictly_same(wanted, present)
    if isinstance(wanted, bool) or isinstance(present, bool):
        return wanted is present
    return plain(wanted) == plain(present)


def strictly_same(left: object, right: object) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        if list(left) != list(right):
            return False
        return strictly_same(list(left.values()), list(right.values()))
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        return all(strictly_same(left[at], right[at]) for at in range(len(left)))
    if isinstance(left, Decimal):
        # 1 and 1.0 are equal as numbers, but differ in digits and scale
        return str(left) == str(right)
    return left == right


def plain(value: object) -> object:
    """A value in a form that compares across types: the octets of a text, the integer of a `Timestamp` or `Long`."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Long):
        return value.value
    return value
