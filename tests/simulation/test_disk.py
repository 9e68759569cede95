"""The pretend disk keeps what was flushed and nothing else for certain."""

from random import Random

from warren.sim.disk import PretendDisk


def test_flushed_bytes_survive_any_crash() -> None:
    for seed in range(50):
        disk = PretendDisk(Random(seed))
        file = disk.file("journal")
        file.append(b"certain")
        assert file.flush() == 7
        file.append(b"uncertain")
        disk.crash(torn=seed % 2 == 0)
        assert file.read(0, 7) == b"certain"


def test_what_was_not_flushed_survives_as_a_prefix_of_any_length() -> None:
    lengths = set()
    for seed in range(200):
        disk = PretendDisk(Random(seed))
        disk.file("journal").append(b"abc")
        disk.crash()
        survived = disk.file("journal").read()
        assert b"abc".startswith(survived)
        lengths.add(len(survived))
    assert lengths == {0, 1, 2, 3}


def test_a_torn_tail_is_damaged_beyond_what_was_flushed_only() -> None:
    damaged = 0
    for seed in range(50):
        disk = PretendDisk(Random(seed))
        file = disk.file("journal")
        file.append(b"certain")
        file.flush()
        file.append(b"tail")
        disk.crash(torn=True)
        survived = file.read()
        assert survived[:7] == b"certain"
        damaged += not b"certaintail".startswith(survived)
    assert damaged > 10


def test_after_a_crash_there_is_nothing_left_to_lose() -> None:
    disk = PretendDisk(Random(1))
    file = disk.file("journal")
    file.append(b"some bytes")
    disk.crash()
    survived = file.read()
    assert file.unflushed_bytes() == 0
    disk.crash()
    assert file.read() == survived


def test_a_file_is_cut_and_goes_on_from_there() -> None:
    disk = PretendDisk(Random(1))
    file = disk.file("journal")
    file.append(b"good bad")
    file.flush()
    file.truncate(5)
    assert file.append(b"better") == 5
    assert file.read() == b"good better"
    assert file.unflushed_bytes() == 6


def test_a_removed_file_is_gone() -> None:
    disk = PretendDisk(Random(1))
    disk.file("two").append(b"2")
    disk.file("one").append(b"1")
    assert disk.names() == ["one", "two"]
    disk.remove("one")
    assert disk.names() == ["two"]
