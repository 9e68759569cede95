"""Large chunks are sent uncopied and in order."""

from warren.broker.model.turn import SpareBuffers
from warren.broker.sessions.output import OutputBuffer


def unsent_bytes(out: OutputBuffer) -> int:
    return int(out.pieces_bytes) + len(out.writer)


def test_small_writes_are_taken_as_one_piece() -> None:
    out = OutputBuffer(SpareBuffers())
    out.begin()
    out.writer.write(b"one")
    out.writer.write(b"two")
    assert unsent_bytes(out) == 6
    assert out.take() == [b"onetwo"]
    assert (unsent_bytes(out), out.take()) == (0, [b""])


def test_large_pieces_are_not_copied_and_stay_in_order() -> None:
    out, large = OutputBuffer(SpareBuffers()), bytes(1_000_000)
    out.begin()
    out.writer.write(b"before")
    out.add_apart(large)
    out.writer.write(b"behind")
    assert unsent_bytes(out) == 1_000_012
    pieces = out.take()
    assert pieces == [b"before", large, b"behind"]
    assert pieces[1] is large
    assert (unsent_bytes(out), out.take()) == (0, [b""])


def test_a_turn_writes_into_the_buffer_of_an_earlier_one() -> None:
    buffers = SpareBuffers()
    first, second = OutputBuffer(buffers), OutputBuffer(buffers)
    first.begin()
    first.writer.write(b"first")
    buffer = first.writer
    assert first.take() == [b"first"]
    second.begin()
    assert second.writer is buffer
    assert second.take() == [b""]


def test_a_buffer_that_is_too_large_to_keep_is_released() -> None:
    buffers = SpareBuffers()
    buffer = buffers.take()
    buffer.write(bytes(2_000_000))
    buffers.give_back(buffer)
    assert buffers.take() is not buffer
