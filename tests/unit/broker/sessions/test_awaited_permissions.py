"""Methods that wait for a permission which a web server must be asked for: each is asked once, and order is kept."""

import pytest

from tests.support.core_driver import Client, Core, content, published, spoken
from tests.unit.broker.access.web_node import allow_all, asked, web_core, working
from tests.unit.broker.sessions.deferred_core import DeferredCore
from warren.broker.access.http_backend import GRANTED_MAX, HttpRights
from warren.broker.access.http_questions import (
    LOOK_EVERY,
    RUNNING_OF_USER_MAX,
    RUNNING_QUESTIONS_MAX,
    AnswerCache,
    HttpQuestion,
    HttpQuestions,
)
from warren.broker.access.rights import AnswerWaiter, Rights
from warren.broker.model.events import WebServerAnswered
from warren.broker.model.identity import HTTP, Identity
from warren.broker.model.settings import HttpBackendSettings
from warren.broker.model.turn import Turn
from warren.broker.sessions.input import PERMISSIONS_A_FRAME_MAX
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    encode_method,
)
from warren.wire.properties import Properties

Asked = tuple[str, str, str]


@pytest.fixture
def core() -> Core:
    return web_core()


@pytest.fixture
def client(core: Core) -> Client:
    """Queue `q` and exchanges `e` and `t` exist, and the channel knows no permission."""
    client = working(core)
    client.say(QueueDeclare("q"), ExchangeDeclare("e"), ExchangeDeclare("t", "topic"), QueueDeclare("t-copy"))
    allow_all(core)
    client.say(ChannelClose(reply_code=200), ChannelOpen())
    client.heard()
    return client


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        (QueueDeclare("new"), [("queue", "new", "configure")]),
        (
            QueueDeclare("new", arguments={"x-dead-letter-exchange": "e"}),
            [("queue", "new", "configure"), ("queue", "new", "read"), ("exchange", "e", "write")],
        ),
        (
            QueueDeclare("new", arguments={"x-copy-from": ["q", "t-copy"]}),
            [("queue", "new", "configure"), ("queue", "q", "read"), ("queue", "t-copy", "read")],
        ),
        (QueueDeclare("q", passive=True), []),
        (
            ExchangeDeclare("new", arguments={"alternate-exchange": "e"}),
            [("exchange", "new", "configure"), ("exchange", "new", "read"), ("exchange", "e", "write")],
        ),
        (ExchangeDelete("e"), [("exchange", "e", "configure")]),
        (QueueBind("q", "e", "k"), [("queue", "q", "write"), ("exchange", "e", "read")]),
        (QueueBind("q", "t", "k"), [("queue", "q", "write"), ("exchange", "t", "read"), ("topic", "t", "read")]),
        (QueueUnbind("q", "t", "k"), [("queue", "q", "write"), ("exchange", "t", "read"), ("topic", "t", "read")]),
        (ExchangeBind("e", "t", "k"), [("exchange", "e", "write"), ("exchange", "t", "read"), ("topic", "t", "read")]),
        (
            ExchangeUnbind("e", "t", "k"),
            [("exchange", "e", "write"), ("exchange", "t", "read"), ("topic", "t", "read")],
        ),
        (QueuePurge("q"), [("queue", "q", "read")]),
        (QueueDelete("q"), [("queue", "q", "configure")]),
        (BasicConsume("q"), [("queue", "q", "read")]),
        (BasicGet("q"), [("queue", "q", "read")]),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else "",
)
def test_a_method_asks_for_its_permissions_and_is_answered_once(
    core: Core, client: Client, method: Method, wanted: list[Asked]
) -> None:
    client.say(method)
    assert (client.heard() == []) == bool(wanted)
    assert allow_all(core) == wanted
    replies = client.names()
    assert len(replies) == (1 if wanted else 0)
    assert "channel.close" not in replies


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_each_of_several_permissions_may_be_refused(core: Core, client: Client, refused: int) -> None:
    client.say(QueueBind("q", "t", "k"))
    for _ in range(refused):
        core.answer()
    core.answer("deny")
    assert client.close_reason()[0] == 403
    assert core.questions == []


def test_the_refusal_is_worded_as_for_a_user_of_the_broker(core: Core, client: Client) -> None:
    client.say(QueueDeclare("new"))
    core.answer("deny")
    assert client.close_reason() == (
        403,
        "ACCESS_REFUSED - access to queue 'new' in vhost '/' refused for user 'alice'",
    )


