"""From a tree of plain values to `Settings`: which sections and keys there are, and what each may be.

    [connection]   where the brokers are: a URL, or its parts
    [template]     what is fixed once for all that is sent
    [[exchanges]]  [[queues]]  [[bindings]]   what must be there

Not here: how a value is looked at (`settings.section`), where the tree comes from (`settings.files`,
`settings.builder`).
"""

import re
from collections.abc import Iterable
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from warren.client.converters import CONVERTERS
from warren.client.errors import UriError
from warren.client.settings.content import SEND_TIMEOUT_S, WINDOW, Settings, TemplateSettings
from warren.client.settings.section import NAME_BYTES_MAX, Section, Source, Tree
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.client.uri import OPTIONS, parse_uri
from warren.wire.values import Table, encode_table

Named = TypeVar("Named", ExchangeLayout, QueueLayout)

PARTS: Final = ("hosts", "user", "password", "vhost", "tls", *OPTIONS)
"""What a URL has in it, so that it stands in the place of all of them."""

EXCHANGE_KINDS: Final = ("direct", "fanout", "topic", "headers")
WINDOW_MAX: Final = 1_000_000
TIMEOUT_S_MAX: Final = 86_400.0
_HOST = re.compile(r"[^\s/@?#,%]+")


def settings_of(tree: Tree, source: Source) -> Settings:
    """The settings, whole; a `SettingsError` if any of them makes no sense."""
    root = Section(source, tree)
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


def _connection(section: Section) -> tuple[str, str]:
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


def _check_url(url: str, section: Section, name: str) -> None:
    try:
        parse_uri(url)
    except UriError as error:
        key = f"{section.key}.{name}" if name else section.key
        section.source.refuse(key, f"makes no sense: {error}")


def _url_of_parts(section: Section) -> str:
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


def _template(section: Section) -> TemplateSettings:
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


def _exchange(section: Section) -> ExchangeLayout:
    kind = section.text("type", "direct", max_bytes=NAME_BYTES_MAX)
    if kind not in EXCHANGE_KINDS and not kind.startswith("x-"):
        section.refuse(
            "type", f"is one of {', '.join(EXCHANGE_KINDS)}, or begins with x-, not {section.quoted('type')}"
        )
    found = ExchangeLayout(section.name("name"), kind, section.flag("durable", True), _arguments(section))
    section.end()
    return found


def _queue(section: Section) -> QueueLayout:
    found = QueueLayout(
        name=section.name("name"),
        durable=section.flag("durable", True),
        exclusive=section.flag("exclusive", False),
        auto_delete=section.flag("auto_delete", False),
        arguments=_arguments(section),
    )
    section.end()
    return found


def _binding(section: Section) -> BindingLayout:
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


def _distinct(found: Iterable[tuple[Named, Section]]) -> tuple[Named, ...]:
    """Each of them, once it is known that no two have a name."""
    things: dict[str, Named] = {}
    for thing, section in found:
        if thing.name in things:
            section.refuse("name", f"is that of another one, too: {section.quoted('name')}")
        things[thing.name] = thing
    return tuple(things.values())


def _arguments(section: Section) -> Table:
    inner = section.section("arguments")
    table = {name: _argument(inner, name, value) for name, value in inner.whole().items()}
    try:
        encode_table(table)
    except ValueError as error:
        section.refuse("arguments", f"cannot be told to a broker: {error}")
    return table


def _argument(section: Section, name: str, value: object) -> object:
    """A value as it is; in a file of text a whole number or a flag is what looks like one."""
    if not isinstance(value, str):
        return value
    text = section.source.resolved(value, f"{section.key}.{name}")
    if section.source.textual and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if section.source.textual and text in ("true", "false"):
        return text == "true"
    return text
