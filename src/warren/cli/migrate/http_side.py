"""One of the two brokers, over its HTTP API, with everything that goes wrong said in one sentence.

An idle connection may have been closed by the server, so what fails on the way is asked once more; all that is asked
here does the same when it is done twice.

Not here: the API itself (`cli.ctl.api`), what is asked (`cli.migrate.rabbitmq`, `cli.migrate.destination`).
"""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from warren.cli.ctl.api import Api
from warren.cli.ctl.failure import UNAVAILABLE, Declined, Failure, TimedOut
from warren.cli.migrate.trouble import Away, MoveFailed
from warren.errors import ConfigError

Answer = TypeVar("Answer")

TIMEOUT_S = 60.0
SERVER_ERROR = 500
"""Statuses from this one on are those of a server that starts, stops or is out of order."""


class HttpSide:
    """`called` is what the broker is called in sentences."""

    def __init__(self, called: str, url: str, ca_file: str) -> None:
        self.called = called
        try:
            parts = urlsplit(url)
            self.host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError(f"the address of {called} makes no sense: {error}") from error
        if parts.scheme not in ("http", "https") or not self.host:
            raise ConfigError(f"the address of {called} is that of its HTTP API: http://USER:PASSWORD@HOST:15672")
        self.user = unquote(parts.username or "guest")
        self.password = unquote(parts.password or "guest")
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self.address = f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
        try:
            self._api = Api(self.address, self.user, self.password, ca_file, TIMEOUT_S)
        except Failure as failure:
            raise ConfigError(f"{called}: {_words(failure.text)}") from failure

    def get(self, *segments: str, **query: object) -> Any:
        return self._asked(lambda: self._api.get(*segments, **query))

    def find(self, *segments: str, **query: object) -> Any:
        return self._asked(lambda: self._api.find(*segments, **query))

    def put(self, *segments: str, body: object) -> None:
        self._asked(lambda: self._api.put(*segments, body=body))

    def post(self, *segments: str, body: object) -> None:
        self._asked(lambda: self._api.post(*segments, body=body))

    def remove(self, *segments: str) -> bool:
        return self._asked(lambda: self._api.remove(*segments))

    def close(self) -> None:
        self._api.close()

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except Declined as answer:
            raise self._declined(answer) from answer
        except TimedOut as failure:
            raise Away(f"{self.called} at {self.address} takes too long to answer") from failure
        except Failure as failure:
            if failure.exit_code != UNAVAILABLE:
                raise MoveFailed(f"{self.called}: {_words(failure.text)}") from failure
        try:
            return ask()
        except Declined as answer:
            raise self._declined(answer) from answer
        except Failure as failure:
            why = failure.__cause__ or failure.text
            raise Away(f"{self.called} at {self.address} does not answer: {why}") from failure

    def _declined(self, answer: Declined) -> MoveFailed:
        if answer.status == 401:
            return MoveFailed(
                f"{self.called} at {self.address} does not let '{self.user}' in: it takes an administrator's name and "
                "password, and guest may come from the same machine only"
            )
        kind = Away if answer.status >= SERVER_ERROR else MoveFailed
        return kind(f"{self.called} at {self.address} says: {_words(answer.reason)}")


def _words(text: str) -> str:
    return " ".join(text.removeprefix("Error:").split())
