"""`Settings`: their keys, their check, and a builder for programs.

    [connection]   the brokers: a URL, or its parts
    [template]     defaults for all messages
    [[exchanges]]  [[queues]]  [[bindings]]   the topology

A program builds settings call by call:

    settings = (
        SettingsBuilder()
        .hosts("broker-1", "broker-2")
        .login("shop", password)
        .queue("SHOP_QUEUE")
        .build()
    )

Each call returns a new builder and leaves the old one as it was, so several settings may share a beginning. Values are
taken literally: `${` has no meaning here. `build` checks the same as for a file.

Not here: reading a value (`settings.section`), files (`settings.files`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlencode

from warren.client.converters import CONVERTERS
from warren.client.errors import UriError
from warren.client.settings.section import NAME_BYTES_MAX, SettingsSection, SettingsSource, SettingsTree
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.client.uri import OPTIONS, parse_uri
from warren.wire.field_tables import Table, encode_table

SEND_TIMEOUT_S = 60.0
WINDOW = 1000


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """Defaults for all messages of a program; `converter` is a name."""

    exchange: str = ""
    routing_key: str = ""
    converter: str = "json"
    mandatory: bool = True
    persistent: bool = True
    timeout_s: float = SEND_TIMEOUT_S
    window: int = WINDOW


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a program; `name` is shown to the broker's operators."""

    url: str = field(repr=False)
    name: str = ""
    layout: Layout = field(default_factory=Layout)
    template: TemplateSettings = field(default_factory=TemplateSettings)

    @property
    def vhost(self) -> str:
        return parse_uri(self.url).vhost


Named = TypeVar("Named", ExchangeLayout, QueueLayout)

PARTS: Final = ("hosts", "user", "password", "vhost", "tls", *OPTIONS)
"""The keys that a URL replaces."""

EXCHANGE_KINDS: Final = ("direct", "fanout", "topic", "headers")
WINDOW_MAX: Final = 1_000_000
TIMEOUT_S_MAX: Final = 86_400.0
_HOST = re.compile(r"[^\s/@?#,%]+")


def checked_settings(tree: SettingsTree, source: SettingsSource) -> Settings:
    """The checked settings; a `SettingsError` if any value is invalid."""
    root = SettingsSection(source, tree)
    connection = root.section("connection")
    template = root.section("template")
    exchanges = root.sections("exchanges")
    queues = root.sections("queues")
    bindings = root.sections("bindings")
    root.end()
    layout = Layout(
        _distinct((_exchange(each), each) for each in exchanges),
        _distinct((_queue(each), each) for each in queues),
        tuple(_binding(each) for each in bindings),
    )
    url, name = _connection(connection)
    return Settings(url, name, layout, _template(template))


def _connection(section: SettingsSection) -> tuple[str, str]:
    """The URL, and the name of the connection."""
    name = section.short_text("name")
    url = section.text("url")
    parts = _url_of_parts(section)
    section.end()
    if not section.has("url"):
        _check_url(parts, section, "")
        return parts, name
    for part in PARTS:
        if section.has(part):
            section.refuse(part, f"is a part of {section.key}.url: say it there, or leave the URL out and use parts")
    _check_url(url, section, "url")
    return url, name


def _check_url(url: str, section: SettingsSection, name: str) -> None:
    try:
        parse_uri(url)
    except UriError as error:
        key = f"{section.key}.{name}" if name else section.key
        section.source.refuse(key, f"makes no sense: {error}")


def _url_of_parts(section: SettingsSection) -> str:
    hosts = section.texts("hosts") or ["localhost"]
    if not all(_HOST.fullmatch(host) for host in hosts):
        section.refuse("hosts", "are names or addresses, each with :PORT or without; an IPv6 address is in brackets")
    user = section.text("user", "guest")
    password = section.text("password", "guest" if user == "guest" else "")
    vhost = section.text("vhost", "/", max_bytes=NAME_BYTES_MAX)
    scheme = "amqps" if section.flag("tls", False) else "amqp"
    options = {name: value for name in OPTIONS if (value := section.scalar(name)) is not None}
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"{scheme}://{login}@{','.join(hosts)}/{quote(vhost, safe='')}{query}"


def _template(section: SettingsSection) -> TemplateSettings:
    found = TemplateSettings(
        exchange=section.short_text("exchange"),
        routing_key=section.short_text("routing_key"),
        converter=section.choice("converter", tuple(CONVERTERS), "json"),
        mandatory=section.flag("mandatory", True),
        persistent=section.flag("persistent", True),
        timeout_s=section.seconds("timeout_s", SEND_TIMEOUT_S, TIMEOUT_S_MAX),
        window=section.number("window", WINDOW, 1, WINDOW_MAX),
    )
    section.end()
    return found


def _exchange(section: SettingsSection) -> ExchangeLayout:
    kind = section.text("type", "direct", max_bytes=NAME_BYTES_MAX)
    if kind not in EXCHANGE_KINDS and not kind.startswith("x-"):
        section.refuse(
            "type", f"is one of {', '.join(EXCHANGE_KINDS)}, or begins with x-, not {section.quoted('type')}"
        )
    found = ExchangeLayout(section.name("name"), kind, section.flag("durable", True), _arguments(section))
    section.end()
    return found


