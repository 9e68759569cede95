"""One link's frames, with the stream cut anywhere, without a socket."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.cluster.hello import REFUSAL_BYTES_MAX, PeerIdentity
from warren.broker.model.events import Event, PeerReceived
from warren.node.peers.connection import DATA, GOODBYE, HEARTBEAT, PeerConnection

ANT = PeerIdentity("warren@ant", 1, "burrow", "ant:25672")


class Ears:
    """What a link is told by a pretend transport, and what it reports."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends: list[str] = []
        self.written: list[bytes] = []
        self.aborted = False
        loop = asyncio.new_event_loop()
        self.link = PeerConnection(ANT, 3, loop, self.events.append, lambda link, reason: self.ends.append(reason))
        self.link.take_over(self, b"")  # type: ignore[arg-type]
        loop.close()

    def __getattr__(self, name: str) -> Any:
        return lambda *given: None

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.written += pieces

    def abort(self) -> None:
        self.aborted = True

    def heard(self) -> bytes:
        return b"".join(event.data[event.start :] for event in self.events if isinstance(event, PeerReceived))


def frame(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(4, "big") + body


FRAMES = st.lists(
    st.one_of(
        st.binary(max_size=60).map(lambda body: (body, frame(DATA, body))), st.just((b"", frame(HEARTBEAT, b"")))
    ),
    max_size=20,
)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_the_cores_bytes_come_whole_with_the_stream_cut_anywhere(
    frames: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(wire for _, wire in frames)
    ears = Ears()
    reads = 0
    while stream:
        piece, stream = stream[: cuts[reads % len(cuts)]], stream[cuts[reads % len(cuts)] :]
        before = len(ears.events)
        ears.link.data_received(piece)
        assert len(ears.events) - before <= 1
        reads += 1
    assert ears.heard() == b"".join(body for body, _ in frames)
    assert ears.ends == []


@given(st.binary(max_size=200))
def test_no_bytes_crash_a_link(data: bytes) -> None:
    ears = Ears()
    ears.link.data_received(data)
    ears.link.data_received(data)
    assert len(ears.ends) <= 1


def test_a_read_from_the_midst_of_a_frame_is_handed_on_as_it_is() -> None:
    ears = Ears()
    ears.link.data_received(frame(DATA, b"x" * 300_000)[:5])
    piece = b"x" * 262_144
    ears.link.data_received(piece)
    assert len(ears.events) == 1
    received = ears.events[0]
    assert isinstance(received, PeerReceived)
    assert received.data is piece


def test_a_read_that_begins_with_the_head_of_a_frame_is_handed_on_as_it_is() -> None:
    ears = Ears()
    read = frame(DATA, b"x" * 300_000)[:262_144]
    ears.link.data_received(read)
    assert len(ears.events) == 1
    received = ears.events[0]
    assert isinstance(received, PeerReceived)
    assert received.data is read
    assert ears.heard() == b"x" * (262_144 - 5)


def test_sent_frames_are_read_unchanged() -> None:
    sender, reader = Ears(), Ears()
    for piece in (b"one", b"", b"three"):
        sender.link.send((piece,))
    reader.link.data_received(b"".join(sender.written))
    assert reader.heard() == b"onethree"
    assert (sender.link.sent_bytes, reader.link.received_bytes) == (8, 18)


def test_frames_before_a_goodbye_are_heard_and_none_behind_it() -> None:
    ears = Ears()
    ears.link.data_received(frame(DATA, b"last") + frame(GOODBYE, b"so long") + frame(DATA, b"after"))
    ears.link.data_received(frame(DATA, b"later"))
    assert ears.heard() == b"last"
    assert ears.ends == ["it said goodbye: so long"]
    assert ears.aborted


def test_a_goodbye_without_end_is_no_goodbye() -> None:
    ears = Ears()
    ears.link.data_received(bytes((GOODBYE,)) + (REFUSAL_BYTES_MAX + 1).to_bytes(4, "big"))
    assert ears.ends == ["it sent an invalid frame"]


def test_the_end_is_reported_once() -> None:
    ears = Ears()
    ears.link.end("enough")
    ears.link.end("enough again")
    ears.link.send((b"too late",))
    assert ears.ends == ["enough"]
    assert ears.written == []