def test_no_answer_is_a_refusal_with_a_line_in_the_log(core: Core, client: Client) -> None:
    client.say(QueueDeclare("new"))
    core.answer("", fault="no response within 15 s")
    assert client.close_reason()[0] == 403
    [note] = [note for note in core.notes if note.name == "permission.unanswered"]
    assert note.fields == {"about": "resource", "user": "alice", "reason": "no response within 15 s"}


def test_an_answer_about_a_permission_that_has_more_than_allow_is_a_refusal(core: Core, client: Client) -> None:
    client.say(QueueDeclare("new"))
    core.answer("allow administrator")
    assert client.close_reason()[0] == 403


def test_the_question_has_the_parameters_of_rabbitmq(core: Core) -> None:
    client = working(core, tags="one two")
    client.say(ExchangeDeclare("t", "topic"))
    assert core.answer().parameters == [
        ("username", "alice"),
        ("vhost", "/"),
        ("resource", "exchange"),
        ("name", "t"),
        ("permission", "configure"),
        ("tags", "one two"),
    ]
    client.read(published("a.b", exchange="t"))
    core.answer()
    topic = core.answer()
    assert topic.about == "topic"
    assert topic.parameters == [
        ("username", "alice"),
        ("vhost", "/"),
        ("resource", "topic"),
        ("name", "t"),
        ("permission", "write"),
        ("tags", "one two"),
        ("routing_key", "a.b"),
        ("variable_map.username", "alice"),
        ("variable_map.vhost", "/"),
    ]


# -- order


def test_everything_behind_a_waiting_method_waits_and_other_connections_do_not(core: Core, client: Client) -> None:
    other = working(core, "bob")
    client.say(QueueDeclare("new"), QueueDeclare("q", passive=True))
    client.say(QueueDeclare("t-copy", passive=True))
    other.say(QueueDeclare("q", passive=True))
    assert (client.names(), other.names()) == ([], ["queue.declare-ok"])
    core.answer()
    assert [reply.queue for reply in client.methods() if isinstance(reply, QueueDeclareOk)] == ["new", "q", "t-copy"]


def test_frames_behind_a_refused_method_are_ignored(core: Core, client: Client) -> None:
    client.say(QueueDeclare("new"), QueueDelete("q"))
    core.answer("deny")
    assert client.close_reason()[0] == 403
    client.say(ChannelCloseOk())
    client.say(ChannelOpen(), QueueDeclare("q", passive=True))
    assert client.names() == ["channel.open-ok", "queue.declare-ok"]


def test_a_generated_name_is_the_one_that_was_asked_for(core: Core, client: Client) -> None:
    client.say(QueueDeclare(""))
    [wanted] = allow_all(core)
    [reply] = client.methods()
    assert isinstance(reply, QueueDeclareOk)
    assert wanted == ("queue", reply.queue, "configure")


def test_an_answer_for_a_lost_connection_does_nothing(core: Core, client: Client) -> None:
    client.say(QueueDeclare("new"))
    client.lose()
    core.answer()
    assert "new" not in core.broker.vhosts["/"].topology.queues


def test_methods_wait_for_a_permission_and_then_for_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    core = DeferredCore()
    questions = HttpQuestions(core.node.turn, 15_000, AnswerCache(0, False))

    def rights(identity: Identity, vhost: str) -> Rights:
        return HttpRights(Identity(identity.name, HTTP, HTTP), vhost, questions)

    monkeypatch.setattr(core.node, "rights", rights)
    client = core.client()
    client.say(QueueDeclare(""), QueueDeclare("second"), QueueDelete("second"))
    generated = ""
    for _ in range(2):
        question = core.questions.pop(0)
        generated = generated or asked(question)[1]
        questions.answered(WebServerAnswered(question.ticket, question.about, "allow"))
        core.turn()
        core.grant()
    core.grant()
    replies = client.methods()
    assert [reply.name for reply in replies] == ["queue.declare-ok", "queue.declare-ok", "queue.delete-ok"]
    assert isinstance(replies[0], QueueDeclareOk)
    assert replies[0].queue == generated


# -- publishes


def test_a_publisher_asks_once_for_many_messages(core: Core, client: Client) -> None:
    client.say(ConfirmSelect())
    client.heard()
    client.publish("q", b"1", b"2", b"3")
    assert client.heard() == []
    assert allow_all(core) == [("exchange", "amq.default", "write")]
    client.publish("q", b"4")
    assert client.names() == ["basic.ack", "basic.ack"]
    assert core.questions == []
    assert core.broker.vhosts["/"].topology.queues["q"].ready_count() == 4


