"""Values of the wire for hypothesis: tables, properties, methods, and bytes that look like fields.

Not here: the claims made of them (`test_*_codec`).
"""

from decimal import Decimal

from hypothesis import strategies as st

from tests.support.amqp_methods import LAYOUTS, write_method
from warren.wire.field_tables import Table, Timestamp
from warren.wire.properties import Properties


def surrogate_text(bytes_max: int) -> st.SearchStrategy[str]:
    """Any text the wire can carry: any bytes at all."""
    octets = st.one_of(st.binary(max_size=bytes_max), st.text(max_size=bytes_max // 4).map(str.encode))
    return octets.map(lambda octets: octets.decode("utf-8", "surrogateescape"))


def decimals() -> st.SearchStrategy[Decimal]:
    return st.builds(
        lambda scale, number: Decimal((0, Decimal(number).as_tuple().digits, -scale)),
        st.integers(0, 255),
        st.integers(0, 2**32 - 1),
    )


def scalars() -> st.SearchStrategy[object]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        decimals(),
        surrogate_text(40),
        st.binary(max_size=20),
        st.builds(Timestamp, st.integers(0, 2**64 - 1)),
    )


def tables() -> st.SearchStrategy[Table]:
    values = st.recursive(
        scalars(),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(surrogate_text(8), inner, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(surrogate_text(20), values, max_size=5)


def sized(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(4, "big") + content


def named(fields: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(bytes((len(name),)) + name + value for name, value in fields)


def field_bytes() -> st.SearchStrategy[bytes]:
    """The content of a table of every field type, sometimes with an octet changed or an end cut off."""
    widths = {1: b"tbB", 2: b"su", 4: b"Iif", 8: b"lLdT", 5: b"D", 0: b"V"}
    fixed = st.one_of(
        [
            st.tuples(st.sampled_from(letters).map(chr).map(str.encode), st.binary(min_size=width, max_size=width))
            for width, letters in widths.items()
        ]
    ).map(b"".join)
    strings = st.builds(sized, st.sampled_from([b"S", b"x"]), st.binary(max_size=8))
    names = st.binary(max_size=4)
    values = st.recursive(
        st.one_of(fixed, strings),
        lambda inner: st.one_of(
            st.builds(sized, st.just(b"A"), st.lists(inner, max_size=3).map(b"".join)),
            st.builds(sized, st.just(b"F"), st.lists(st.tuples(names, inner), max_size=3).map(named)),
        ),
        max_leaves=6,
    )
    whole = st.lists(st.tuples(names, values), max_size=5).map(named)
    return st.one_of(whole, mutated(whole))


def mutated(sound: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes with one octet replaced, inserted or everything from it on cut off."""

    def change(octets: bytes, place: float, how: int, octet: int) -> bytes:
        at = int(place * len(octets))
        if how == 0:
            return octets[:at]
        return octets[:at] + bytes((octet,)) + octets[at + (how == 1) :]

    return st.builds(change, sound, st.floats(0, 1), st.integers(0, 2), st.integers(0, 255))


def properties() -> st.SearchStrategy[Properties]:
    text = st.none() | surrogate_text(20)
    octet = st.none() | st.integers(0, 255)
    return st.builds(
        Properties,
        content_type=text,
        content_encoding=text,
        headers=st.none() | tables(),
        delivery_mode=octet,
        priority=octet,
        correlation_id=text,
        reply_to=text,
        expiration=text,
        message_id=text,
        timestamp=st.none() | st.integers(0, 2**64 - 1),
        type=text,
        user_id=text,
        app_id=text,
        cluster_id=text,
    )


def header_payloads() -> st.SearchStrategy[bytes]:
    """Payloads of content header frames with any flags, properties that fit them, and headers of every field type."""
    shortstr = st.binary(max_size=12).map(lambda octets: bytes((len(octets),)) + octets)
    table = field_bytes().map(lambda content: len(content).to_bytes(4, "big") + content)
    octet, timestamp = st.binary(min_size=1, max_size=1), st.binary(min_size=8, max_size=8)
    kinds = [shortstr] * 2 + [table, octet, octet] + [shortstr] * 4 + [timestamp] + [shortstr] * 4
    values = st.tuples(*[st.none() | kind for kind in kinds])
    return st.builds(header_payload, values, st.integers(0, 2**64 - 1))


def header_payload(values: tuple[bytes | None, ...], body_bytes: int) -> bytes:
    flags = sum(0x8000 >> place for place, value in enumerate(values) if value is not None)
    fields = b"".join(value for value in values if value is not None)
    return b"\x00\x3c\x00\x00" + body_bytes.to_bytes(8, "big") + flags.to_bytes(2, "big") + fields


def method_payloads() -> st.SearchStrategy[bytes]:
    """Payloads of method frames, of every method, with reserved fields empty."""
    kinds: dict[str, st.SearchStrategy[object]] = {
        "bit": st.booleans(),
        "octet": st.integers(0, 2**8 - 1),
        "short": st.integers(0, 2**16 - 1),
        "long": st.integers(0, 2**32 - 1),
        "longlong": st.integers(0, 2**64 - 1),
        "shortstr": st.text(max_size=30),
        "longstr": st.binary(max_size=30),
        "table": st.dictionaries(st.text(max_size=10), st.booleans() | st.text(max_size=10), max_size=3),
    }
    reserved = {"ticket", "out_of_band", "channel_id", "capabilities", "insist", "known_hosts", "cluster_id"}

    def of(name: str) -> st.SearchStrategy[bytes]:
        fields = {field: kinds[kind] for field, kind in LAYOUTS[name] if field not in reserved}
        return st.fixed_dictionaries(fields).map(lambda values: write_method(name, values))

    return st.sampled_from(sorted(LAYOUTS)).flatmap(of)
