"""Descriptors kept aside: a process that has none left still opens files."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.disk.rig import WriterRig, store
from warren.broker.model.effects import WriteCheckpoint
from warren.node.disk.file_io import RESERVED_DESCRIPTORS_MAX, DescriptorReserve


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + RESERVED_DESCRIPTORS_MAX + 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def take_all() -> list[int]:
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken


def test_a_given_one_can_be_used_and_is_taken_back(few_descriptors: None) -> None:
    reserve = DescriptorReserve()
    taken = take_all()
    reserve.give_one()
    opened = os.open(os.devnull, os.O_RDONLY)
    os.close(opened)
    reserve.refill()
    with pytest.raises(OSError, match="Too many open files"):
        os.open(os.devnull, os.O_RDONLY)
    for descriptor in taken:
        os.close(descriptor)
    reserve.close()


def test_the_journal_is_written_although_clients_have_every_descriptor(few_descriptors: None, tmp_path: Path) -> None:
    rig = WriterRig(tmp_path)
    taken = take_all()
    rig.order(store(1, b"head", 0), WriteCheckpoint(b"known"), store(2, b"tail", 4))
    rig.stored(2)
    for descriptor in taken:
        os.close(descriptor)
    assert rig.content("000000000001.seg")[:8] == b"headtail"
    assert rig.content("checkpoint") == b"known"
    rig.close()
