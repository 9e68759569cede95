"""A Warren node of this checkout, started for one run and stopped after it.

Not here: its clients (`suites.py`).
"""

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
WARREN = PROJECT / ".venv" / "bin" / "warren"
LISTENERS = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0")
READY_LIMIT_S = 30
READY = re.compile(rb"^ready .*\bamqp=(\S+):(\d+) http=(\S+):(\d+)")
STOP_LIMIT_S = 20


@dataclass(frozen=True)
class Broker:
    """Where a broker listens: host and port for AMQP and for its HTTP API."""

    amqp: tuple[str, int]
    http: tuple[str, int]


class NotStarted(Exception):
    """The node did not come up; the message says why and what to do."""


class EndedByItself(Exception):
    """The node ended while it was in use; the message says where its log is."""


@contextlib.asynccontextmanager
async def warren_node(log: Path) -> AsyncIterator[Broker]:
    """Where it listens. Its log is kept at `log`, its data is not kept.

    If the node ends by itself, the caller is cancelled, so that its tests do not time out one by one.
    """
    if not WARREN.exists():
        raise NotStarted(f"{WARREN} is missing: run `make setup` first, or name a running broker with --amqp HOST:PORT")
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="warren-conformance-") as data, log.open("wb") as errors:
        node = await asyncio.create_subprocess_exec(
            str(WARREN), "serve", *LISTENERS, "--data", data,
            stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        user = asyncio.current_task()
        assert user is not None
        watcher = asyncio.create_task(_cancel_when_ended(node, user))
        try:
            yield await _address(node, log)
        except asyncio.CancelledError:
            if node.returncode is None:
                raise
            raise EndedByItself(
                f"the node ended by itself with exit code {node.returncode}; its log is {log}"
            ) from None
        finally:
            watcher.cancel()
            await _stop(node)


async def _address(node: asyncio.subprocess.Process, log: Path) -> Broker:
    assert node.stdout is not None
    try:
        async with asyncio.timeout(READY_LIMIT_S):
            async for line in node.stdout:
                if found := READY.search(line):
                    return Broker((found[1].decode(), int(found[2])), (found[3].decode(), int(found[4])))
    except TimeoutError:
        pass
    raise NotStarted(f"the node printed no `ready` line within {READY_LIMIT_S} s; its log is {log}")


async def _cancel_when_ended(node: asyncio.subprocess.Process, user: "asyncio.Task[Any]") -> None:
    await node.wait()
    user.cancel()


async def _stop(node: asyncio.subprocess.Process) -> None:
    if node.returncode is not None:
        return
    node.terminate()
    try:
        await asyncio.wait_for(node.wait(), STOP_LIMIT_S)
    except TimeoutError:
        node.kill()
        await node.wait()
