"""Whether the disk is quick enough to be waited for.

Not here: who waits (`node.disk.shortcut`), what is flushed (`node.disk.writer`).
"""

QUICK_S = 0.0005
WEIGHT = 1 / 16


class DiskPace:
    """A running average of what small flushes take. Of a disk that nothing is known of, it is twice what is quick.

    A single long one among short ones changes nothing; several do, until as many short ones have followed.
    """

    __slots__ = ("_average_s",)

    def __init__(self) -> None:
        self._average_s = 2 * QUICK_S

    def took(self, seconds: float) -> None:
        self._average_s += (seconds - self._average_s) * WEIGHT

    def quick(self) -> bool:
        return self._average_s <= QUICK_S
