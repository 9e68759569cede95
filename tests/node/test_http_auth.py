"""A node whose logins and permissions a web server decides: one that answers, one that is slow, wrong or dead."""

import base64
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.certificate_files import Authority
from tests.node.serving import Serving
from tests.support.amqp_client import CAPABILITIES, Channel, Connection, plain
from tests.support.auth_web_server import Answer, AuthWebServer, Question
from tests.support.deadlines import eventually

Serve = Callable[..., Serving]
Connect = Callable[..., Connection]
INTERNAL_TOO = "auth_backends.2 = internal"
OUTSTANDING_OF_USER_MAX = 16


class Desk:
    """Allows everything but names that begin with `no`; names that begin with `slow` wait for `release`."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.tags: dict[str, str] = {}

    def __call__(self, question: Question) -> Answer:
        if question.about == "user":
            good = question["password"] == "s3cret"
            return Answer(f"allow {self.tags.get(question['username'], '')}") if good else Answer("deny")
        wanted = question["routing_key"] or question["name"] or question["vhost"]
        if wanted.startswith("slow"):
            self.released.wait(60)
        return Answer("deny" if wanted.startswith("no") else "allow")


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.released.set()


@pytest.fixture
def web(desk: Desk) -> Iterator[AuthWebServer]:
    with AuthWebServer(desk) as server:
        yield server


def login_refused(node: Serving, user: str = "alice", password: str = "s3cret") -> bool:
    connection = Connection(node.address())
    try:
        connection.start()
        connection.start_ok("PLAIN", plain(user, password), CAPABILITIES)
        answer = connection.next_on(0, deadline_s=60)
        return answer.name == "connection.close" and answer.reply_code == 403
    finally:
        connection.cut()


def refused(channel: Channel, method: str, **fields: Any) -> str:
    """The text of the channel.close that a method gets; the channel is open again then."""
    channel.send(method, **fields)
    close = channel.expect("channel.close", deadline_s=60)
    assert close.reply_code == 403
    channel.send("channel.close-ok")
    channel.call("channel.open")
    return str(close.reply_text)


def api(node: Serving, method: str, path: str, body: object = None, login: str = "alice:s3cret") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*node.address("http"), timeout=60)
    headers = {"authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    try:
        connection.request(method, f"/api/{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


# -- AMQP


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_web_server_decides(serve: Serve, connect: Connect, web: AuthWebServer, method: str) -> None:
    node = serve(configuration=web.settings(f"auth_http.http_method = {method}"))
    assert login_refused(node, password="guess")
    connection = connect(node, opened=True, user="alice", password="s3cret")
    channel = connection.channel()
    channel.call("queue.declare", queue="orders")
    assert "access to queue 'not-mine' in vhost '/' refused for user 'alice'" in refused(
        channel, "queue.declare", queue="not-mine"
    )
    channel.confirm()
    for _ in range(100):
        channel.publish("", "orders", b"x")
    channel.confirms(range(1, 101))
    channel.await_counts("orders", 100)
    assert [question["name"] for question in web.about("resource")] == ["orders", "not-mine", "amq.default"]
    assert {question.method for question in web.questions} == {method.upper()}
    assert "s3cret" not in node.log()
    assert "guess" not in node.log()
    connection.close()
    assert node.stop() == 0


def test_a_virtual_host_may_be_denied(serve: Serve, connect: Connect, web: AuthWebServer) -> None:
    node = serve(configuration=web.settings("default_vhost = nowhere"))
    connection = connect(node)
    connection.tune_ok(connection.authenticate("alice", "s3cret"))
    connection.send(0, "connection.open", virtual_host="nowhere")
    text = "NOT_ALLOWED - access to vhost 'nowhere' refused for user 'alice'"
    connection.expect_close(530, text, "connection.open")


def test_routing_keys_may_be_denied(serve: Serve, connect: Connect, web: AuthWebServer) -> None:
    node = serve(configuration=web.settings())
    channel = connect(node, opened=True, user="alice", password="s3cret").channel()
    channel.call("queue.declare", queue="q")
    channel.call("queue.bind", queue="q", exchange="amq.topic", routing_key="yes.#")
    channel.publish("amq.topic", "yes.1", b"1")
    assert channel.get("q") is not None
    channel.publish("amq.topic", "no.1", b"2")
    assert "access to topic 'no.1' in exchange 'amq.topic'" in channel.expect("channel.close").reply_text


def test_messages_behind_a_question_wait_in_order_and_other_clients_do_not_wait(
    serve: Serve, connect: Connect, web: AuthWebServer, desk: Desk
) -> None:
    node = serve(configuration=web.settings())
    waiting = connect(node, opened=True, user="alice", password="s3cret").channel()
    other = connect(node, opened=True, user="bob", password="s3cret").channel()
    waiting.call("queue.declare", queue="q")
    waiting.call("queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    waiting.publish("amq.topic", "a", b"1")
    waiting.publish("amq.topic", "slow", b"2" * 200_000)
    waiting.publish("amq.topic", "a", b"3")
    eventually(lambda: any(question["routing_key"] == "slow" for question in web.about("topic")))
    other.call("queue.declare", queue="q2")
    other.publish("", "q2", b"x")
    other.await_counts("q2", 1)
    other.await_counts("q", 1)
    desk.released.set()
    other.await_counts("q", 3)
    bodies = [message.body[:1] for message in [other.get("q") for _ in range(3)] if message is not None]
    assert bodies == [b"1", b"2", b"3"]


def test_a_user_with_many_connections_asks_few_questions_at_a_time_and_delays_nobody(
    serve: Serve, connect: Connect, web: AuthWebServer, desk: Desk
) -> None:
    node = serve(configuration=web.settings())
    clients = [connect(node, opened=True, user="alice", password="s3cret").channel() for _ in range(60)]
    for number, channel in enumerate(clients):
        channel.send("queue.declare", queue=f"slow-{number}")
    eventually(lambda: len(web.about("resource")) == OUTSTANDING_OF_USER_MAX)
    connect(node, opened=True, user="bob", password="s3cret").channel().call("queue.declare", queue="quick")
    assert web.waiting_max <= OUTSTANDING_OF_USER_MAX + 1
    desk.released.set()
    for channel in clients:
        channel.expect("queue.declare-ok", deadline_s=60)


# -- a web server that fails


def test_a_slow_web_server_leads_to_a_refusal(serve: Serve, connect: Connect, web: AuthWebServer, desk: Desk) -> None:
    node = serve(configuration=web.settings("auth_http.request_timeout = 4000"))
    channel = connect(node, opened=True, user="alice", password="s3cret").channel()
    assert "access to queue 'slow' in vhost '/' refused" in refused(channel, "queue.declare", queue="slow")
    node.wait_for(lambda: node.events("permission.unanswered"))
    [line] = node.events("permission.unanswered")
    assert 'about=resource user=alice reason="no response within 4 s"' in line
    channel.call("queue.declare", queue="quick")


def test_a_dead_web_server_lets_nobody_in_and_leaves_the_users_of_the_broker_alone(
    serve: Serve, connect: Connect, web: AuthWebServer
) -> None:
    node = serve(configuration=web.settings(INTERNAL_TOO))
    channel = connect(node, opened=True, user="alice", password="s3cret").channel()
    web.close()
    assert login_refused(node)
    node.wait_for(lambda: "the web server gave no answer" in node.log())
    assert "access to queue 'q' in vhost '/' refused for user 'alice'" in refused(channel, "queue.declare", queue="q")
    connect(node, opened=True).channel().call("queue.declare", queue="q")


@pytest.mark.parametrize(
    "answer",
    [
        Answer("sure"),
        Answer("allow", status=500),
        Answer("allow", status=403),
        Answer("", status=302, location="/auth/elsewhere"),
        Answer("allow " + "x" * 100_000),
        Answer(raw=b"allow"),
        Answer(raw=b""),
        Answer(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nallow"),
    ],
    ids=["another word", "error", "forbidden", "redirect", "oversize", "no http", "closed", "cut short"],
)
def test_an_answer_that_is_not_one_is_a_refusal(serve: Serve, answer: Answer) -> None:
    with AuthWebServer(lambda question: answer) as web:
        node = serve(configuration=web.settings())
        assert login_refused(node)
        node.wait_for(lambda: node.events("login.refused"))
        assert {question.about for question in web.questions} == {"user"}
        assert node.stop() == 0


def test_permissions_with_such_answers_are_refused_as_well(serve: Serve, connect: Connect) -> None:
    answers = {"error": Answer("allow", status=500), "words": Answer("allow everything"), "lines": Answer("allow\n")}
    with AuthWebServer(lambda question: answers.get(question["name"], Answer())) as web:
        node = serve(configuration=web.settings())
        channel = connect(node, opened=True, user="alice", password="s3cret").channel()
        for name in answers:
            assert f"access to queue '{name}' in vhost '/' refused" in refused(channel, "queue.declare", queue=name)
        node.wait_for(lambda: len(node.events("permission.unanswered")) == len(answers))


# -- TLS


def test_the_web_server_is_asked_over_tls(serve: Serve, connect: Connect, desk: Desk, authority: Authority) -> None:
    certificate = (authority.server.certificate, authority.server.key)
    with AuthWebServer(desk, certificate) as web:
        trusting = serve(configuration=web.settings(f"auth_http.ssl_options.cacertfile = {authority.path}"))
        connect(trusting, opened=True, user="alice", password="s3cret").channel().call("queue.declare", queue="q")
        distrusting = serve(configuration=web.settings())
        assert login_refused(distrusting)
        distrusting.wait_for(lambda: "the certificate is not accepted" in distrusting.log())


# -- kept answers


def test_kept_answers_let_the_same_client_in_again(serve: Serve, connect: Connect, web: AuthWebServer) -> None:
    settings = web.settings("auth_cache.cached_backend = http", "auth_cache.cache_ttl = 3600000")
    node = serve(configuration=settings.replace("auth_backends.1 = http", "auth_backends.1 = cache"))
    for _ in range(3):
        connect(node, opened=True, user="alice", password="s3cret").channel().call("queue.declare", queue="q")
    assert [question.about for question in web.questions] == ["user", "vhost", "resource"]
    assert login_refused(node, password="guess")
    web.close()
    connect(node, opened=True, user="alice", password="s3cret")
    assert login_refused(node, password="guess")


# -- HTTP


def test_the_api_takes_users_and_tags_of_the_web_server(serve: Serve, web: AuthWebServer, desk: Desk) -> None:
    desk.tags = {"alice": "management", "root": "administrator"}
    node = serve(configuration=web.settings())
    assert api(node, "GET", "whoami") == (200, {"name": "alice", "tags": ["management"]})
    assert api(node, "GET", "whoami", login="alice:guess")[0] == 401
    assert api(node, "GET", "whoami", login="bob:s3cret")[0] == 401
    for vhost in ("yes", "no"):
        assert api(node, "PUT", f"vhosts/{vhost}", {}, login="root:s3cret")[0] == 201
    assert [row["name"] for row in api(node, "GET", "vhosts")[1]] == ["/", "yes"]
    assert api(node, "GET", "queues/no")[0] == 401
    assert api(node, "PUT", "vhosts/mine", {})[0] == 401
    assert {question["ip"] for question in web.about("vhost")} == {"127.0.0.1"}


def test_the_api_acts_with_the_permissions_of_its_user(serve: Serve, web: AuthWebServer, desk: Desk) -> None:
    desk.tags = {"alice": "management"}
    node = serve(configuration=web.settings())
    assert api(node, "PUT", "queues/%2F/mine", {"durable": True})[0] == 201
    assert api(node, "PUT", "queues/%2F/not-mine", {"durable": True})[0] == 401
    message = {"properties": {}, "routing_key": "mine", "payload": "x", "payload_encoding": "string"}
    assert api(node, "POST", "exchanges/%2F/amq.default/publish", message) == (200, {"routed": True})
    asked = [(question["resource"], question["name"]) for question in web.about("resource")]
    assert asked == [("queue", "mine"), ("queue", "not-mine"), ("exchange", "amq.default")]