def _queue(section: SettingsSection) -> QueueLayout:
    found = QueueLayout(
        name=section.name("name"),
        durable=section.flag("durable", True),
        exclusive=section.flag("exclusive", False),
        auto_delete=section.flag("auto_delete", False),
        arguments=_arguments(section),
    )
    section.end()
    return found


def _binding(section: SettingsSection) -> BindingLayout:
    source = section.name("exchange")
    queue = section.short_text("queue")
    exchange = section.short_text("to_exchange")
    if bool(queue) == bool(exchange):
        section.source.refuse(section.key, "leads to one thing: give either queue or to_exchange")
    found = BindingLayout(
        source, queue or exchange, section.short_text("routing_key"), bool(exchange), _arguments(section)
    )
    section.end()
    return found


def _distinct(found: Iterable[tuple[Named, SettingsSection]]) -> tuple[Named, ...]:
    """All of them, after checking that no name is used twice."""
    things: dict[str, Named] = {}
    for thing, section in found:
        if thing.name in things:
            section.refuse("name", f"is that of another one, too: {section.quoted('name')}")
        things[thing.name] = thing
    return tuple(things.values())


def _arguments(section: SettingsSection) -> Table:
    inner = section.section("arguments")
    table = {name: _argument(inner, name, value) for name, value in inner.whole().items()}
    try:
        encode_table(table)
    except ValueError as error:
        section.refuse("arguments", f"cannot be sent to a broker: {error}")
    return table


def _argument(section: SettingsSection, name: str, value: object) -> object:
    """A value as it is; in a text file integers and flags are recognised."""
    if not isinstance(value, str):
        return value
    text = section.source.resolved(value, f"{section.key}.{name}")
    if section.source.textual and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if section.source.textual and text in ("true", "false"):
        return text == "true"
    return text


class SettingsBuilder:
    """An immutable builder; begin with an empty one."""

    def __init__(self, tree: SettingsTree | None = None) -> None:
        self._tree: SettingsTree = tree or {}

    def build(self) -> Settings:
        """The settings; a `SettingsError` if they are invalid."""
        return checked_settings(self._tree, SettingsSource())

    # connection

    def url(self, url: str) -> Self:
        return self._with("connection", url=url)

    def hosts(self, *hosts: str) -> Self:
        """Names or addresses, with :PORT or without, tried in this order."""
        return self._with("connection", hosts=list(hosts))

    def login(self, user: str, password: str) -> Self:
        return self._with("connection", user=user, password=password)

    def vhost(self, name: str) -> Self:
        return self._with("connection", vhost=name)

    def tls(self, **options: str) -> Self:
        """Use TLS; the options are those of the URL, such as `cacertfile`."""
        return self._with("connection", tls=True, **options)

    def options(self, **options: str | int | float) -> Self:
        """Other options of the URL, such as `heartbeat`."""
        return self._with("connection", **options)

    def name(self, name: str) -> Self:
        """The name for the broker's operators."""
        return self._with("connection", name=name)

    # topology

    def exchange(
        self, name: str, kind: str = "direct", *, durable: bool = True, arguments: Table | None = None
    ) -> Self:
        return self._added("exchanges", name=name, type=kind, durable=durable, arguments=dict(arguments or {}))

    def queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> Self:
        return self._added(
            "queues",
            name=name,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=dict(arguments or {}),
        )

    def bind(self, exchange: str, queue: str, routing_key: str = "", *, arguments: Table | None = None) -> Self:
        return self._added(
            "bindings", exchange=exchange, queue=queue, routing_key=routing_key, arguments=dict(arguments or {})
        )

    def bind_exchange(
        self, source: str, destination: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> Self:
        return self._added(
            "bindings",
            exchange=source,
            to_exchange=destination,
            routing_key=routing_key,
            arguments=dict(arguments or {}),
        )

    def layout(self, layout: Layout) -> Self:
        """Add a whole layout."""
        builder = self
        for exchange in layout.exchanges:
            builder = builder._with_exchange(exchange)
        for queue in layout.queues:
            builder = builder._with_queue(queue)
        for binding in layout.bindings:
            builder = builder._with_binding(binding)
        return builder

    # sending

    def template(self, **settings: str | bool | int | float) -> Self:
        """The fields of `TemplateSettings`."""
        return self._with("template", **settings)

    def _with_exchange(self, each: ExchangeLayout) -> Self:
        return self.exchange(each.name, each.kind, durable=each.durable, arguments=each.arguments)

    def _with_queue(self, each: QueueLayout) -> Self:
        return self.queue(
            each.name,
            durable=each.durable,
            exclusive=each.exclusive,
            auto_delete=each.auto_delete,
            arguments=each.arguments,
        )

    def _with_binding(self, each: BindingLayout) -> Self:
        bind = self.bind_exchange if each.to_exchange else self.bind
        return bind(each.source, each.destination, each.routing_key, arguments=each.arguments)

    def _with(self, section_name: str, /, **values: object) -> Self:
        section = self._tree.get(section_name)
        assert section is None or isinstance(section, Mapping)
        return type(self)({**self._tree, section_name: {**(section or {}), **values}})

    def _added(self, list_name: str, /, **values: object) -> Self:
        items = self._tree.get(list_name)
        assert items is None or isinstance(items, list)
        return type(self)({**self._tree, list_name: [*(items or []), values]})
