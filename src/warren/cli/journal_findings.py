"""What is found in a data directory, as JSON has it and as tables show it; and what is said while it is read.

Not here: the commands (`cli.journal`), reading and repairing (`node.disk.offline`).
"""

import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from warren.errors import StoreError
from warren.node.disk.offline import OfflineDirectory, Recovered
from warren.store.found_rows import SALVAGE
from warren.store.survey import SegmentSurvey

TELL_EVERY_S = 2.0


class Progress:
    """Says on standard error what is being read, on a terminal always in the same line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._told_at = time.monotonic()

    def tell(self, text: str) -> None:
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._told_at > TELL_EVERY_S:
            self._told_at = time.monotonic()
            print(text, file=sys.stderr)

    def done(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def inspected(offline: OfflineDirectory) -> dict[str, Any]:
    """Everything that is known, as JSON has it."""
    surveys = offline.surveys()
    damaged = [survey for survey in surveys if not survey.sound()]
    faults = [f"segment {survey.number} of the journal is {survey.tail()}" for survey in damaged]
    recovered = None
    try:
        recovered = offline.recover(lenient=False)
        faults += [fault for fault in recovered.recovery.faults if fault not in faults]
    except StoreError as error:
        faults.append(str(error).removesuffix(f"; {SALVAGE}"))
    salvaged = offline.recover(lenient=True) if faults else None
    found = recovered or salvaged
    assert found is not None
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
        "faults": list(dict.fromkeys(faults)),
        "salvage": _salvage_facts(offline, salvaged) if salvaged is not None else None,
    }


def _segment_facts(survey: SegmentSurvey, found: Recovered) -> dict[str, Any]:
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


def _queue_facts(offline: OfflineDirectory, found: Recovered) -> list[dict[str, Any]]:
    facts = []
    for queue_id, owner in offline.owners.items():
        book = found.journal.books[queue_id]
        living = [holding for holding in book.holdings if holding.count > 0]
        facts.append(
            {
                "id": queue_id,
                "kind": owner.kind,
                "vhost": owner.vhost,
                "name": owner.name,
                "messages": sum(int(holding.count) for holding in living),
                "bytes": sum(int(holding.body_bytes) for holding in living),
                "horizon": int(book.horizon.redelivered_to),
                "stopped": found.recovery.stopped.get(queue_id, ""),
            }
        )
    return facts


def _salvage_facts(offline: OfflineDirectory, salvaged: Recovered) -> dict[str, Any]:
    recovery = salvaged.recovery
    return {
        "queues": [
            {**facts, "lost_messages": recovery.lost.get(facts["id"], 0)} for facts in _queue_facts(offline, salvaged)
        ],
        "left_out": [
            {"segment": number, "from_byte": first, "to_byte": end} for number, first, end in recovery.left_out
        ],
        "unknown_queues": [{"id": queue_id, "messages": count} for queue_id, count in sorted(recovery.unknown.items())],
    }


def show(findings: dict[str, Any]) -> None:
    metadata = findings["metadata"]
    counts = ", ".join(f"{count} {kind}" for kind, count in metadata.items() if kind != "revision") or "nothing"
    print(f"Node {findings['node']}, format {findings['format']}, incarnation {findings['incarnations']}")
    print(f"Metadata at revision {metadata['revision']}: {counts}")
    print(f"Stopped in good order: {'yes' if findings['stopped_cleanly'] else 'no'}")
    segments = Table("segment", "file bytes", "used", "records", "live", "live bytes", "synced", "tail")
    for one in findings["segments"]:
        records = ", ".join(f"{count} {kind}" for kind, count in one["records"].items())
        figures = [one[key] for key in ("segment", "file_bytes", "used_bytes")]
        live = [one[key] for key in ("live_messages", "live_bytes", "synced", "tail")]
        segments.add_row(*[str(cell) for cell in [*figures, records, *live]])
    queues = Table("kind", "vhost", "name", "messages", "bytes", "horizon", "stopped because")
    for one in findings["queues"]:
        queues.add_row(*[str(one[key]) for key in ("kind", "vhost", "name", "messages", "bytes", "horizon", "stopped")])
    _print(segments)
    _print(queues)
    for fault in findings["faults"]:
        print(f"Found: {fault}.")
    if findings["salvage"] is not None:
        show_salvage(findings["salvage"])


def show_salvage(salvaged: dict[str, Any]) -> None:
    """What salvage keeps and what it does not."""
    queues = Table("kind", "vhost", "name", "kept messages", "known to be lost")
    for one in salvaged["queues"]:
        queues.add_row(*[str(one[key]) for key in ("kind", "vhost", "name", "messages", "lost_messages")])
    print("Salvage keeps:")
    _print(queues)
    for one in salvaged["left_out"]:
        print(f"Salvage leaves out: segment {one['segment']}, bytes {one['from_byte']} to {one['to_byte']}")
    for one in salvaged["unknown_queues"]:
        print(f"Salvage leaves alone: {one['messages']} messages of queue number {one['id']}, unknown to the metadata")


def _print(table: Table) -> None:
    # a file gets every column whole
    width = None if sys.stdout.isatty() else 240
    Console(width=width, markup=False, highlight=False).print(table)
