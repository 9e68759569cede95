"""The journal's files as they are found at a start, before anything is written.

Files that were being written when the node ended (`*.new`) never counted, and go; so does the index of a segment that
is gone. What is not the journal's is left alone and named.

Not here: what the bytes mean (`store.recovery`).
"""

import os
from collections.abc import Callable
from typing import TypeVar

from warren.errors import StoreError
from warren.node.disk import names
from warren.store.recovery import JournalFiles

T = TypeVar("T")

_OTHERS = (names.CHECKPOINT, names.SPARE, names.IDENTITY)


class BootFiles(JournalFiles):
    """The real files behind the port that recovery reads."""

    def __init__(self, journal: str, tidy: bool = True) -> None:
        """`tidy`: remove what never counted."""
        self._journal = journal
        self._segments: list[int] = []
        self.strangers: list[str] = []
        for name in sorted(_told(journal, os.listdir)):
            number = names.segment_number(name)
            if number is not None:
                self._segments.append(number)
            elif name.endswith(names.UNFINISHED_SUFFIX):
                if tidy:
                    self._remove(name)
            elif names.index_number(name) is None and name not in _OTHERS:
                self.strangers.append(name)
        if tidy:
            self._remove_lone_indexes()

    def checkpoint(self) -> bytes | None:
        return self._content(names.CHECKPOINT)

    def segments(self) -> list[int]:
        return self._segments

    def segment(self, number: int) -> bytes:
        name = names.segment_name(number)
        content = self._content(name)
        if content is None:
            raise StoreError(f"{os.path.join(self._journal, name)} is missing")
        return content

    def index(self, number: int) -> bytes | None:
        return self._content(names.index_name(number))

    def has_index(self, number: int) -> bool:
        return os.path.lexists(names.index_path(self._journal, number))

    def _content(self, name: str) -> bytes | None:
        path = os.path.join(self._journal, name)
        return _told(path, _read) if os.path.lexists(path) else None

    def _remove_lone_indexes(self) -> None:
        present = set(self._segments)
        for name in os.listdir(self._journal):
            number = names.index_number(name)
            if number is not None and number not in present:
                self._remove(name)

    def _remove(self, name: str) -> None:
        _told(os.path.join(self._journal, name), os.unlink)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _told(path: str, act: Callable[[str], T]) -> T:
    """What an act on a file gives, or the one sentence why it cannot be had."""
    try:
        return act(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error.strerror}") from error
