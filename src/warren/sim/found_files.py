"""The journal's files on a pretend disk, as recovery reads them.

Not here: who writes them (`sim.disk`), what is in them (`warren.store`).
"""

from warren.sim.files import PretendDirectory
from warren.store.recovery import JournalFiles

CHECKPOINT = "checkpoint"


def segment_name(number: int) -> str:
    return f"{number:012}.seg"


def index_name(number: int) -> str:
    return f"{number:012}.idx"


class FoundFiles(JournalFiles):
    """The journal's files as they are at a start."""

    def __init__(self, directory: PretendDirectory) -> None:
        self._directory = directory

    def checkpoint(self) -> bytes | None:
        return self._content(CHECKPOINT)

    def segments(self) -> list[int]:
        return [int(name[:-4]) for name in self._directory.names() if name.endswith(".seg")]

    def segment(self, number: int) -> bytes:
        content = self._content(segment_name(number))
        assert content is not None
        return content

    def index(self, number: int) -> bytes | None:
        return self._content(index_name(number))

    def has_index(self, number: int) -> bool:
        return self._directory.find(index_name(number)) is not None

    def _content(self, name: str) -> bytes | None:
        file = self._directory.find(name)
        return None if file is None else file.read()
