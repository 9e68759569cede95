"""Where a read begins and ends: the user's text, its offsets, and the split of offset ranges among tasks.

    earliest                        the first message
    latest                          after the last one
    120                             this offset
    2026-11-15T08:30:00Z            the first message that arrived then or later; without a zone it is UTC
    timestamp:1794731400000         the same, in milliseconds since 1970
    {"0": 120, "1": "earliest"}     for a partitioned stream, one of the above for each partition

A range excludes its end, so an end names the first message that is *not* read.

Spark keeps the offsets of a query as a dict from the partition's number, as text, to the offset after the last message
that was read.

Invariant: everything here is a pure function. The same start and end make the same ranges.

Not here: asking a broker (`spark.stream_client`), options (`spark.options`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from warren.spark.options import OptionError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
TIMESTAMP: Final = "timestamp:"

Offsets = dict[str, int]
"""As Spark keeps them."""


@dataclass(frozen=True)
class NamedOffset:
    """`earliest` or `latest`."""

    name: str


@dataclass(frozen=True)
class ExactOffset:
    offset: int


@dataclass(frozen=True)
class TimestampOffset:
    arrived_ms: int


OffsetSpec = NamedOffset | ExactOffset | TimestampOffset


@dataclass(frozen=True)
class OffsetSpecs:
    """One specification for all partitions, or one for each."""

    everywhere: OffsetSpec | None
    by_partition: Mapping[int, OffsetSpec]

    def of(self, partition: int) -> OffsetSpec:
        place = self.by_partition.get(partition, self.everywhere)
        assert place is not None, "check_partitions was not called"
        return place

    def check_partitions(self, option: str, count: int) -> None:
        """An `OptionError` if the named partitions are not those of the stream."""
        if self.everywhere is not None:
            return
        named = set(self.by_partition)
        missing, strange = sorted(set(range(count)) - named), sorted(named - set(range(count)))
        if strange:
            raise OptionError(f"option {option} names partition {strange[0]}, and the stream has {count}")
        if missing:
            raise OptionError(f"option {option} says nothing of partition {missing[0]}; the stream has {count}")


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition; the end is excluded."""

    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        return max(self.end - self.start, 0)


def parse_offset_specs(option: str, text: str) -> OffsetSpecs:
    """Parse a user's start or end."""
    text = text.strip()
    if not text.startswith("{"):
        return OffsetSpecs(_offset_spec(option, text), {})
    try:
        said = json.loads(text)
    except ValueError:
        raise OptionError(f"option {option} is not JSON: {text!r}") from None
    by_partition: dict[int, OffsetSpec] = {}
    for name, value in said.items():
        if not (name.isascii() and name.isdigit()):
            raise OptionError(f"option {option}: a partition is a number, not {name!r}")
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise OptionError(f"option {option}: partition {name} begins or ends at an offset or a time, not {value!r}")
        by_partition[int(name)] = _offset_spec(option, str(value))
    return OffsetSpecs(None, by_partition)


def _offset_spec(option: str, text: str) -> OffsetSpec:
    if text.lower() in (EARLIEST, LATEST):
        return NamedOffset(text.lower())
    if _is_number(text):
        return ExactOffset(int(text))
    if text.lower().startswith(TIMESTAMP) and _is_number(text[len(TIMESTAMP) :]):
        return TimestampOffset(int(text[len(TIMESTAMP) :]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wanted = f"{EARLIEST}, {LATEST}, an offset, an ISO time, {TIMESTAMP}MILLISECONDS, or JSON of these"
        raise OptionError(f"option {option} is {wanted}, not {text!r}") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # arrival times are not negative
    return TimestampOffset(max(round(aware.timestamp() * 1000), 0))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def share_limit(backlogs: Mapping[int, int], limit: int) -> dict[int, int]:
    """How many messages to take of each partition: together the limit, or all there are.

    A partition with few messages leaves its share to the others.
    """
    taken: dict[int, int] = {}
    left = limit
    waiting = sorted(backlogs, key=lambda partition: (backlogs[partition], partition))
    for index, partition in enumerate(waiting):
        taken[partition] = min(backlogs[partition], left // (len(waiting) - index))
        left -= taken[partition]
    return taken


def split_ranges(ranges: list[OffsetRange], pieces: int | None) -> list[OffsetRange]:
    """At least `pieces` ranges, none of them empty; larger ones are cut more often."""
    filled = [each for each in ranges if each.count > 0]
    if pieces is None or pieces <= len(filled):
        return filled
    total = sum(each.count for each in filled)
    cut: list[OffsetRange] = []
    for each in filled:
        parts = min(each.count, -(-pieces * each.count // total))
        edges = [each.start + each.count * index // parts for index in range(parts + 1)]
        cut += [OffsetRange(each.partition, start, end) for start, end in pairwise(edges)]
    return cut


def ranges_between(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """The ranges between two offsets of a query.

    An end before its start means that the stream was deleted and created again: all of the new one is read.
    """
    ranges = []
    for name in sorted(end, key=int):
        begin = start.get(name, 0)
        ranges.append(OffsetRange(int(name), begin if begin <= end[name] else 0, end[name]))
    return ranges
