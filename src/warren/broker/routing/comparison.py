"""When two field values are the same, in the two senses RabbitMQ has.

*Identical* tells two bindings apart: any difference of type or value counts, the order of a table's fields does not
at the top. *Matching* compares a header with what a headers binding asks for: there numbers are equal across types
(1 and 1.0), text equals the same octets, and a boolean is not a number. Inside arrays and tables both senses are
strict, down to the order of fields.

Not here: which headers are compared at all (`headers`).
"""

from decimal import Decimal
from zlib import crc32

from warren.wire.field_tables import Long, Table, Timestamp, encode_table


def identical(left: Table, right: Table) -> bool:
    """The same names with strictly the same values, in whatever order."""
    if len(left) != len(right):
        return False
    return all(name in right and strictly_same(left[name], right[name]) for name in left)


def digest(arguments: Table) -> int:
    """A number that identical arguments share, whatever their order, and others hardly ever do."""
    return sum([crc32(encode_table({name: arguments[name]})) for name in arguments])


def matching(wanted: object, present: object) -> bool:
    """Whether a header's value is what a binding asks for; that a binding asks for none is its caller's concern."""
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
        # 1 and 1.0 are the same number, but not the same digits and scale
        return str(left) == str(right)
    return left == right


def plain(value: object) -> object:
    """The octets of a text, so that it compares with a byte array, and the number in a number's wrapping."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Long):
        return value.value
    return value
