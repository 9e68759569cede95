"""The streams of a data directory that no node uses: their files, what the journal has of them, and what is missing.

Not here: the files chunk by chunk (`stream.survey`), the journal (`node.disk.offline`).
"""

import os

from warren.model.rings import POSITION_BITS
from warren.node.disk import names
from warren.node.disk.archive_files import FoundArchives
from warren.node.disk.offline import OfflineDirectory, Owner
from warren.store.journal import Journal
from warren.store.queue_book import QueueBook
from warren.stream.offsets import offset_of
from warren.stream.survey import StreamSurvey


class FoundStream:
    """One stream; `owner` is None if the metadata does not know whose the files are."""

    def __init__(self, stream_id: int, owner: Owner | None, survey: StreamSurvey) -> None:
        self.stream_id = stream_id
        self.owner = owner
        self.survey = survey
        # what the journal has, in order: the first offset, and the one behind the last
        self.rest: list[tuple[int, int]] = []
        # the same for what is neither there nor in files
        self.missing: list[tuple[int, int]] = []
        # the one that its positions are of
        self.epoch: int = 0

    def fillable(self) -> list[tuple[int, int]]:
        """What is missing before anything that the journal has: stopgaps in files can take its place."""
        begins = self.rest[0][0] if self.rest else None
        return [(first, behind) for first, behind in self.missing if begins is None or behind <= begins]

    def sound(self) -> bool:
        return not self.missing and not any(segment.damaged_at for segment in self.survey.segments)

    def describe(self) -> str:
        if self.owner is None:
            return f"stream number {self.stream_id}"
        return f"stream '{self.owner.name}' in vhost '{self.owner.vhost}'"

    def faults(self) -> list[str]:
        """What is wrong with it, in sentences."""
        who = self.describe()
        damaged = [segment for segment in self.survey.segments if segment.damaged_at]
        faults = [f"segment {segment.number} of {who} is {segment.tail()}" for segment in damaged]
        for first, behind in self.missing:
            verb = "is" if behind == first + 1 else "are"
            faults.append(f"{offsets_in_words(first, behind)} of {who} {verb} missing")
        return faults


def offsets_in_words(first: int, behind: int) -> str:
    return f"offset {first}" if behind == first + 1 else f"offsets {first} to {behind - 1}"


def living_offsets(book: QueueBook) -> list[tuple[int, int]]:
    """What the journal has of a stream: the first offset, and the one behind the last, in order."""
    ranges: list[tuple[int, int]] = []
    removed = book.removed_at(0)
    for run in book.runs():
        for position in range(int(run.first), int(run.last) + 1):
            if removed.has(position):
                continue
            offset = int(offset_of(position))
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
    return ranges


def found_streams(offline: OfflineDirectory, journal: Journal) -> list[FoundStream]:
    """All that have files, or that the metadata knows."""
    files = FoundArchives(os.path.join(offline.path, names.STREAMS))
    known = [queue_id for queue_id, owner in offline.owners.items() if owner.kind == "stream"]
    found: list[FoundStream] = []
    for stream_id in sorted({*files.streams(), *known}):
        owner = offline.owners.get(stream_id)
        if owner is None:
            found.append(FoundStream(stream_id, None, StreamSurvey(files, stream_id, [])))
            continue
        book = journal.books[stream_id]
        rest = living_offsets(book)
        stream = FoundStream(stream_id, owner, StreamSurvey(files, stream_id, rest))
        stream.rest = rest
        stream.epoch = int(book.next_position) >> POSITION_BITS
        stream.missing = stream.survey.missing(int(offset_of(book.next_position)))
        found.append(stream)
    return found