def test_a_changed_topology_does_not_ask_again(core: Core, client: Client) -> None:
    client.publish("q", b"1", exchange="t")
    assert allow_all(core) == [("exchange", "t", "write"), ("topic", "t", "write")]
    core.broker.vhosts["/"].topology.version += 1
    client.publish("q", b"2", exchange="t")
    assert core.questions == []


def test_another_routing_key_of_a_topic_exchange_is_another_question(core: Core, client: Client) -> None:
    client.publish("a", b"1", exchange="t")
    allow_all(core)
    client.publish("b", b"2", exchange="t")
    assert allow_all(core) == [("topic", "t", "write")]
    client.publish("a", b"3", exchange="t")
    client.publish("b", b"4", exchange="t")
    assert core.questions == []


def test_another_routing_key_of_another_exchange_is_none(core: Core, client: Client) -> None:
    client.publish("a", b"1", exchange="e")
    allow_all(core)
    client.publish("b", b"2", exchange="e")
    assert core.questions == []


@pytest.mark.parametrize("cut", [8, 30, 45, -1])
def test_content_in_several_reads_is_published_once(core: Core, client: Client, cut: int) -> None:
    frames = published("q", b"body") + spoken(QueueDeclare("q", passive=True))
    publish_bytes = len(published("q", b"body"))
    at = publish_bytes + cut if cut < 0 else cut
    client.read(frames[:at])
    client.read(frames[at:])
    assert client.heard() == []
    assert allow_all(core) == [("exchange", "amq.default", "write")]
    [reply] = client.methods()
    assert isinstance(reply, QueueDeclareOk)
    assert reply.message_count == 1


def test_content_in_several_frames_that_is_refused_is_dropped(core: Core, client: Client) -> None:
    before = core.held_bytes()
    client.read(encode_method(1, BasicPublish(routing_key="q")))
    client.read(content(b"body"))
    assert core.held_bytes() > before
    core.answer("deny")
    assert client.close_reason()[0] == 403
    assert core.held_bytes() == before


def test_a_publisher_that_leaves_while_its_content_waits_holds_no_memory(core: Core, client: Client) -> None:
    before = core.held_bytes()
    client.read(encode_method(1, BasicPublish(routing_key="q")))
    client.read(content(b"body"))
    client.lose()
    core.answer()
    assert core.held_bytes() == before


def test_a_refused_publish_closes_the_channel_and_nothing_behind_it_is_published(core: Core, client: Client) -> None:
    client.publish("q", b"1", b"2")
    core.answer("deny")
    assert client.close_reason()[0] == 403
    assert core.broker.vhosts["/"].topology.queues["q"].ready_count() == 0


def test_the_user_id_of_another_user_needs_the_tag_that_the_web_server_gives(core: Core, client: Client) -> None:
    other = Properties(user_id="bob")
    client.read(published("q", properties=other))
    allow_all(core)
    assert client.close_reason()[0] == 406
    impersonator = working(core, "carol", tags="impersonator")
    impersonator.read(published("q", properties=other))
    allow_all(core)
    assert impersonator.names() == []


# -- bounds


def test_a_channel_that_is_opened_asks_afresh(core: Core, client: Client) -> None:
    client.say(BasicGet("q"))
    allow_all(core)
    client.say(BasicGet("q"))
    assert core.questions == []
    client.say(ChannelOpen(), channel=2)
    client.say(BasicGet("q"), channel=2)
    assert allow_all(core) == [("queue", "q", "read")]


def test_a_refusal_is_asked_for_again(core: Core, client: Client) -> None:
    client.say(BasicGet("q"))
    core.answer("deny")
    client.say(ChannelCloseOk())
    client.say(ChannelOpen(), BasicGet("q"))
    assert allow_all(core) == [("queue", "q", "read")]


def test_a_connection_knows_a_bounded_number_of_permissions(core: Core, client: Client) -> None:
    for number in range(GRANTED_MAX + 1):
        client.publish(f"key {number}", b"", exchange="t")
        allow_all(core)
    core.broker.vhosts["/"].topology.version += 1
    client.publish("key 0", b"", exchange="t")
    assert allow_all(core) == [("topic", "t", "write")]


