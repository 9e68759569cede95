"""The HTTP API as verbs call it: JSON in, JSON out, one connection, and a `Failure` for every error.

Names become path segments with every special character escaped, so a virtual host `/` or a queue of any name is one
segment. Long lists are requested page by page.

Exit codes are rabbitmqctl's, which scripts read.

Not here: the verbs (`cli.ctl.verbs`), printing failures (`cli.ctl.run`).
"""

import base64
import html
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from warren.cli.ctl.terms import elixir

OK: Final = 0
USAGE: Final = 64
DATA_ERROR: Final = 65
NO_SUCH_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
TIMED_OUT: Final = 75

STOPPED: Final = "app_stopped"
"""The error of a stopped node."""


class Failure(Exception):
    """The verb failed; the text goes to standard error unchanged."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.text = text


class UsageFailure(Failure):
    """The command line is wrong: the text is printed with the arguments and the usage."""

    prefix = "Error (argument validation)"


class WrongNodeState(UsageFailure):
    """The node is not in the state that the verb needs."""

    prefix = "Error"

    def __init__(self, text: str) -> None:
        super().__init__(USAGE, text)


class TimedOut(Failure):
    """The server did not respond in time."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(TIMED_OUT, f"timed out. Timeout value used: {timeout_s:g}")


class ApiRefusal(Failure):
    """The server responded with a status of 400 or more."""

    def __init__(self, status: int, error: str, reason: str, document: dict[str, object]) -> None:
        super().__init__(SOFTWARE if status >= 500 else UNAVAILABLE, error_text(reason))
        self.status = status
        self.error = error
        self.reason = reason
        self.document = document


def error_text(reason: str) -> str:
    """A reason as most verbs print it."""
    return f"Error:\n{reason}"


def failed(reason: str, exit_code: int = UNAVAILABLE) -> Failure:
    return Failure(exit_code, error_text(reason))


def no_such_vhost(vhost: str) -> Failure:
    return Failure(DATA_ERROR, f"Virtual host '{vhost}' does not exist")


PAGE_SIZE: Final = 500
Document = dict[str, Any]
Query = Mapping[str, object]
Headers = Mapping[str, str | bytes]


class Api:
    """One server, as one user."""

    def __init__(self, url: str, user: str, password: str, ca_file: str, timeout_s: float) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        self.url = parts.geturl()
        self.host = parts.hostname or ""
        try:
            self._connection = _connection(parts.scheme, self.host, parts.port, ca_file, timeout_s)
        except (OSError, ValueError) as error:
            raise failed(f"{self.url} cannot be used: {error}") from error
        self._prefix = parts.path.rstrip("/")
        self._authorization = authorization(user, password)
        self.timeout_s = timeout_s

    def get(self, *segments: str, **query: object) -> Any:
        return self._ask("GET", segments, query=query)

    def find(self, *segments: str, **query: object) -> Any:
        """The document, or None for 404."""
        try:
            return self.get(*segments, **query)
        except ApiRefusal as answer:
            if answer.status == 404:
                return None
            raise

    def put(self, *segments: str, body: object) -> None:
        self._ask("PUT", segments, body=body)

    def post(self, *segments: str, body: object, headers: Headers | None = None) -> None:
        """Bytes are sent unchanged, so that line numbers in the server's errors are those of the file."""
        self._ask("POST", segments, body=body, headers=headers)

    def get_with(self, headers: Headers, *segments: str) -> Any:
        return self._ask("GET", segments, headers=headers)

    def delete(self, *segments: str, query: Query | None = None, headers: Headers | None = None) -> None:
        self._ask("DELETE", segments, query=query, headers=headers)

    def remove(self, *segments: str) -> bool:
        """Delete; False if it did not exist."""
        try:
            self.delete(*segments)
        except ApiRefusal as answer:
            if answer.status == 404:
                return False
            raise
        return True

    def accepts(self, user: str, password: str) -> bool:
        """Whether the password is correct, even if the user may not use the API."""
        try:
            self._ask("GET", ("whoami",), headers={"Authorization": basic(user, password)})
        except ApiRefusal as answer:
            if answer.status not in (401, 403):
                raise
            return answer.error == "not_authorised"
        return True

    def pages(self, *segments: str, columns: list[str]) -> Iterator[Document]:
        """Every item of a list; none if the list does not exist."""
        page = 1
        while True:
            found = self.find(*segments, page=page, page_size=PAGE_SIZE, columns=",".join(columns))
            if not isinstance(found, dict):
                yield from found or []
                return
            yield from found["items"]
            page += 1
            if page > found["page_count"]:
                return

    def close(self) -> None:
        self._connection.close()

    def _ask(
        self,
        method: str,
        segments: tuple[str, ...],
        query: Query | None = None,
        body: object = None,
        headers: Headers | None = None,
    ) -> Any:
        path = "/".join([self._prefix, "api", *(quote(segment, safe="") for segment in segments)])
        target = f"{path}?{urlencode(query)}" if query else path
        content = body if body is None or isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        sent = {"Authorization": self._authorization, "Content-Type": "application/json", **(headers or {})}
        if self.timeout_s <= 0:
            raise TimedOut(self.timeout_s)
        try:
            self._connection.request(method, target, content, sent)
            answer = self._connection.getresponse()
            status, received = answer.status, answer.read()
        except TimeoutError as error:
            self.close()
            raise TimedOut(self.timeout_s) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Failure(UNAVAILABLE, unreachable(self.url, str(error) or type(error).__name__)) from error
        return self._read(status, received)

    def _read(self, status: int, received: bytes) -> Any:
        try:
            document = json.loads(received) if received else None
        except ValueError:
            document = None
        if status < 300:
            return document
        fields = document if isinstance(document, dict) else {}
        reason = fields.get("reason", http.client.responses.get(status, f"HTTP status {status}"))
        reason = html.unescape(reason if isinstance(reason, str) else elixir(reason))
        if status == 401 and fields.get("error") not in ("not_authorised", "not_proved"):
            reason = f"{self.url} does not accept this user name and password"
        raise ApiRefusal(status, str(fields.get("error", "")), reason, fields)


def authorization(user: str, password: str) -> str:
    """An access token needs no user, and counts also where passwords are switched off."""
    is_token = password.startswith("ey") and password.count(".") == 2
    return f"Bearer {password}" if is_token else basic(user, password)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def unreachable(place: str, detail: str) -> str:
    return (
        f"Error: unable to perform an operation on node '{place}'. "
        "Please see diagnostics information and suggestions below.\n\n"
        "Most common reasons for this are:\n\n"
        " * The node does not run\n"
        " * Its HTTP API is elsewhere: give its address with --http URL or in WARREN_HTTP\n"
        " * A firewall or a name that does not resolve is in between\n\n"
        f"DIAGNOSTICS\n===========\n\nattempted to contact: {place}\n\n * {detail}"
    )


def _connection(scheme: str, host: str, port: int | None, ca_file: str, timeout_s: float) -> http.client.HTTPConnection:
    if not host:
        raise ValueError("it names no host")
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    if scheme == "https":
        context = ssl.create_default_context(cafile=ca_file or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    raise ValueError("it must begin with http:// or https://")
