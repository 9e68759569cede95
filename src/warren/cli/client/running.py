"""A job in the foreground: it says when it is ready, and stops in good order after SIGTERM or Ctrl-C.

Not here: the jobs (`cli.client.relay`, `cli.client.chase`).
"""

import asyncio
import signal
from typing import TYPE_CHECKING

from warren.cli.client.databases import shown

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.listening.blocking import Job


def stop_by_signals(job: "Job") -> None:
    """From now on, in the loop that runs."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, job.stop)


async def run_job(job: "Job", engine: "Engine") -> None:
    """Until it is told to stop, or cannot go on."""
    print(f"ready database={shown(engine)}", flush=True)
    await job.run()
