"""The same tokens and the same actions at Warren and at RabbitMQ 3.10 with its plugin: the answers must be the same."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.http_calls import bearer, call_api
from tests.support.issuer import Issuer
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from tests.support.rabbitmq import RabbitMQ

Address = tuple[str, int]
STAGING = "staging"
SETTINGS = (
    "auth_backends.1 = rabbit_auth_backend_oauth2",
    "auth_backends.2 = rabbit_auth_backend_internal",
    "auth_oauth2.resource_server_id = rabbitmq",
    "auth_oauth2.additional_scopes_key = roles",
    "auth_oauth2.default_key = ours",
)
ALL = "rabbitmq.configure:*/* rabbitmq.write:*/*/* rabbitmq.read:*/*/*"


@dataclass(frozen=True)
class Broker:
    amqp: Address
    http: Address


@dataclass(frozen=True)
class Pair:
    issuer: Issuer
    brokers: tuple[Broker, Broker]

    def compare(self, outcome: Callable[[Broker], object]) -> object:
        """What both brokers answer; an assertion fails if they differ."""
        warren, rabbitmq = [outcome(broker) for broker in self.brokers]
        assert warren == rabbitmq
        return warren


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    issuer = Issuer()
    key = folder / "key.pem"
    key.write_bytes(issuer.public_pem())
    settings = (*SETTINGS, f"auth_oauth2.signing_keys.ours = {key}")
    plugins = ("rabbitmq_auth_backend_oauth2", "rabbitmq_management")
    rabbitmq = RabbitMQ(*settings, plugins=plugins)
    try:
        node = NodeProcess(folder / "node", configuration="\n".join([*settings, ""]))
        try:
            brokers = (Broker(node.amqp, node.addresses["http"]), Broker(rabbitmq.address, rabbitmq.http))
            for broker in brokers:
                _prepare(broker)
            yield Pair(issuer, brokers)
        finally:
            node.stop()
    finally:
        rabbitmq.close()
        issuer.close()


def _prepare(broker: Broker) -> None:
    Operator(broker.http).vhost(STAGING)
    for vhost in ("/", STAGING):
        connection = Connection.opened(broker.amqp, vhost)
        channel = connection.channel()
        for queue in ("orders", "orders-1", "a/b", "é", "aa", "a b"):
            channel.call("queue.declare", queue=queue)
        connection.close()


# -- what a token may do

ACTIONS: dict[str, Callable[[Channel], None]] = {
    "declare orders": lambda channel: channel.send("queue.declare", queue="orders"),
    "declare orders-2": lambda channel: channel.send("queue.declare", queue="orders-2", exclusive=True),
    "declare a generated name": lambda channel: channel.send("queue.declare", queue="", exclusive=True),
    "declare exchange": lambda channel: channel.send("exchange.declare", exchange="orders", type="direct"),
    "get orders": lambda channel: channel.send("basic.get", queue="orders", no_ack=True),
    "get a/b": lambda channel: channel.send("basic.get", queue="a/b", no_ack=True),
    "get é": lambda channel: channel.send("basic.get", queue="é", no_ack=True),
    "get aa": lambda channel: channel.send("basic.get", queue="aa", no_ack=True),
    "get a b": lambda channel: channel.send("basic.get", queue="a b", no_ack=True),
    "consume orders": lambda channel: channel.send("basic.consume", queue="orders", consumer_tag="c"),
    "purge orders": lambda channel: channel.send("queue.purge", queue="orders"),
    "publish to the default exchange": lambda channel: channel.publish("", "nowhere"),
    "publish to amq.fanout": lambda channel: channel.publish("amq.fanout", "k"),
    "publish shop.1 to amq.topic": lambda channel: channel.publish("amq.topic", "shop.1"),
    "publish other to amq.topic": lambda channel: channel.publish("amq.topic", "other"),
    "publish as bob": lambda channel: channel.publish("amq.fanout", "k", properties={"user_id": "bob"}),
    "bind shop.1": lambda channel: channel.send(
        "queue.bind", queue="orders", exchange="amq.topic", routing_key="shop.1", arguments={}
    ),
    "bind other": lambda channel: channel.send(
        "queue.bind", queue="orders", exchange="amq.topic", routing_key="other", arguments={}
    ),
    "bind a fanout": lambda channel: channel.send(
        "queue.bind", queue="orders", exchange="amq.fanout", routing_key="", arguments={}
    ),
    "declare with a dead letter exchange": lambda channel: channel.send(
        "queue.declare", queue="dlx", exclusive=True, arguments={"x-dead-letter-exchange": "amq.fanout"}
    ),
}


_GENERATED = re.compile(r"amq\.gen-[\w-]+")


def outcome_of(channel: Channel, action: Callable[[Channel], None]) -> object:
    """Whether the broker carries it out; else the code and text of the fault."""
    action(channel)
    # a publish has no reply of its own
    channel.send("basic.qos", prefetch_count=1)
    while True:
        reply = channel.next()
        if reply.name == "channel.close":
            return reply.reply_code, _GENERATED.sub("amq.gen-…", reply.reply_text)
        if reply.name == "basic.qos-ok":
            return True


def outcomes(broker: Broker, token: str, vhost: str = "/", user: str = "") -> object:
    """How the broker answers to each action; or to the login, or to entering the virtual host."""
    connection = Connection(broker.amqp)
    try:
        connection.start()
        login = b"\0" + user.encode() + b"\0" + token.encode()
        connection.start_ok("PLAIN", login, {"authentication_failure_close": True})
        tune = connection.next_on(0)
        if tune.name != "connection.tune":
            return tune.reply_code, tune.reply_text
        connection.tune_ok(tune)
        connection.send(0, "connection.open", virtual_host=vhost)
        entered = connection.next_on(0)
        if entered.name != "connection.open-ok":
            return entered.reply_code, entered.reply_text
        return {name: outcome_of(connection.channel(), action) for name, action in ACTIONS.items()}
    finally:
        connection.cut()


SCOPES = [
    ALL,
    "",
    "rabbitmq.read:*/*",
    "rabbitmq.read:%2F/*",
    "rabbitmq.read:%2f/orders",
    "rabbitmq.read:*/orders*",
    "rabbitmq.read:*/*s",
    "rabbitmq.read:*/*a",
    "rabbitmq.read:*/a**",
    "rabbitmq.read:*/**",
    "rabbitmq.read:*/a%2Fb",
    "rabbitmq.read:*/a/b",
    "rabbitmq.read:*/a+b",
    "rabbitmq.read:*/a%20b",
    "rabbitmq.read:*/%C3%A9",
    "rabbitmq.read:*/é",
    "rabbitmq.read:*/%",
    "rabbitmq.read:*/%zz",
    "rabbitmq.read:*/orders/shop.*",
    "rabbitmq.read:staging/*",
    "rabbitmq.read:stag*/*",
    "rabbitmq.read:*",
    "rabbitmq.read:*/*/*/*",
    "rabbitmq.READ:*/*",
    "rabbitmq.write:*/*",
    "rabbitmq.write:*/amq.default",
    "rabbitmq.write:*/amq.fanout",
    "rabbitmq.write:*/amq.topic",
    "rabbitmq.write:*/amq.topic/*",
    "rabbitmq.write:*/amq.topic/shop.*",
    "rabbitmq.write:*/amq.topic/shop.1 rabbitmq.write:*/orders",
    "rabbitmq.write:*/orders rabbitmq.read:*/amq.topic/shop.*",
    "rabbitmq.write:*/orders rabbitmq.read:*/amq.topic",
    "rabbitmq.write:*/orders rabbitmq.read:*/amq.fanout",
    "rabbitmq.configure:*/*",
    "rabbitmq.configure:*/orders-*",
    "rabbitmq.configure:*/amq.gen*",
    "rabbitmq.configure:*/dlx rabbitmq.read:*/dlx rabbitmq.write:*/amq.fanout",
    "rabbitmq.configure:*/dlx rabbitmq.write:*/amq.fanout",
    "rabbitmq.write:*/*/* rabbitmq.tag:impersonator",
    "rabbitmq.write:*/*/* rabbitmq.tag:administrator",
    "read:*/*",
    "other.read:*/*",
    "rabbitmqread:*/*",
    "rabbitmq.rabbitmq.read:*/*",
    "rabbitmq.tag:management",
]


@pytest.mark.parametrize("vhost", ["/", STAGING])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_grants_the_same(pair: Pair, scope: str, vhost: str) -> None:
    token = pair.issuer.token(scope, kid="ours", lives_s=3600)
    pair.compare(lambda broker: outcomes(broker, token, vhost))


CLAIMS: list[dict[str, Any]] = [
    {"aud": "rabbitmq"},
    {"aud": ["rabbitmq"]},
    {"aud": "other rabbitmq"},
    {"aud": ["other", "rabbitmq"]},
    {"aud": "other"},
    {"aud": []},
    {"aud": None},
    {"aud": 7},
    {"scope": ALL.split()},
    {"scope": None},
    {"scope": None, "roles": ALL},
    {"scope": "", "roles": ALL.split()},
    {"scope": "", "roles": {"rabbitmq": "read:*/*"}},
    {"scope": "", "roles": {"rabbitmq": ["read:*/*", "write:*/*"]}},
    {"scope": "", "roles": {"other": ["read:*/*"]}},
    {"scope": "", "roles": 7},
    {"scope": "", "authorization": {"permissions": [{"scopes": ALL.split()}]}},
    {"scope": "", "authorization": {"permissions": [{"scopes": "rabbitmq.read:*/*"}, {"rsid": 1}]}},
    {"scope": "", "authorization": {}},
    {"client_id": "app"},
    {"client_id": "app", "sub": None},
    {"sub": None},
    {"exp": None},
    {"exp": 1_000_000_000},
    {"kid": None},
    {"kid": "unknown"},
]


@pytest.mark.parametrize("claims", CLAIMS, ids=str)
def test_claims_mean_the_same(pair: Pair, claims: dict[str, Any]) -> None:
    given = {"kid": "ours", "scope": ALL, **claims}
    token = pair.issuer.token(given.pop("scope"), **given)
    pair.compare(lambda broker: outcomes(broker, token, user="named by the client"))


@pytest.mark.parametrize("tags", ["", "management", "monitoring", "policymaker", "administrator", "impersonator", "x"])
@pytest.mark.parametrize("scope", ["rabbitmq.read:%2F/*", ALL, ""])
def test_a_token_sees_the_same_over_http(pair: Pair, scope: str, tags: str) -> None:
    token = pair.issuer.token(f"{scope} rabbitmq.tag:{tags}", kid="ours")

    def seen(broker: Broker) -> object:
        paths = ("whoami", "vhosts", "users", "queues/%2F/orders", "queues/staging/orders", "exchanges/%2F/amq.topic")
        answers = [call_api(broker.http, "GET", f"/api/{path}?columns=name,tags", bearer(token)) for path in paths]
        return [(answer.status, _named(answer.document)) for answer in answers]

    pair.compare(seen)


def _named(document: Any) -> object:
    if isinstance(document, list):
        return sorted(str(row["name"]) for row in document if row["name"] != "nobody")
    return document.get("name", document.get("reason"))


def test_bad_tokens_are_answered_the_same_over_http(pair: Pair) -> None:
    for token in ("", "x", "a.b.c", pair.issuer.token(ALL, kid="ours", aud="other")):
        answers = [call_api(broker.http, "GET", "/api/whoami", bearer(token)) for broker in pair.brokers]
        seen = [(answer.status, answer.document) for answer in answers]
        assert seen[0] == seen[1], token


def test_a_new_secret_is_answered_the_same(pair: Pair) -> None:
    """RabbitMQ takes the token of another user as well, and an expired one: there the next action fails."""
    issuer = pair.issuer
    secrets = {
        "good": issuer.token(ALL, kid="ours"),
        "for another audience": issuer.token(ALL, kid="ours", aud="other"),
        "no token": "x",
        "unknown key": issuer.token(ALL, kid="unknown"),
        "fewer scopes": issuer.token("rabbitmq.write:*/nothing", kid="ours"),
    }

    def answered(broker: Broker) -> object:
        found = {}
        for name, secret in secrets.items():
            connection = Connection.opened(broker.amqp, user="", password=issuer.token(ALL, kid="ours"))
            connection.send(0, "connection.update-secret", new_secret=secret.encode(), reason="test")
            reply = connection.next_on(0)
            found[name] = (reply.reply_code, reply.reply_text) if reply.name == "connection.close" else reply.name
            if name == "fewer scopes":
                found["after that"] = outcome_of(connection.channel(), ACTIONS["get orders"])
            connection.cut()
        return found

    pair.compare(answered)
