"""A verb of `warren ctl`, one call of it, its possible results, and access to a node's membership.

A node answers the membership paths whether it runs or is stopped. A running node wants a login. A stopped node has no
users: it wants a proof of the cluster's cookie, which is read from a file of this machine.

Not here: the verbs (`cli.ctl.verbs`), parsing (`cli.ctl.command_line`), printing (`cli.ctl.output`), the proof
(`node.peers.cookie`).
"""

import getpass
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from warren.cli.ctl.api import (
    DATA_ERROR,
    OK,
    UNAVAILABLE,
    USAGE,
    Api,
    ApiRefusal,
    Failure,
    UsageFailure,
    failed,
    unreachable,
)
from warren.errors import ConfigError
from warren.node.peers.cookie import COOKIE_PROOF_HEADER, cookie_at, prove_cookie

PATH: Final = ("warren", "membership")
RUNNING: Final = "running"
STOPPED: Final = "stopped"


class MembershipApi:
    """The membership of the node at one address; `wanted` is the expected name, if given."""

    def __init__(self, api: Api, cookie_file: str, wanted: str) -> None:
        self._api = api
        self._cookie_file = cookie_file
        self._wanted = wanted
        self._cookie = b""
        self.node = ""
        self.app = ""
        self.look()

    def look(self) -> None:
        """Read the node's name and state."""
        try:
            found = self._api.get(*PATH)
        except ApiRefusal as answer:
            if answer.status in (404, 405):
                raise failed("this server has no paths about its membership") from answer
            raise
        self.node, self.app = str(found["node"]), str(found["app"])
        if self._wanted not in ("", self.node, self.node.partition("@")[0]):
            detail = f"the node at {self._api.url} is {self.node}; give the address of the other one with --http"
            raise Failure(UNAVAILABLE, unreachable(self._wanted, detail))

    def trouble(self) -> str:
        """Why the node failed to start."""
        return str(self._api.get_with(self._proof("GET", "", b""), *PATH).get("trouble", ""))

    def order(self, verb: str, **arguments: object) -> None:
        body = json.dumps(arguments).encode()
        headers = {} if self.app == RUNNING else self._proof("POST", f"/{verb}", body)
        self._api.post(*PATH, verb, body=body, headers=headers)

    def _proof(self, method: str, below: str, body: bytes) -> dict[str, Any]:
        path = "/".join(["", "api", *PATH]) + below
        self._cookie = self._cookie or self._found_cookie()
        text = prove_cookie(self._cookie, self.node, method, path, body, int(time.time()), secrets.token_hex(16))
        return {COOKIE_PROOF_HEADER: text}

    def _found_cookie(self) -> bytes:
        given = os.environ.get("WARREN_CLUSTER__COOKIE", "")
        if given and not self._cookie_file:
            return given.encode()
        path = self._cookie_file or os.environ.get("WARREN_CLUSTER__COOKIE_FILE", "")
        path = path or os.path.join(os.environ.get("WARREN_DATA", "var"), "cookie")
        try:
            return cookie_at(path)
        except FileNotFoundError as error:
            raise failed(_NO_COOKIE.format(node=self.node, app=self.app, path=path), DATA_ERROR) from error
        except ConfigError as error:
            raise failed(str(error), DATA_ERROR) from error


_NO_COOKIE: Final = (
    "{node} is {app}, so it has no users and accepts orders only with the cookie of its cluster. There is "
    "none at {path}: name the file with --cookie-file or in WARREN_CLUSTER__COOKIE_FILE (it is called cookie, in the "
    "node's data directory)"
)


MANY: Final = 1000
Getter = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A column: the fields to request, and how they become a value."""

    fields: tuple[str, ...]
    value: Getter


@dataclass(frozen=True, slots=True)
class Rows:
    """A list. A `streamed` list is printed while it is read, and prints nothing if it is empty."""

    columns: list[str]
    items: Iterable[Mapping[str, object]]
    streamed: bool = False
    headed: bool = True
    exit_code: int = OK


@dataclass(frozen=True, slots=True)
class Text:
    """Text, and its JSON document. `chatty` text is left out with --quiet."""

    words: str
    document: object = None
    chatty: bool = False


VerbResult = Rows | Text | None


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. `banner` is printed first; `{0}` is an argument, `{vhost}` and `{node}` the targets."""

    name: str
    summary: str
    run: Callable[["VerbCall"], VerbResult]
    usage: str = ""
    example: str = ""
    banner: "str | Callable[[VerbCall], str]" = ""
    arguments: tuple[int, int] = (0, 0)
    switches: Mapping[str, type] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, ColumnSource] = field(default_factory=dict)
    check: "Callable[[VerbCall], None] | None" = None
    patience_s: float = 60.0
    # works on the process, whether its node runs or not
    of_process: bool = False


