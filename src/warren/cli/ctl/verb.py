"""A verb as the table of verbs has it, one call of it, and what it can answer.

Not here: the verbs (`cli.ctl.verbs`), reading a command line (`cli.ctl.command_line`), printing (`cli.ctl.output`).
"""

import getpass
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from warren.cli.ctl.api import Api, unreachable
from warren.cli.ctl.failure import DATA_ERROR, UNAVAILABLE, USAGE, Failure, Misuse, failed
from warren.cli.ctl.membership import Membership

MANY: Final = 1000
Getter = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column comes from: the fields it asks the API for, and how they become a value."""

    fields: tuple[str, ...]
    value: Getter


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of things; `streamed` ones are printed as they come, and an empty one is no line at all."""

    columns: list[str]
    items: Iterable[Mapping[str, object]]
    streamed: bool = False
    headed: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """Words to print, and the document they are in JSON; `chatty` ones are not what was asked for."""

    words: str
    document: object = None
    chatty: bool = False


Outcome = Rows | Text | None


@dataclass(frozen=True, slots=True)
class Verb:
    """One line of the table. `banner` is said before the work; `{0}` is an argument, `{vhost}` and `{node}` where."""

    name: str
    summary: str
    run: Callable[["Call"], Outcome]
    usage: str = ""
    example: str = ""
    banner: "str | Callable[[Call], str]" = ""
    arguments: tuple[int, int] = (0, 0)
    switches: Mapping[str, type] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Source] = field(default_factory=dict)
    check: "Callable[[Call], None] | None" = None
    patience_s: float = 60.0
    # about the process, whether its node runs or not
    of_process: bool = False


@dataclass(frozen=True)
class Options:
    """What every verb takes; `own` has the switches of one."""

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
class Call:
    """A verb with its arguments and options, on its way to the server."""

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
    def membership(self) -> Membership:
        return Membership(self.api, self.options.cookie_file, self.options.node)

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()

    @cached_property
    def node(self) -> str:
        """The node that is meant: the one named, or the one that answers."""
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
        """What the verb says before it starts."""
        template = self.verb.banner
        if not isinstance(template, str):
            return template(self)
        node = self.node if "{node}" in template else ""
        return template.format(*self.arguments, vhost=self.vhost, node=node, timeout=self.timeout_s)

    def own(self, switch: str, otherwise: Any = None) -> Any:
        return self.options.own.get(switch, otherwise)

    def password(self, position: int, exit_code: int) -> str:
        """The password given as an argument, or asked for."""
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
        """The columns asked for, each once; a name that is none of them is a misuse."""
        words = [word for argument in self.arguments for word in argument.split(",") if word]
        unknown = sorted({word for word in words if word not in self.verb.columns})
        if unknown:
            raise Misuse(USAGE, f"Info key(s) {','.join(unknown)} are not supported")
        return list(dict.fromkeys(words)) or default.split()


def no_empty_name(call: Call) -> None:
    if not call.arguments[0]:
        raise Misuse(DATA_ERROR, "Bad argument: user cannot be an empty string")


def same(names: str) -> dict[str, Source]:
    """Columns that are fields of the same name."""
    return {name: Source((name,), _field(name)) for name in names.split()}


def listed(
    call: Call,
    default: str,
    *segments: str,
    lists: Callable[[dict[str, Any]], bool] | None = None,
    needs: tuple[str, ...] = (),
) -> Rows:
    """The rows of a list with columns to choose from; `lists` says which things, by the fields it `needs`."""
    columns = call.chosen_columns(default)
    sources = [(name, call.verb.columns[name]) for name in columns]
    fields = dict.fromkeys([*needs, *(field for _, source in sources for field in source.fields)])
    found = call.api.pages(*segments, columns=list(fields))
    items = ({name: source.value(item) for name, source in sources} for item in found if lists is None or lists(item))
    return Rows(columns, items, streamed=True)


def _field(name: str) -> Getter:
    return lambda item: item.get(name)
