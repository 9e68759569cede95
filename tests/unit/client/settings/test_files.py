"""Settings from files: both formats mean the same, and invalid ones are refused with file and key."""

from pathlib import Path

import pytest

from warren.client.errors import SettingsError
from warren.client.settings import Settings, TemplateSettings, read_settings
from warren.client.settings.files import properties_settings, toml_settings
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.client.uri import parse_uri

TOML = """
[connection]
hosts = ["one:5673", "[::1]"]
user = "shop"
password = "${PASSWORD}"
vhost = "SHOP_VHOST"
tls = true
heartbeat = 30
cacertfile = "/etc/ca.pem"
name = "shop on ${HOST}"

[template]
exchange = "SHOP_TO_BILLING_EXCHANGE"
routing_key = "order"
converter = "text"
mandatory = false
persistent = false
timeout_s = 2.5
window = "${WINDOW}"

[[exchanges]]
name = "SHOP_TO_BILLING_EXCHANGE"
type = "topic"

[[exchanges]]
name = "SHOP_TO_LOG_EXCHANGE"
type = "x-delayed-message"
durable = false
arguments = { x-delayed-type = "fanout" }

[[queues]]
name = "SHOP_QUEUE"
arguments = { x-max-length = 1000, x-single-active-consumer = true }

[[queues]]
name = "SHOP_TEMPORARY_QUEUE"
durable = false
exclusive = true
auto_delete = true

[[bindings]]
exchange = "SHOP_TO_BILLING_EXCHANGE"
queue = "SHOP_QUEUE"
routing_key = "order.#"

[[bindings]]
exchange = "SHOP_TO_BILLING_EXCHANGE"
to_exchange = "SHOP_TO_LOG_EXCHANGE"
routing_key = "#"
"""

PROPERTIES = r"""
# where
connection.hosts = one:5673, [::1]
connection.user: shop
connection.password ${PASSWORD}
connection.vhost=SHOP_VHOST
connection.tls=true
connection.heartbeat=30
connection.cacertfile=/etc/\
    ca.pem
! how it sends
connection.name=shop on ${HOST}
template.exchange=SHOP_TO_BILLING_EXCHANGE
template.routing_key=\u006frder
template.converter=text
template.mandatory=false
template.persistent = FALSE
template.timeout_s=2.5
template.window=${WINDOW}

exchanges[0].name=SHOP_TO_BILLING_EXCHANGE
exchanges[0].type=topic
exchanges[1].name=SHOP_TO_LOG_EXCHANGE
exchanges[1].type=x-delayed-message
exchanges[1].durable=false
exchanges[1].arguments.x-delayed-type=fanout
queues[0].name=SHOP_QUEUE
queues[0].arguments.x-max-length=1000
queues[0].arguments.x-single-active-consumer=true
queues[1].name=SHOP_TEMPORARY_QUEUE
queues[1].durable=false
queues[1].exclusive=true
queues[1].auto_delete=true
bindings[0].exchange=SHOP_TO_BILLING_EXCHANGE
bindings[0].queue=SHOP_QUEUE
bindings[0].routing_key=order.#
bindings[1].exchange=SHOP_TO_BILLING_EXCHANGE
bindings[1].to_exchange=SHOP_TO_LOG_EXCHANGE
bindings[1].routing_key=#
"""

ENVIRONMENT = {"PASSWORD": "p@ss/w:%rd", "HOST": "here", "WINDOW": "50"}

EXCHANGE = "SHOP_TO_BILLING_EXCHANGE"
EXPECTED = Settings(
    url="amqps://shop:p%40ss%2Fw%3A%25rd@one:5673,[::1]/SHOP_VHOST?heartbeat=30&cacertfile=%2Fetc%2Fca.pem",
    name="shop on here",
    layout=Layout(
        (
            ExchangeLayout(EXCHANGE, "topic"),
            ExchangeLayout("SHOP_TO_LOG_EXCHANGE", "x-delayed-message", False, {"x-delayed-type": "fanout"}),
        ),
        (
            QueueLayout("SHOP_QUEUE", arguments={"x-max-length": 1000, "x-single-active-consumer": True}),
            QueueLayout("SHOP_TEMPORARY_QUEUE", durable=False, exclusive=True, auto_delete=True),
        ),
        (
            BindingLayout(EXCHANGE, "SHOP_QUEUE", "order.#"),
            BindingLayout(EXCHANGE, "SHOP_TO_LOG_EXCHANGE", "#", to_exchange=True),
        ),
    ),
    template=TemplateSettings(EXCHANGE, "order", "text", False, False, 2.5, 50),
)


