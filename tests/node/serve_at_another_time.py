"""`warren serve` on a machine whose wall clock is wrong, and may jump. To be run as a script, in place of `warren`.

    serve_at_another_time.py FILE serve ...

FILE has the number of seconds that the wall clock is ahead, read whenever the time is. Monotonic clocks are as they
are, as on a machine whose clock is set.
"""

import sys
import time
from pathlib import Path

_AHEAD = Path(sys.argv[1])
_WALL_NS = time.time_ns


def _now_ns() -> int:
    return _WALL_NS() + int(_AHEAD.read_text()) * 1_000_000_000


if __name__ == "__main__":
    time.time_ns = _now_ns
    time.time = lambda: _now_ns() / 1e9
    from warren.cli.main import run

    sys.exit(run(sys.argv[2:]))
