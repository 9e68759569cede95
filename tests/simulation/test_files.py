"""Simulated files keep flushed bytes, and may lose others."""

from random import Random

from warren.sim.files import SECTOR_BYTES, SimulatedDirectory, SimulatedFile

OLD, NEW = b"o" * (3 * SECTOR_BYTES), b"n" * (3 * SECTOR_BYTES)


def sectors(data: bytes) -> list[bytes]:
    return [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]


def test_flushed_bytes_survive_any_loss_of_power() -> None:
    for seed in range(50):
        file = SimulatedFile(Random(seed))
        file.write(0, b"certain")
        file.flush()
        file.write(7, b"uncertain")
        file.lose_power()
        assert file.read(0, 7) == b"certain"


def test_each_sector_that_was_not_flushed_is_old_or_new_or_torn() -> None:
    seen = set()
    for seed in range(300):
        file = SimulatedFile(Random(seed))
        file.write(0, OLD)
        file.flush()
        file.write(0, NEW)
        file.lose_power()
        survived = sectors(file.read())
        kinds = ["old" if sector in OLD else "new" if sector in NEW else "torn" for sector in survived]
        assert all(sector.lstrip(b"n").strip(b"o") == b"" for sector in survived)
        assert kinds.count("torn") <= 1
        seen.add(tuple(kinds))
    assert {("old",) * 3, ("new",) * 3, ("old", "new", "old"), ("new", "old", "new"), ("new", "torn", "old")} <= seen


def test_a_sector_that_never_was_is_zeros() -> None:
    holes = 0
    for seed in range(100):
        file = SimulatedFile(Random(seed))
        file.write(0, NEW)
        file.lose_power()
        survived = file.read()
        assert set(survived) <= {0, ord("n")}
        holes += survived[:SECTOR_BYTES] == bytes(SECTOR_BYTES)
    assert holes > 10


def test_an_earlier_write_to_a_sector_may_survive_a_later_one() -> None:
    seen = set()
    for seed in range(200):
        file = SimulatedFile(Random(seed))
        file.write(0, b"one")
        file.write(3, b"two")
        file.lose_power()
        seen.add(file.read().rstrip(b"\0"))
    assert {b"", b"one", b"onetwo"} <= seen


def test_after_a_loss_of_power_there_is_nothing_left_to_lose() -> None:
    for seed in range(50):
        directory = SimulatedDirectory(Random(seed))
        directory.create("one").write(0, NEW)
        directory.create("two")
        directory.lose_power()
        names = directory.names()
        contents = [directory.find(name).read() for name in names]
        directory.lose_power()
        assert directory.names() == names
        assert [directory.find(name).read() for name in names] == contents


def test_a_name_is_certain_once_its_directory_was_flushed() -> None:
    for seed in range(50):
        directory = SimulatedDirectory(Random(seed))
        directory.create("kept")
        directory.create("gone")
        directory.sync()
        directory.unlink("gone")
        directory.sync()
        directory.lose_power()
        assert directory.names() == ["kept"]


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    seen = set()
    for seed in range(100):
        directory = SimulatedDirectory(Random(seed))
        for content in (b"old", b"new"):
            file = directory.create("checkpoint.new")
            file.write(0, content)
            file.flush()
            directory.rename("checkpoint.new", "checkpoint")
            if content == b"old":
                directory.sync()
        directory.lose_power()
        seen.add(directory.find("checkpoint").read())
    assert seen == {b"old", b"new"}


def test_a_file_that_was_cut_may_be_as_long_as_it_was_until_it_is_flushed() -> None:
    seen = set()
    for seed in range(50):
        for flushed in (False, True):
            file = SimulatedFile(Random(seed))
            file.write(0, NEW)
            file.flush()
            file.trim(700)
            assert file.read() == NEW[:700]
            if flushed:
                file.flush()
            file.lose_power()
            seen.add((flushed, len(file)))
    assert seen == {(False, 700), (False, len(NEW)), (True, 700)}
