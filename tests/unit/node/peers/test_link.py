"""One link's frames, with the stream cut anywhere, without a socket."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.cluster.hello import REFUSAL_BYTES_MAX, PeerIdentity
from warren.broker.model.events import Event, PeerReceived
from warren.node.peers.connection import DATA, GOODBYE, HEARTBEAT, INPUT_BYTES, PeerConnection

ANT = PeerIdentity("warren@ant", 1, "burrow", "ant:25672")


class Ears:
    """A link on a pretend transport, with its reports."""

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

    def read(self, data: bytes) -> None:
        """The socket has these bytes, and the loop reads them into the connection's buffer."""
        while data:
            room = self.link.get_buffer(len(data))
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            self.link.buffer_updated(len(part))

    def heard(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, PeerReceived))


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
        ears.read(piece)
        assert len(ears.events) - before <= 1
        reads += 1
    assert ears.heard() == b"".join(body for body, _ in frames)
    assert ears.ends == []


@given(st.binary(max_size=200))
def test_no_bytes_crash_a_link(data: bytes) -> None:
    ears = Ears()
    ears.read(data)
    ears.read(data)
    assert len(ears.ends) <= 1


def test_a_frame_that_arrives_in_several_reads_is_one_event() -> None:
    ears = Ears()
    body = bytes(range(256)) * 1000
    data = frame(DATA, body) + frame(DATA, b"next")
    for start in range(0, len(data), 65_536):
        assert ears.events == []
        ears.read(data[start : start + 65_536])
    assert [event.data for event in ears.events if isinstance(event, PeerReceived)] == [body + b"next"]


def test_a_frame_larger_than_the_buffer_is_passed_on_in_parts() -> None:
    ears = Ears()
    body = bytes(range(256)) * (INPUT_BYTES // 256) + b"the rest"
    ears.read(frame(HEARTBEAT, b"") + frame(DATA, body) + frame(DATA, b"next"))
    assert len(ears.events) == 2
    assert ears.heard() == body + b"next"


def test_sent_frames_are_read_unchanged() -> None:
    sender, reader = Ears(), Ears()
    for piece in (b"one", b"", b"three"):
        sender.link.send((piece,))
    reader.read(b"".join(sender.written))
    assert reader.heard() == b"onethree"
    assert (sender.link.sent_bytes, reader.link.received_bytes) == (8, 18)


def test_frames_before_a_goodbye_are_received_and_none_after_it() -> None:
    ears = Ears()
    ears.read(frame(DATA, b"last") + frame(GOODBYE, b"so long") + frame(DATA, b"after"))
    ears.read(frame(DATA, b"later"))
    assert ears.heard() == b"last"
    assert ears.ends == ["it said goodbye: so long"]
    assert ears.aborted


def test_a_goodbye_without_end_is_no_goodbye() -> None:
    ears = Ears()
    ears.read(bytes((GOODBYE,)) + (REFUSAL_BYTES_MAX + 1).to_bytes(4, "big"))
    assert ears.ends == ["it sent an invalid frame"]


def test_the_end_is_reported_once() -> None:
    ears = Ears()
    ears.link.end("enough")
    ears.link.end("enough again")
    ears.link.send((b"too late",))
    assert ears.ends == ["enough"]
    assert ears.written == []