def test_a_method_with_too_many_objects_is_refused(core: Core, client: Client) -> None:
    names: list[object] = [f"q{number}" for number in range(PERMISSIONS_A_FRAME_MAX)]
    client.say(QueueDeclare("new", arguments={"x-copy-from": names}))
    assert len(allow_all(core)) == PERMISSIONS_A_FRAME_MAX
    assert client.close_reason()[0] == 406
    client.say(ChannelCloseOk())
    client.say(ChannelOpen(), QueueDeclare("new"))
    assert allow_all(core) == [("queue", "new", "configure")]
    assert client.names() == ["channel.open-ok", "queue.declare-ok"]


def test_methods_in_one_read_have_a_bound_each(core: Core, client: Client) -> None:
    count = PERMISSIONS_A_FRAME_MAX + 10
    client.say(*[QueueDeclare(f"q{number}") for number in range(count)])
    assert len(allow_all(core)) == count
    assert client.names() == ["queue.declare-ok"] * count


def test_the_node_asks_few_questions_at_a_time_and_users_take_turns(core: Core) -> None:
    many = [working(core, "mallory") for _ in range(RUNNING_QUESTIONS_MAX)]
    others = [working(core, f"user {number}") for number in range(RUNNING_QUESTIONS_MAX)]
    for number, one in enumerate(many):
        one.say(QueueDeclare(f"q{number}"))
    assert len(core.questions) == RUNNING_OF_USER_MAX
    for number, other in enumerate(others):
        other.say(QueueDeclare(f"other {number}"))
    assert len(core.questions) == RUNNING_QUESTIONS_MAX
    for _ in range(4):
        core.answer()
    assert len(core.questions) == RUNNING_QUESTIONS_MAX
    of_many = [question for question in core.questions if asked(question)[1].startswith("q")]
    assert len(of_many) == RUNNING_OF_USER_MAX - 3
    assert len(allow_all(core)) == 2 * RUNNING_QUESTIONS_MAX - 4


def test_the_same_question_of_several_connections_is_asked_once(core: Core) -> None:
    clients = [working(core) for _ in range(3)]
    for one in clients:
        one.say(QueueDeclare("shared"))
    assert allow_all(core) == [("queue", "shared", "configure")]
    assert [one.names() for one in clients] == [["queue.declare-ok"]] * 3


def test_a_question_that_waited_for_longer_than_the_timeout_is_refused_unasked() -> None:
    core = web_core(HttpBackendSettings(timeout_ms=1_000))
    clients = [working(core, f"user {number}") for number in range(RUNNING_QUESTIONS_MAX + 2)]
    for number, one in enumerate(clients):
        one.say(QueueDeclare(f"q{number}"))
    core.pass_ms(1_001)
    core.answer("", fault="no response within 1 s")
    assert len(core.questions) == RUNNING_QUESTIONS_MAX - 1
    assert [one.names() for one in clients[-2:]] == [["channel.close"], ["channel.close"]]


class Asker(AnswerWaiter):
    def __init__(self, waits: bool) -> None:
        self._waits = waits

    def still_waits(self) -> bool:
        return self._waits

    def answered(self, allowed: bool) -> None:
        raise AssertionError("nothing is answered")


@pytest.mark.parametrize("same", [True, False])
def test_clients_that_come_and_go_leave_a_bounded_number_of_questions(same: bool) -> None:
    questions = HttpQuestions(Turn(), 15_000, AnswerCache(0, False))
    for number in range(RUNNING_OF_USER_MAX):
        questions.ask(HttpQuestion("resource", "alice", [("name", f"running {number}")]), Asker(waits=True))
    last = HttpQuestion("resource", "alice", [("name", "again")])
    for number in range(10 * LOOK_EVERY):
        left = last if same else HttpQuestion("resource", "alice", [("name", str(number))])
        questions.ask(left, Asker(waits=False))
    assert questions.count() < RUNNING_OF_USER_MAX + LOOK_EVERY
    assert len(last.waiters) < LOOK_EVERY


def test_questions_of_clients_that_left_are_not_asked(core: Core) -> None:
    clients = [working(core, f"user {number}") for number in range(RUNNING_QUESTIONS_MAX + 1)]
    for number, one in enumerate(clients):
        one.say(QueueDeclare(f"q{number}"))
    clients[-1].lose()
    core.answer()
    assert len(core.questions) == RUNNING_QUESTIONS_MAX - 1
