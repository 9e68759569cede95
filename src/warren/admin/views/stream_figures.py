"""What a row of a queue says of it if it is a stream.

Not here: the rest of the row (`views.queues`), groups and stored offsets (`resources.streams`).
"""

from typing import Any

from warren.stream.stream import Stream

STREAM_COLUMNS = ("committed_offset", "disk_bytes", "first_offset", "leader", "readers", "segments")


def add_stream(row: dict[str, Any], stream: Stream, node: str) -> None:
    """Offsets of the first and the last message, -1 for none; how many files it has, and how large they are."""
    end = stream.end_offset()
    row["leader"] = node
    row["first_offset"] = stream.first_offset()
    row["committed_offset"] = end - 1
    row["segments"] = stream.segment_count()
    row["disk_bytes"] = stream.disk_bytes()
    row["readers"] = {node: stream.consumer_count()}