@dataclass(frozen=True)
class Options:
    """Options of all verbs; `own` has those of one verb."""

    http: str
    user: str
    password: str
    ca_file: str = ""
    cookie_file: str = ""
    vhost: str = "/"
    node: str = ""
    quiet: bool = False
    silent: bool = False
    formatter: str = ""
    headers: bool = True
    dry_run: bool = False
    timeout_s: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VerbCall:
    """A verb with its arguments and options."""

    verb: Verb
    arguments: list[str]
    options: Options
    patience_s: float = 60.0

    @property
    def vhost(self) -> str:
        return self.options.vhost

    @property
    def timeout_s(self) -> float:
        given = self.options.timeout_s
        return self.patience_s if given is None else float(given)

    @cached_property
    def api(self) -> Api:
        options = self.options
        return Api(options.http, options.user, options.password, options.ca_file, self.timeout_s)

    @cached_property
    def membership(self) -> MembershipApi:
        return MembershipApi(self.api, self.options.cookie_file, self.options.node)

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()

    @cached_property
    def node(self) -> str:
        """The named node, or the one that responds."""
        wanted = self.options.node
        if self.verb.of_process:
            return self.membership.node
        if not wanted:
            return str(self.api.get("overview", columns="node")["node"])
        nodes = {str(node["name"]): node for node in self.api.get("nodes", columns="name,running")}
        detail = f"the cluster at {self.api.url} consists of {', '.join(nodes)}"
        for name, node in nodes.items():
            if wanted in (name, name.partition("@")[0]):
                if node.get("running", True):
                    return name
                detail = f"{name} does not run, as far as {self.api.url} can tell"
        raise Failure(UNAVAILABLE, unreachable(wanted, detail))

    def banner(self) -> str:
        """The line before the work."""
        template = self.verb.banner
        if not isinstance(template, str):
            return template(self)
        node = self.node if "{node}" in template else ""
        return template.format(*self.arguments, vhost=self.vhost, node=node, timeout=self.timeout_s)

    def own(self, switch: str, otherwise: Any = None) -> Any:
        return self.options.own.get(switch, otherwise)

    def password(self, position: int, exit_code: int) -> str:
        """The password argument, or one that is asked for."""
        if len(self.arguments) > position:
            return self.arguments[position]
        if sys.stdin.isatty():
            return getpass.getpass("Password: ")
        print("Password: ", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise failed("Password is not provided via argument or stdin", exit_code)
        return line.rstrip("\r\n")

    def chosen_columns(self, default: str) -> list[str]:
        """The selected columns without repetitions; an unknown name is a usage error."""
        words = [word for argument in self.arguments for word in argument.split(",") if word]
        unknown = sorted({word for word in words if word not in self.verb.columns})
        if unknown:
            raise UsageFailure(USAGE, f"Info key(s) {','.join(unknown)} are not supported")
        return list(dict.fromkeys(words)) or default.split()


def no_empty_name(call: VerbCall) -> None:
    if not call.arguments[0]:
        raise UsageFailure(DATA_ERROR, "Bad argument: user cannot be an empty string")


def same(names: str) -> dict[str, ColumnSource]:
    """Columns that are fields of the same name."""
    return {name: ColumnSource((name,), _field(name)) for name in names.split()}


def listed(
    call: VerbCall,
    default: str,
    *segments: str,
    lists: Callable[[dict[str, Any]], bool] | None = None,
    needs: tuple[str, ...] = (),
) -> Rows:
    """A list with selectable columns; `lists` filters items by the fields it `needs`."""
    columns = call.chosen_columns(default)
    sources = [(name, call.verb.columns[name]) for name in columns]
    fields = dict.fromkeys([*needs, *(field for _, source in sources for field in source.fields)])
    found = call.api.pages(*segments, columns=list(fields))
    items = ({name: source.value(item) for name, source in sources} for item in found if lists is None or lists(item))
    return Rows(columns, items, streamed=True)


def list_verb(
    name: str,
    summary: str,
    path: str,
    default: str,
    columns: Mapping[str, ColumnSource],
    example: str,
    banner: str,
    needs: tuple[str, ...] = (),
    timeout: str = " [--timeout <timeout>]",
) -> Verb:
    """A verb that prints a list of the API with selectable columns."""

    def run(call: VerbCall) -> Rows:
        segments = [call.vhost if segment == "{vhost}" else segment for segment in path.split("/")]
        return listed(call, default, *segments, needs=needs)

    vhost = "[--vhost <vhost>] " if "{vhost}" in path else ""
    usage = f"{vhost}[--no-table-headers] [<column> ...]{timeout}"
    return Verb(name, summary, run, usage, f"{name} {example}", banner, (0, MANY), columns=columns)


def _field(name: str) -> Getter:
    return lambda item: item.get(name)
