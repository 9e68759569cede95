"""Stepping through frames, and back.

Not here: invalid frames (`tests/wire/test_frame_faults.py`).
"""

import pytest
from librt.strings import BytesWriter

from warren.wire.frames import METHOD, FrameReader, write_frame

FRAME_MAX = 4096


def frames(*payloads: bytes) -> bytes:
    out = BytesWriter()
    for payload in payloads:
        write_frame(out, METHOD, 1, payload)
    return out.getvalue()


def payloads_of(reader: FrameReader) -> list[bytes]:
    found: list[bytes] = []
    while reader.next():
        found.append(reader.payload())
    return found


def test_step_back_returns_the_same_frame_again() -> None:
    reader = FrameReader(FRAME_MAX)
    reader.feed(frames(b"first", b"second", b"third"))
    assert reader.next()
    assert reader.next()
    reader.step_back()
    assert payloads_of(reader) == [b"second", b"third"]


@pytest.mark.parametrize("cut", range(len(frames(b"third")) + 1))
def test_bytes_fed_after_a_step_back_follow_that_frame(cut: int) -> None:
    data = frames(b"first", b"second")
    late = frames(b"third")
    reader = FrameReader(FRAME_MAX)
    reader.feed(data + late[:cut])
    assert reader.next()
    assert reader.next()
    reader.step_back()
    reader.feed(late[cut:])
    assert payloads_of(reader) == [b"second", b"third"]


def test_a_frame_that_came_in_pieces_can_be_stepped_back_to() -> None:
    data = frames(b"first")
    reader = FrameReader(FRAME_MAX)
    for place in range(len(data)):
        assert not reader.next()
        reader.feed(data[place : place + 1])
    assert reader.next()
    reader.step_back()
    assert payloads_of(reader) == [b"first"]
