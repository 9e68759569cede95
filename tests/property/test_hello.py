"""The hello of two nodes against a peer without the cookie: never a crash, never trust."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.cluster.hellos import ACCEPTED_NONCE, DIALLED_NONCE, HARE, MOLE, accepter, couple, dialler
from warren.broker.cluster.hello import (
    AGREED,
    HEADER,
    LINK,
    NONCE_BYTES,
    OPENING,
    PROOF,
    REFUSAL,
    REFUSED,
    TALKING,
    WELCOME,
    HelloOpening,
    HelloReader,
    PeerIdentity,
    decode_opening,
    frame,
)

TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=60)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=60)
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
MESSAGES = st.lists(
    st.builds(frame, st.sampled_from([OPENING, PROOF, WELCOME, REFUSAL, 0, 9]), st.binary(max_size=80)), max_size=6
).map(b"".join)
OPENINGS = st.builds(lambda nonce: HEADER + frame(OPENING, HelloOpening(LINK, nonce, HARE).encode()), NONCES)


@st.composite
def facts(draw: st.DrawFn) -> PeerIdentity:
    versions = sorted(draw(st.tuples(st.integers(0, 65535), st.integers(0, 65535))))
    return PeerIdentity(
        draw(NAMES),
        draw(st.integers(0, 2**64 - 1)),
        draw(TEXTS),
        draw(NAMES),
        draw(st.sampled_from(["disc", "ram"])),
        draw(st.integers(0, 2**32 - 1)),
        *versions,
    )


@given(facts(), TEXTS, NONCES)
def test_an_opening_comes_back_as_it_was(who: PeerIdentity, purpose: str, nonce: bytes) -> None:
    seen = decode_opening(HelloOpening(purpose, nonce, who).encode() + b"a field of the future")
    assert (seen.purpose, seen.nonce) == (purpose, nonce)
    assert HelloOpening(seen.purpose, seen.nonce, seen.facts).encode() == HelloOpening(purpose, nonce, who).encode()


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_crash_or_convince_an_accepter(pieces: list[bytes]) -> None:
    accepting = accepter()
    for piece in pieces:
        accepting.receive(piece)
    assert accepting.state in (TALKING, REFUSED)


@given(OPENINGS, MESSAGES)
def test_no_messages_convince_an_accepter(opening: bytes, messages: bytes) -> None:
    accepting = accepter()
    accepting.receive(opening)
    accepting.receive(messages)
    assert accepting.state != AGREED


@given(MESSAGES, NONCES)
def test_no_messages_convince_a_dialler(messages: bytes, nonce: bytes) -> None:
    dialling = dialler()
    dialling.start()
    dialling.receive(HEADER + frame(OPENING, HelloOpening(LINK, nonce, MOLE).encode()))
    dialling.receive(messages)
    assert dialling.state != AGREED


@given(st.data())
def test_one_changed_octet_anywhere_is_the_end_of_trust(data: st.DataObject) -> None:
    """The receiver of the changed octet may wait for more, or refuse; the node that checks last never agrees."""
    said = couple(dialler(), accepter())
    turn = data.draw(st.integers(0, len(said) - 1), "turn")
    at = data.draw(st.integers(0, len(said[turn]) - 1), "octet")
    flip = data.draw(st.integers(1, 255), "flip")
    dialling, accepting = dialler(), accepter()
    message = dialling.start()
    for number in range(len(said)):
        if number == turn:
            message = message[:at] + bytes((message[at] ^ flip,)) + message[at + 1 :]
        message = (dialling if number % 2 else accepting).receive(message)
    assert dialling.state != AGREED
    # the sender of the welcome has agreed already
    assert accepting.state != AGREED or turn == 3


@given(st.data())
def test_a_hello_that_is_cut_short_agrees_to_nothing(data: st.DataObject) -> None:
    said = couple(dialler(), accepter())
    turn = data.draw(st.integers(0, len(said) - 1), "turn")
    end = data.draw(st.integers(0, len(said[turn]) - 1), "end")
    dialling, accepting = dialler(), accepter()
    message = dialling.start()
    for number in range(turn + 1):
        message = message[:end] if number == turn else message
        message = (dialling if number % 2 else accepting).receive(message)
    assert message == b""
    assert dialling.state == TALKING


@given(st.lists(st.integers(0, 3), max_size=6), NONCES, NONCES)
def test_messages_of_another_conversation_are_not_trusted(turns: list[int], dialled: bytes, accepted: bytes) -> None:
    said = couple(dialler(), accepter())
    dialling, accepting = dialler(nonce=dialled), accepter(nonce=accepted)
    dialling.start()
    for turn in turns:
        dialling.receive(said[turn])
        accepting.receive(said[turn])
    assert dialling.state != AGREED or dialled == DIALLED_NONCE
    assert accepting.state != AGREED or accepted == ACCEPTED_NONCE


@given(st.binary(max_size=300_000))
def test_unfinished_input_is_never_longer_than_a_message(data: bytes) -> None:
    incoming = HelloReader()
    incoming.add(HEADER + data)
    try:
        while incoming.next() is not None:
            pass
    except ValueError:
        return
    assert len(incoming.rest()) < 3 + 2048