@pytest.mark.parametrize(("file", "text"), [("shop.toml", TOML), ("shop.properties", PROPERTIES)])
def test_both_kinds_of_file_say_the_same(file: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(text)
    settings = read_settings(path, ENVIRONMENT)
    assert settings == EXPECTED
    assert settings.vhost == "SHOP_VHOST"


def test_a_password_may_have_any_characters() -> None:
    target = parse_uri(toml_settings(TOML, ENVIRONMENT, "shop.toml").url)
    assert (target.user, target.password, target.tls) == ("shop", "p@ss/w:%rd", True)


def test_an_empty_file_is_a_guest_at_home() -> None:
    assert toml_settings("", {}, "shop.toml") == properties_settings("", {}, "shop.properties")
    target = parse_uri(toml_settings("", {}, "shop.toml").url)
    assert (target.user, target.password, target.vhost, str(target.addresses[0])) == (
        "guest",
        "guest",
        "/",
        "localhost:5672",
    )


def test_a_url_stands_as_it_is() -> None:
    settings = toml_settings('connection = { url = "${URL}" }', {"URL": "amqps://a:b@c/d?heartbeat=1"}, "shop.toml")
    assert settings.url == "amqps://a:b@c/d?heartbeat=1"


def test_neither_the_settings_nor_an_error_shows_a_secret() -> None:
    settings = toml_settings(TOML, ENVIRONMENT, "shop.toml")
    assert "w:%rd" not in repr(settings)
    assert "%25rd" not in repr(settings)
    with pytest.raises(SettingsError) as refused:
        toml_settings('template = { window = "${PASSWORD}" }', ENVIRONMENT, "shop.toml")
    assert "w:%rd" not in str(refused.value)


@pytest.mark.parametrize("url", ["amqp://shop:hidden", "amqp://shop:hid/den@host", "amqp://shop:hid#den@host"])
def test_a_url_that_lacks_an_escape_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="url makes no sense") as refused:
        toml_settings(f"connection = {{ url = '{url}' }}", {}, "shop.toml")
    assert "hid" not in str(refused.value)


@pytest.mark.parametrize("text", ["connection = { hosts = '${HOSTS}' }", "connection.hosts=${HOSTS}"])
def test_a_variable_may_hold_a_list_with_commas(text: str) -> None:
    read = toml_settings if "{ hosts" in text else properties_settings
    target = parse_uri(read(text, {"HOSTS": "one:1, two:2"}, "shop").url)
    assert [str(address) for address in target.addresses] == ["one:1", "two:2"]


def test_a_doubled_dollar_is_no_variable() -> None:
    text = 'template = { routing_key = "$${HOST} $5 ${HOST}" }'
    assert toml_settings(text, ENVIRONMENT, "shop.toml").template.routing_key == "${HOST} $5 here"


