"""The same conversations on Warren and on RabbitMQ 3.10, whose logins and permissions the same web server decides.

The web server gets the same questions, and the client the same answers. RabbitMQ keeps twelve permissions of a channel,
and Warren more, so no conversation uses as many on one channel. RabbitMQ's cache asks twice about a login, once to
authenticate and once to authorise it, so repeated questions count once.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from tests.node.serving import Serving
from tests.support.amqp_client import CAPABILITIES, Channel, Connection, describe, plain
from tests.support.auth_web_server import Answer, AuthWebServer, Question
from tests.support.rabbitmq import RabbitMQ

PLUGINS = ("rabbitmq_auth_backend_http", "rabbitmq_auth_backend_cache")


def decide(question: Question) -> Answer:
    if question.about == "user":
        words = {"guest": "allow administrator", "alice": " ALLOW management Policymaker ", "bob": "allow"}
        good = question["password"] in ("guest", "p & w=/é+")
        return Answer(words.get(question["username"], "deny")) if good else Answer("deny")
    if question.about == "vhost":
        return Answer("deny" if question["username"] == "bob" else "allow")
    if question["name"] == "created":
        return Answer("Allow ", status=201)
    refused = question["name"].startswith("no") or question["routing_key"].startswith("no")
    return Answer("deny" if refused else "allow")


@dataclass
class Seen:
    """What the client heard, and what the web server was asked, with generated names left out."""

    heard: list[object] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


class Client:
    """A client that keeps what it hears; a closed channel is opened again."""

    def __init__(self, channel: Channel, heard: list[object]) -> None:
        self._channel = channel
        self._heard = heard

    def call(self, method: str, **fields: object) -> None:
        self._channel.send(method, **fields)
        self._take()

    def publish(self, exchange: str, key: str, refused: bool = False) -> None:
        self._channel.publish(exchange, key, b"x")
        if refused:
            self._take()
        else:
            # the answer to a declare says that the publish was handled
            self.call("queue.declare", queue="q", passive=True)

    def _take(self) -> None:
        answer = self._channel.next(deadline_s=60)
        closed = answer.name == "channel.close"
        self._heard.append((answer.name, describe(answer)) if closed else answer.name)
        if closed:
            self._channel.send("channel.close-ok")
            self._channel.call("channel.open")


Conversation = Callable[[tuple[str, int], list[object]], None]


def logged_in(address: tuple[str, int], user: str = "alice") -> Connection:
    return Connection.opened(address, user=user, password="p & w=/é+")


def objects(address: tuple[str, int], heard: list[object]) -> None:
    connection = logged_in(address)
    client = Client(connection.channel(1), heard)
    client.call("queue.declare", queue="q")
    client.call("queue.declare", queue="q")
    client.call("queue.declare", queue="")
    client.call("queue.declare", queue="created", arguments={"x-dead-letter-exchange": "dlx"})
    client.call("exchange.declare", exchange="e", type="topic", arguments={"alternate-exchange": "ae"})
    client.call("queue.declare", queue="q", passive=True)
    connection.close()


def bindings(address: tuple[str, int], heard: list[object]) -> None:
    connection = logged_in(address)
    client = Client(connection.channel(1), heard)
    client.call("queue.declare", queue="q")
    client.call("exchange.declare", exchange="e2", type="fanout")
    client.call("queue.bind", queue="q", exchange="amq.topic", routing_key="a.#")
    client.call("queue.bind", queue="q", exchange="amq.direct", routing_key="a")
    client.call("exchange.bind", destination="e2", source="amq.topic", routing_key="b.#")
    client.call("queue.unbind", queue="q", exchange="amq.topic", routing_key="a.#")
    client.call("exchange.unbind", destination="e2", source="amq.topic", routing_key="b.#")
    client.call("queue.bind", queue="q", exchange="amq.topic", routing_key="no.#")
    client.call("exchange.delete", exchange="e2")
    connection.close()


def messages(address: tuple[str, int], heard: list[object]) -> None:
    connection = logged_in(address)
    client = Client(connection.channel(1), heard)
    client.call("queue.declare", queue="q")
    for key in ("a", "a", "b"):
        client.publish("amq.topic", key)
    client.publish("", "q")
    client.publish("", "elsewhere")
    client.call("basic.get", queue="q", no_ack=True)
    connection.close()


def refusals(address: tuple[str, int], heard: list[object]) -> None:
    connection = logged_in(address)
    client = Client(connection.channel(1), heard)
    client.call("queue.declare", queue="not mine")
    client.call("queue.declare", queue="q", arguments={"x-dead-letter-exchange": "not mine"})
    client.call("queue.declare", queue="q")
    client.call("queue.delete", queue="not mine")
    client.call("queue.purge", queue="not mine")
    client.call("basic.get", queue="not mine")
    client.call("basic.consume", queue="not mine")
    client.publish("not mine", "k", refused=True)
    client.publish("amq.topic", "no", refused=True)
    client.call("queue.bind", queue="not mine", exchange="amq.topic", routing_key="a")
    connection.close()


def channels(address: tuple[str, int], heard: list[object]) -> None:
    connection = logged_in(address)
    for number in (1, 2):
        channel = connection.channel(number)
        client = Client(channel, heard)
        client.call("queue.declare", queue="q")
        client.call("queue.delete", queue="q")
        channel.close()
    connection.close()


def logins(address: tuple[str, int], heard: list[object]) -> None:
    for user, password in (("alice", "wrong"), ("stranger", "p & w=/é+")):
        connection = Connection(address)
        connection.start()
        connection.start_ok("PLAIN", plain(user, password), CAPABILITIES)
        heard.append(describe(connection.expect(0, "connection.close", deadline_s=60)))
        connection.cut()
    for user, vhost in (("bob", "/"), ("alice", "elsewhere")):
        connection = Connection(address)
        connection.tune_ok(connection.authenticate(user, "p & w=/é+"))
        connection.send(0, "connection.open", virtual_host=vhost)
        heard.append(describe(connection.expect(0, "connection.close", deadline_s=60)))
        connection.cut()


CONVERSATIONS: Sequence[Conversation] = (objects, bindings, messages, refusals, channels, logins)


class Broker:
    """A broker, and the web server that decides for it."""

    def __init__(self, address: tuple[str, int], web: AuthWebServer) -> None:
        self._address = address
        self._web = web

    def hold(self, conversation: Conversation) -> Seen:
        self._web.questions.clear()
        seen = Seen()
        conversation(self._address, seen.heard)
        questions = [_without_generated_name(question) for question in self._web.questions]
        seen.questions = [one for one, _same in itertools.groupby(questions)]
        return seen


def _without_generated_name(question: Question) -> Question:
    pairs = [(name, "amq.gen" if value.startswith("amq.gen-") else value) for name, value in question.parameters]
    return Question(question.method, question.about, tuple(pairs))


Brokers = tuple[Broker, Broker]


@pytest.fixture(scope="module", params=["get", "post", "cache"])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """RabbitMQ and Warren, each with a web server of its own that decides the same."""
    with AuthWebServer(decide) as first, AuthWebServer(decide) as second:
        rabbitmq = RabbitMQ(*_settings(first, request.param).splitlines(), plugins=PLUGINS)
        try:
            ports = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
            node = Serving(tmp_path_factory.mktemp("node"), *ports, configuration=_settings(second, request.param))
            try:
                yield Broker(rabbitmq.address, first), Broker(node.address(), second)
            finally:
                node.end()
        finally:
            rabbitmq.close()


def _settings(web: AuthWebServer, kind: str) -> str:
    if kind == "cache":
        settings = web.settings("auth_cache.cached_backend = http", "auth_cache.cache_ttl = 3600000")
        return settings.replace("auth_backends.1 = http", "auth_backends.1 = cache")
    return web.settings(f"auth_http.http_method = {kind}")


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.__name__)
def test_questions_and_answers_are_those_of_rabbitmq(brokers: Brokers, conversation: Conversation) -> None:
    rabbitmq, warren = brokers
    expected = rabbitmq.hold(conversation)
    assert warren.hold(conversation) == expected
    assert expected.heard
