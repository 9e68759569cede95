"""The tracks of all objects of one kind, and one look at all of them.

A look goes through the tracks, drops those whose object is gone and records those that did something. Only if there
are then fewer tracks than objects are the objects gone through, to find the new ones; what a new one did so far, it
did since the last look.

A look is taken in steps, for there may be many objects and the loop has other things to do: `look` is a generator
that stops after every few.

Not here: which kinds there are and when to look (`history.sampler`).
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from warren.admin.history.shapes import SAMPLES_BYTES_MAX, Shape, Shapes
from warren.admin.history.track import Track
from warren.broker.watching.glances import GONE, Glance

STEP_OBJECTS = 256

Subject = TypeVar("Subject")


class Room:
    """How many bytes of samples there may still be, of all kinds of single objects together."""

    def __init__(self, bytes_max: int = SAMPLES_BYTES_MAX) -> None:
        self.left_bytes = bytes_max


class Collection(Generic[Subject]):
    """What all queues, or all connections, have been doing."""

    def __init__(
        self,
        shape: Shape,
        shapes: Shapes,
        room: Room,
        subjects: Callable[[], list[tuple[Hashable, Subject]]],
        count: Callable[[], int],
        glance: Callable[[Subject], Glance],
    ) -> None:
        self.tracks: dict[Hashable, Track] = {}
        self._shape = shape
        self._short = shapes.short(shape)
        self._kept_slots = max(level.every * level.size for level in shape.levels)
        self._room = room
        self._subjects = subjects
        self._count = count
        self._glance = glance
        self._slot = 0
        # when each step of the last look was taken
        self._stepped_at_ms: list[int] = []

    def begin(self, slot: int, now_ms: int) -> None:
        """What there is before anything happens has not happened just now."""
        self._slot = slot
        self._stepped_at_ms = [now_ms]
        for key, subject in self._subjects():
            glance = self._glance(subject)
            glance.look()
            self.tracks[key] = Track(self._shape, slot, glance.figures(), glance)

    def look(self, slot: int, now_ms: Callable[[], int]) -> Iterator[list[Hashable]]:
        """The keys of those that did something, step by step."""
        looked_at_ms, self._stepped_at_ms = self._stepped_at_ms, []
        tracks = list(self.tracks.items())
        for number, first in enumerate(range(0, len(tracks), STEP_OBJECTS)):
            at_ms = now_ms()
            gap_ms = at_ms - looked_at_ms[min(number, len(looked_at_ms) - 1)]
            self._stepped_at_ms.append(at_ms)
            yield self._look_at(tracks[first : first + STEP_OBJECTS], slot, gap_ms)
        if not self._stepped_at_ms:
            self._stepped_at_ms.append(now_ms())
        if len(self.tracks) != self._count():
            yield from self._find_new(slot, now_ms() - looked_at_ms[0])
        self._slot = slot

    def forget_stillness(self) -> None:
        """Let go of the samples of those that have been still for longer than samples are kept."""
        for track in self.tracks.values():
            if track.points is not None and self._slot - track.slot > self._kept_slots:
                self._room.left_bytes += track.samples_bytes
                track.rest()

    def _look_at(self, tracks: list[tuple[Hashable, Track]], slot: int, gap_ms: int) -> list[Hashable]:
        stirred: list[Hashable] = []
        for key, track in tracks:
            glance = track.glance
            assert glance is not None
            seen = glance.look()
            if not seen:
                continue
            if seen == GONE:
                self._room.left_bytes += track.samples_bytes
                del self.tracks[key]
                continue
            self._record(track, slot, gap_ms, glance.figures())
            stirred.append(key)
        return stirred

    def _find_new(self, slot: int, gap_ms: int) -> Iterator[list[Hashable]]:
        subjects = self._subjects()
        for first in range(0, len(subjects), STEP_OBJECTS):
            found: list[Hashable] = []
            for key, subject in subjects[first : first + STEP_OBJECTS]:
                if key not in self.tracks:
                    self._begin_track(key, subject, slot, gap_ms)
                    found.append(key)
            yield found

    def _begin_track(self, key: Hashable, subject: Subject, slot: int, gap_ms: int) -> None:
        glance = self._glance(subject)
        if glance.look() == GONE:
            return
        figures = glance.figures()
        track = self.tracks[key] = Track(self._shape, slot, figures, glance)
        if any(figures):
            track.last, track.slot = [0] * len(figures), slot - 1
            track.born = slot - 1
            self._record(track, slot, gap_ms, figures)

    def _record(self, track: Track, slot: int, gap_ms: int, figures: list[int]) -> None:
        columns = track.stirred_columns(figures)
        if columns is not track.columns:
            self._widen(track, columns)
        track.record(slot, gap_ms, figures)

    def _widen(self, track: Track, columns: tuple[int, ...]) -> None:
        had_bytes = track.samples_bytes
        shape = track.shape if track.points is not None else self._shape
        if track.points is None and self._room.left_bytes <= 0:
            shape = self._short
        track.widen(columns, shape)
        self._room.left_bytes -= track.samples_bytes - had_bytes
