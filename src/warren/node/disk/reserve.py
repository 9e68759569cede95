"""Descriptors kept aside for the journal: clients may take all others, and the disk must still be served.

A few are held open on nothing. Whoever cannot open a file gives one up and tries again; when none is left, because
somebody else was quicker, it waits for one to become free. They are taken back when there are enough.

Not here: how many a process may have (`node.process`), what is opened (`node.disk.writer`, `node.disk.reader`).
"""

import errno
import os
import threading
import time

KEPT_MAX = 8
WAIT_S = 0.05


class Reserve:
    """Used by both threads of the journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[int] = []
        self.refill()

    def refill(self) -> None:
        """Take back what was given up, as far as there is any."""
        with self._lock:
            try:
                while len(self._kept) < KEPT_MAX:
                    self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if not lacks_descriptors(error):
                    raise

    def give_one(self) -> None:
        """Make room for one file, or wait a moment for others to do so."""
        with self._lock:
            if self._kept:
                os.close(self._kept.pop())
                return
        time.sleep(WAIT_S)

    def close(self) -> None:
        with self._lock:
            for descriptor in self._kept:
                os.close(descriptor)
            self._kept.clear()


def lacks_descriptors(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)
