"""The content of a data directory as JSON and as tables, and the progress of reading it.

Not here: the commands (`cli.journal`), reading and repairing (`node.disk.offline_directory`).
"""

import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from warren.broker.journal.recovery import SALVAGE_HINT
from warren.broker.journal.segment_report import SegmentReport
from warren.broker.streams.survey import ArchiveSurvey
from warren.cli.terminal import say, visible
from warren.errors import StoreError
from warren.node.disk.offline_directory import OfflineDirectory, OfflineRecovery
from warren.node.disk.offline_streams import OfflineStream, offline_streams, offsets_in_words

SHOW_EVERY_S = 2.0


class ScanProgress:
    """Shows on standard error what is being read; on a terminal, on one line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown_at = time.monotonic()

    def show(self, text: str) -> None:
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._shown_at > SHOW_EVERY_S:
            self._shown_at = time.monotonic()
            print(text, file=sys.stderr)

    def done(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def inspected(offline: OfflineDirectory) -> dict[str, Any]:
    """Everything that is known, as JSON."""
    surveys = offline.surveys()
    damaged = [survey for survey in surveys if not survey.sound()]
    faults = [f"segment {survey.number} of the journal is {survey.tail()}" for survey in damaged]
    recovered = None
    try:
        recovered = offline.recover(lenient=False)
        faults += [fault for fault in recovered.recovery.faults if fault not in faults]
    except StoreError as error:
        faults.append(str(error).removesuffix(f"; {SALVAGE_HINT}"))
    salvaged = None if recovered is not None else offline.recover(lenient=True)
    found = recovered or salvaged
    assert found is not None
    streams = offline_streams(offline, found.journal)
    faults += [fault for stream in streams for fault in stream.faults()]
    if faults and salvaged is None:
        salvaged = offline.recover(lenient=True)
    kinds = [key.split("/", 1)[0] for key in offline.values]
    return {
        "node": offline.node_name,
        "format": offline.format,
        "incarnations": offline.incarnation,
        "metadata": {"revision": offline.revision, **{kind: kinds.count(kind) for kind in sorted(set(kinds))}},
        "stopped_cleanly": found.recovery.clean,
        "starts": recovered is not None,
        "segments": [_segment_facts(survey, found) for survey in surveys],
        "queues": _queue_facts(offline, found),
        "streams": [_stream_facts(stream) for stream in streams],
        "faults": list(dict.fromkeys(faults)),
        "salvage": _salvage_facts(offline, salvaged, streams) if salvaged is not None else None,
    }


def _segment_facts(survey: SegmentReport, found: OfflineRecovery) -> dict[str, Any]:
    segment = found.journal.segments.get(survey.number)
    return {
        "segment": survey.number,
        "file_bytes": survey.file_bytes,
        "used_bytes": survey.used_bytes,
        "incarnation": survey.incarnation,
        "batches": survey.batches,
        "records": survey.kinds,
        "live_messages": int(segment.live_count) if segment else 0,
        "live_bytes": int(segment.live_bytes) if segment else 0,
        "synced": survey.synced,
        "tail": survey.tail(),
    }


def _queue_facts(offline: OfflineDirectory, found: OfflineRecovery) -> list[dict[str, Any]]:
    facts = []
    for queue_id, owner in offline.owners.items():
        queue_index = found.journal.queue_indexes[queue_id]
        living = [extent for extent in queue_index.segment_extents if extent.count > 0]
        facts.append(
            {
                "id": queue_id,
                "kind": owner.kind,
                "vhost": owner.vhost,
                "name": owner.name,
                "messages": sum(int(extent.count) for extent in living),
                "bytes": sum(int(extent.body_bytes) for extent in living),
                "horizon": int(queue_index.watermark.redelivered_to),
                "stopped": found.recovery.stopped.get(queue_id, ""),
            }
        )
    return facts


def _stream_facts(stream: OfflineStream) -> dict[str, Any]:
    owner = stream.owner
    return {
        "id": stream.stream_id,
        "vhost": "" if owner is None else owner.vhost,
        "name": "" if owner is None else owner.name,
        "segments": [_archive_facts(segment) for segment in stream.survey.segments],
        "in_journal": [[first, behind - 1] for first, behind in stream.rest],
        "missing": [[first, behind - 1] for first, behind in stream.missing],
    }


def _archive_facts(segment: ArchiveSurvey) -> dict[str, Any]:
    chunks = segment.chunks
    return {
        "segment": segment.number,
        "file_bytes": segment.file_bytes,
        "chunks": len(chunks),
        "first_offset": chunks[0].first if chunks else None,
        "last_offset": chunks[-1].end - 1 if chunks else None,
        "tail": segment.tail(),
    }


def _salvage_facts(
    offline: OfflineDirectory, salvaged: OfflineRecovery, streams: list[OfflineStream]
) -> dict[str, Any]:
    recovery = salvaged.recovery
    return {
        "queues": [
            {**facts, "lost_messages": recovery.lost.get(facts["id"], 0)} for facts in _queue_facts(offline, salvaged)
        ],
        "left_out": [
            {"segment": number, "from_byte": first, "to_byte": end} for number, first, end in recovery.left_out
        ],
        "stopgaps": [
            {"id": stream.stream_id, "whose": stream.describe(), "first": first, "last": behind - 1}
            for stream in streams
            for first, behind in stream.fillable()
        ],
        "unknown_queues": [{"id": queue_id, "messages": count} for queue_id, count in sorted(recovery.unknown.items())],
    }


def show(findings: dict[str, Any]) -> None:
    metadata = findings["metadata"]
    counts = ", ".join(f"{count} {kind}" for kind, count in metadata.items() if kind != "revision") or "nothing"
    print(f"Node {findings['node']}, format {findings['format']}, incarnation {findings['incarnations']}")
    print(f"Metadata at revision {metadata['revision']}: {counts}")
    print(f"Clean shutdown: {'yes' if findings['stopped_cleanly'] else 'no'}")
    segments = Table("segment", "file bytes", "used", "records", "live", "live bytes", "synced", "tail")
    for one in findings["segments"]:
        records = ", ".join(f"{count} {kind}" for kind, count in one["records"].items())
        sizes = [one[key] for key in ("segment", "file_bytes", "used_bytes")]
        live = [one[key] for key in ("live_messages", "live_bytes", "synced", "tail")]
        segments.add_row(*[str(cell) for cell in [*sizes, records, *live]])
    queues = Table("kind", "vhost", "name", "messages", "bytes", "horizon", "stopped because")
    for one in findings["queues"]:
        queues.add_row(
            *[visible(str(one[key])) for key in ("kind", "vhost", "name", "messages", "bytes", "horizon", "stopped")]
        )
    _print(segments)
    _print(queues)
    if findings["streams"]:
        _print(_stream_table(findings["streams"]))
    for fault in findings["faults"]:
        say(f"Found: {fault}.")
    if findings["salvage"] is not None:
        show_salvage(findings["salvage"])


def _stream_table(streams: list[dict[str, Any]]) -> Table:
    """A row for each file, and for each range of offsets that only the journal has or that is missing."""
    table = Table("stream", "vhost", "name", "where", "offsets", "chunks", "file bytes", "tail")
    for stream in streams:
        whose = [visible(str(stream[key])) for key in ("id", "vhost", "name")]
        for one in stream["segments"]:
            offsets = "none" if one["first_offset"] is None else f"{one['first_offset']} to {one['last_offset']}"
            cells = [f"segment {one['segment']}", offsets, one["chunks"], one["file_bytes"], one["tail"]]
            table.add_row(*whose, *[str(cell) for cell in cells])
        for where, key in (("journal", "in_journal"), ("missing", "missing")):
            for first, last in stream[key]:
                table.add_row(*whose, where, f"{first} to {last}", "", "", "")
    return table


def show_salvage(salvaged: dict[str, Any]) -> None:
    """What salvage keeps and what it drops."""
    queues = Table("kind", "vhost", "name", "kept messages", "known to be lost")
    for one in salvaged["queues"]:
        queues.add_row(*[visible(str(one[key])) for key in ("kind", "vhost", "name", "messages", "lost_messages")])
    print("Salvage keeps:")
    _print(queues)
    for one in salvaged["left_out"]:
        print(f"Salvage leaves out: segment {one['segment']}, bytes {one['from_byte']} to {one['to_byte']}")
    for one in salvaged["stopgaps"]:
        say(
            f"Salvage puts stopgaps in the place of {offsets_in_words(one['first'], one['last'] + 1)} of {one['whose']}"
        )
    for one in salvaged["unknown_queues"]:
        print(f"Salvage leaves alone: {one['messages']} messages of queue number {one['id']}, unknown to the metadata")


def _print(table: Table) -> None:
    # not on a terminal: no column is cut
    width = None if sys.stdout.isatty() else 240
    Console(width=width, markup=False, highlight=False).print(table)
