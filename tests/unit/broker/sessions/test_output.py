"""Large chunks are sent uncopied and in order."""

from warren.broker.sessions.output import OutputBuffer


def unsent_bytes(out: OutputBuffer) -> int:
    return int(out.pieces_bytes) + len(out.writer)


def test_what_is_written_is_taken_in_one_piece() -> None:
    out = OutputBuffer()
    out.writer.write(b"one")
    out.writer.write(b"two")
    assert unsent_bytes(out) == 6
    assert out.take() == [b"onetwo"]
    assert (unsent_bytes(out), out.take()) == (0, [b""])


def test_what_is_large_is_not_copied_and_keeps_its_place() -> None:
    out, large = OutputBuffer(), bytes(1_000_000)
    out.writer.write(b"before")
    out.add_apart(large)
    out.writer.write(b"behind")
    assert unsent_bytes(out) == 1_000_012
    pieces = out.take()
    assert pieces == [b"before", large, b"behind"]
    assert pieces[1] is large
    assert (unsent_bytes(out), out.take()) == (0, [b""])