KEYS = "connection, template, exchanges, queues, bindings"


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("[conection]", "conection", f"is not known: allowed here are {KEYS}; did you mean connection?"),
        ("[connection]\nheartbeet = 3", "connection.heartbeet", "did you mean heartbeat?"),
        ("connection = 3", "connection", "is a table, not a whole number"),
        ("[connection]\nurl = 3", "connection.url", "is text, not a whole number"),
        ("[connection]\nurl = ''", "connection.url", "makes no sense: an AMQP URL begins with amqp:// or amqps://"),
        ("[connection]\nurl = 'amqp://h'\nuser = 'me'", "connection.user", "is a part of connection.url"),
        ("[connection]\nheartbeat = true", "connection.heartbeat", "is text or a number, not a flag"),
        ("[connection]\nheartbeat = 'soon'", "connection", "option heartbeat is a whole number from 0 to 65535"),
        ("[connection]\ncertfile = 'a'", "connection", "option certfile needs amqps://"),
        ("[connection]\nhosts = 'one'", "connection.hosts", "is a list of text, and not an empty one"),
        ("[connection]\nhosts = []", "connection.hosts", "is a list of text, and not an empty one"),
        ("[connection]\nhosts = ['a/b']", "connection.hosts", "are names or addresses"),
        ("[connection]\npassword = '${NOBODY}'", "connection.password", "variable 'NOBODY', which is not set"),
        ("[template]\nwindow = 0", "template.window", "is a whole number from 1 to 1000000, not 0"),
        ("[template]\nwindow = '5'", "template.window", "is a whole number from 1 to 1000000, not '5'"),
        ("[template]\nwindow = true", "template.window", "is a whole number from 1 to 1000000, not True"),
        ("[template]\nmandatory = 1", "template.mandatory", "is true or false, not 1"),
        ("[template]\nmandatory = 'true'", "template.mandatory", "is true or false, not 'true'"),
        ("[template]\ntimeout_s = 0", "template.timeout_s", "is a number of seconds above 0, at most 86400, not 0"),
        ("[template]\ntimeout_s = nan", "template.timeout_s", "is a number of seconds above 0"),
        ("[template]\nconverter = 'xml'", "template.converter", "is one of bytes, text, json, not 'xml'"),
        (f"[template]\nrouting_key = '{'é' * 128}'", "template.routing_key", "is text of at most 255 bytes"),
        ("exchanges = 'a'", "exchanges", "is a list of tables, not text"),
        ("exchanges = ['a']", "exchanges[0]", "is a table, not text"),
        ("exchanges = [{}]", "exchanges[0].name", "is missing: it is text of 1 to 255 bytes"),
        ("exchanges = [{name = 'a', type = 'dirct'}]", "exchanges[0].type", "is one of direct, fanout, topic, headers"),
        ("queues = [{name = 'a'}, {name = 'a'}]", "queues[1].name", "is that of another one, too: 'a'"),
        ("queues = [{name = 'a', ttl = 5}]", "queues[0].ttl", "allowed here are name, durable, exclusive"),
        ("queues = [{name = 'a', arguments = 5}]", "queues[0].arguments", "is a table, not a whole number"),
        (
            "queues = [{name = 'a', arguments = {b = 1979-05-27}}]",
            "queues[0].arguments",
            "cannot carry a value of type",
        ),
        ("bindings = [{queue = 'a'}]", "bindings[0].exchange", "is missing"),
        ("bindings = [{exchange = 'a'}]", "bindings[0]", "give either queue or to_exchange"),
        ("bindings = [{exchange = 'a', queue = 'b', to_exchange = 'c'}]", "bindings[0]", "give either"),
        ("[template", "", "it is not TOML"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_toml_that_makes_no_sense_is_refused_with_its_key(text: str, key: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        toml_settings(text, {}, "shop.toml")
    assert str(refused.value).startswith(f"shop.toml: {key}")
    assert said in str(refused.value)
    assert (refused.value.file, refused.value.key) == ("shop.toml", key)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("template.window=many", "template.window", "is a whole number from 1 to 1000000, not 'many'"),
        ("template.mandatory=yes", "template.mandatory", "is true or false, not 'yes'"),
        ("template.mandatory=", "template.mandatory", "is true or false, not ''"),
        ("template.exchange=a\ntemplate.exchange=b", "template.exchange", "is given twice"),
        ("template=a\ntemplate.exchange=b", "template.exchange", "is below a key that has a value of its own"),
        ("queues[0].name=a\nqueues[2].name=b", "queues", "is numbered from [0] to [N] without gaps"),
        ("queues.name=a", "queues", "is a list of tables, not a table"),
        ("=a", "", "line 1: it is not of the form key = value"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_properties_that_make_no_sense_are_refused_with_their_key(text: str, key: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        properties_settings(text, {}, "shop.properties")
    assert said in str(refused.value)
    assert str(refused.value).startswith("shop.properties")
    assert refused.value.key == key


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("shop.yaml", b"", "is named NAME.toml or NAME.properties"),
        ("shop.toml", b"\xff", "it is not UTF-8 text"),
        ("shop.toml", None, "it cannot be read: No such file"),
    ],
)
def test_a_file_that_is_none_is_refused(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as refused:
        read_settings(path)
    assert refused.value.file == str(path)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (r"template.routing_key=a\=b", "a=b"),
        (r"template.routing_key = a\tb\n", "a\tb\n"),
        (r"template.routing_key a:b", "a:b"),
        (r"template.routing\_key:\ a", " a"),
        ("template.routing_key=a\\\n   b\\\n\tc", "abc"),
        ("template.routing_key=a\\\\\n# b", "a\\"),
        ("template.routing_key=a # b", "a # b"),
        ("template.routing_key=a\r\n", "a"),
        ("template.routing_key", ""),
    ],
)
def test_a_line_is_read_as_in_java(line: str, value: str) -> None:
    assert properties_settings(line, {}, "shop.properties").template.routing_key == value


def test_an_argument_may_have_dots_in_its_name() -> None:
    settings = properties_settings("queues[0].name=a\nqueues[0].arguments.x.y=1\n", {}, "shop.properties")
    assert settings.layout.queues[0].arguments == {"x.y": 1}
