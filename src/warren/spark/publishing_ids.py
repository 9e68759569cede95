"""The identity of a row, by which the broker recognises it when it is sent again.

The broker drops a message whose publisher and id it remembers. So both must be the same whenever Spark writes the same
row again, and different for any two rows that are both to be kept:

- **The publisher** is the query and the partition; for a batch write its job, or the option `publisher`, and the
  partition. A task that runs again, speculatively or after a crash of the driver, is the same publisher. In fact it is
  several, because the broker remembers a limited number of ids of each: the id of a row decides which of them sends it.
- **The id** is the message id if the row has one. Else it is a digest of the row, prefixed with the number of the
  batch. Equal rows of a task are numbered: the third of them is the third in any order. The index of a row is not part
  of it, because rows come in another order after a shuffle.

Not here: how long the broker remembers (its `x-warren-dedup-window`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from zlib import crc32

DIGEST_CHARACTERS: Final = 24
"""96 bits: two of a thousand million rows of one batch collide with a probability of one in 10^11."""

SHARES: Final = 16
"""The publishers of a task: with a million rows each has 62,500, and the broker remembers 100,000."""

TASK_ROWS_MAX: Final = 1_000_000
"""How many ids a queue remembers over all publishers."""


@dataclass(frozen=True)
class TaskPublisher:
    """The names of a task's publishers, and the prefix of its ids."""

    publisher: str
    prefix: str = ""

    def names(self) -> list[str]:
        """Its publishers, one for each share of the rows."""
        return [f"{self.publisher}/{share:x}" for share in range(SHARES)]


def stream_task_publisher(publisher: str | None, query_id: str, batch_id: str, partition: int) -> TaskPublisher:
    """A task of one batch of a streaming query."""
    return TaskPublisher(f"{publisher or query_id}/{partition}", f"{batch_id}-")


def batch_task_publisher(job: str, partition: int) -> TaskPublisher:
    """A task of a batch write."""
    return TaskPublisher(f"{job}/{partition}")


class RowIds:
    """Numbers the equal rows of one task."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: dict[str, int] = {}

    def of(self, rows: Sequence[bytes | memoryview]) -> list[bytes]:
        """An id for each row, from its content."""
        prefix, seen = self._prefix, self._seen
        ids: list[bytes] = []
        for row in rows:
            digest = sha256(row).hexdigest()[:DIGEST_CHARACTERS]
            before = seen.get(digest)
            if before is None:
                seen[digest] = 1
                ids.append(f"{prefix}{digest}".encode())
            else:
                seen[digest] = before + 1
                ids.append(f"{prefix}{digest}.{before}".encode())
        return ids


def shares_of(ids: Sequence[bytes]) -> bytes:
    """Which publisher of the task sends each row: by its id alone."""
    return bytes([crc32(each) % SHARES for each in ids])
