"""Logins that a web server decides: what it is asked, what its answers mean, and what is kept."""

import pytest

from tests.support.core_driver import Client, Core
from tests.unit.broker.access.web_node import allow_all, greeted, opening, web_core, working
from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.http_backend import RUNNING_LOGINS_MAX, HttpBackend
from warren.broker.access.logins import Logins
from warren.broker.access.passwords import SHA256, hash_password
from warren.broker.access.users import AccessCatalog
from warren.broker.commands.requests import Authenticate, ListVhostsOf, PutUser, PutVhost, SetPermission, SetVhostLimits
from warren.broker.model.effects import AskWebServer
from warren.broker.model.events import CommandReceived
from warren.broker.model.identity import CACHE, HTTP, INTERNAL, OAUTH2, Identity
from warren.broker.model.settings import BrokerSettings, HttpBackendSettings
from warren.broker.model.turn import Turn
from warren.wire.methods import ConnectionClose, QueueDeclare


class Waiter(LoginWaiter):
    def __init__(self) -> None:
        self.refusals: list[str] = []

    def still_waits(self) -> bool:
        return True

    def login_accepted(self, identity: Identity) -> None:
        raise AssertionError("nobody is let in")

    def login_refused(self, reason: str) -> None:
        self.refusals.append(reason)


def close_of(client: Client) -> tuple[int, str]:
    close = client.methods()[-1]
    assert isinstance(close, ConnectionClose)
    return close.reply_code, close.reply_text


def refusal_reason(core: Core) -> str:
    [note] = [note for note in core.notes if note.name == "login.refused"]
    return str(note.fields["reason"])


# -- logins


def test_the_web_server_gets_name_and_password_and_then_the_virtual_host() -> None:
    core = web_core()
    client = greeted(core, "alice", "p w")
    [question] = core.questions
    assert (question.about, question.parameters) == ("user", [("username", "alice"), ("password", "p w")])
    assert "p w" not in repr(question)
    assert client.names() == ["connection.start"]
    core.answer("allow management")
    assert client.names() == ["connection.tune"]
    client = opening(core, tags="management policymaker", host="10.0.0.9")
    entered = core.answer()
    tags = ("tags", "management policymaker")
    assert entered.about == "vhost"
    assert entered.parameters == [("username", "alice"), ("vhost", "/"), ("ip", "10.0.0.9"), tags]
    assert client.names() == ["connection.open-ok"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("deny", "denied by the web server"),
        ("allowed", "neither allow nor deny"),
        ("allow\n", "neither allow nor deny"),
        ("", "neither allow nor deny"),
    ],
)
def test_only_allow_lets_a_user_in(answer: str, reason: str) -> None:
    core = web_core()
    client = greeted(core)
    core.answer(answer)
    assert close_of(client)[0] == 403
    assert reason in refusal_reason(core)


def test_a_web_server_that_does_not_answer_lets_nobody_in() -> None:
    core = web_core()
    client = greeted(core)
    core.answer("", fault="no response within 15 s")
    assert close_of(client)[0] == 403
    assert refusal_reason(core) == "user 'alice' - the web server gave no answer: no response within 15 s"


def test_a_client_without_a_name_is_refused_without_a_question() -> None:
    core = web_core()
    client = greeted(core, "")
    assert (close_of(client)[0], core.questions) == (403, [])


def test_a_client_with_a_certificate_is_asked_for_without_a_password() -> None:
    turn, waiter = Turn(), Waiter()
    backend = HttpBackend(HTTP, HttpBackendSettings(), turn, b"secret")
    backend.authenticate(LoginAttempt("CN=alice", "", "10.0.0.9", "CN=alice", external=True), waiter)
    assert turn.effects == [AskWebServer(1, "user", [("username", "CN=alice")])]
    backend.authenticate(LoginAttempt("CN=alice", "", "10.0.0.9", "", external=False), waiter)
    assert len(turn.effects) == 2


def test_the_same_login_of_several_clients_is_one_question() -> None:
    core = web_core()
    clients = [greeted(core) for _ in range(3)]
    assert len(core.questions) == 1
    core.answer()
    assert [client.names()[-1] for client in clients] == ["connection.tune"] * 3


def test_guesses_are_asked_few_at_a_time_and_do_not_delay_a_user_who_was_there_before() -> None:
    core = web_core()
    greeted(core, "alice")
    core.answer()
    for number in range(RUNNING_LOGINS_MAX + 20):
        greeted(core, f"stranger {number}")
    assert len(core.questions) == RUNNING_LOGINS_MAX
    alice = greeted(core, "alice", "new password")
    core.answer("deny")
    core.answer("deny")
    assert any(("username", "alice") in question.parameters for question in core.questions)
    assert alice.names() == ["connection.start"]


def test_a_user_of_the_loopback_stays_on_it() -> None:
    core = web_core()
    client = greeted(core, "guest", host="10.0.0.9")
    core.answer("allow administrator")
    assert close_of(client)[0] == 403
    assert "can only connect via localhost" in refusal_reason(core)


# -- virtual hosts


def test_a_client_may_not_enter_a_virtual_host_that_the_web_server_denies() -> None:
    core = web_core()
    client = opening(core)
    core.answer("deny")
    assert close_of(client) == (530, "NOT_ALLOWED - access to vhost '/' refused for user 'alice'")
    client = opening(core)
    core.answer("", fault="no response within 15 s")
    assert close_of(client)[0] == 530
    assert [note.name for note in core.notes].count("permission.unanswered") == 1


def test_the_web_server_is_not_asked_about_a_virtual_host_that_does_not_exist() -> None:
    core = web_core()
    client = opening(core, vhost="elsewhere")
    assert (close_of(client), core.questions) == ((530, "NOT_ALLOWED - vhost elsewhere not found"), [])


def test_a_limit_that_is_reached_while_the_web_server_decides_counts() -> None:
    core = web_core()
    core.command(SetVhostLimits("/", {"max-connections": 1}))
    first, second = opening(core, "alice"), opening(core, "bob")
    core.answer()
    core.answer()
    assert first.names() == ["connection.open-ok"]
    assert close_of(second)[0] == 530


def test_a_client_that_disconnects_before_the_answer_is_forgotten() -> None:
    core = web_core()
    client = opening(core)
    client.lose()
    core.answer()
    assert core.broker.connections == {}


def test_the_virtual_hosts_of_an_operator_are_asked_for_one_by_one() -> None:
    core = web_core()
    for name in ("a", "b"):
        core.command(PutVhost(name, "", [], False))
    core.turn(CommandReceived(90, Authenticate("alice", "pw", "10.0.0.9")))
    core.answer("allow management")
    identity = core.answers[90].result
    assert isinstance(identity, Identity)
    assert (identity.authn, identity.authz, identity.tags) == (HTTP, HTTP, ["management"])
    core.turn(CommandReceived(91, ListVhostsOf(identity, "10.0.0.9")))
    for allowed in ("allow", "deny", "allow"):
        core.answer(allowed)
    assert core.answers[91].result == ["/", "b"]


# -- several backends


def test_a_user_whom_the_web_server_denies_may_be_one_of_the_broker() -> None:
    core = web_core(chain=[(HTTP, HTTP), (INTERNAL, INTERNAL)])
    client = greeted(core, "guest", "guest")
    core.answer("deny")
    assert client.names()[-1] == "connection.tune"


def test_the_web_server_may_authorise_users_of_the_broker_and_gets_their_tags() -> None:
    core = web_core(chain=[(INTERNAL, HTTP)])
    client = greeted(core, "guest", "guest")
    question = core.answer("allow tag-that-does-not-count")
    assert question.parameters == [("username", "guest"), ("password", "guest")]
    assert client.names()[-1] == "connection.tune"
    [identity] = [connection.identity for connection in core.broker.connections.values()]
    assert identity is not None
    assert (identity.authn, identity.authz, identity.tags) == (INTERNAL, HTTP, ["administrator"])
    client = greeted(core, "guest", "guest")
    core.answer("deny")
    assert close_of(client)[0] == 403


def test_the_web_server_is_asked_about_the_user_who_was_authenticated() -> None:
    turn, waiter = Turn(), Waiter()
    backend = HttpBackend(HTTP, HttpBackendSettings(), turn, b"secret")
    claimed = LoginAttempt("root", "a.token.of alice", "10.0.0.9", "", external=False)
    backend.authorise_login(claimed, Identity("alice", OAUTH2, HTTP), waiter)
    assert turn.effects == [AskWebServer(1, "user", [("username", "alice"), ("password", "a.token.of alice")])]


def test_the_broker_may_authorise_users_of_the_web_server() -> None:
    core = web_core(chain=[(HTTP, INTERNAL)])
    core.command(PutUser("alice", hash_password(SHA256, "other", b"salt"), SHA256, []))
    core.command(SetPermission("alice", "/", "^a", "", ""))
    client = greeted(core, "alice", "pw")
    core.answer("allow impersonator")
    assert client.names()[-1] == "connection.tune"
    stranger = greeted(core, "bob", "pw")
    core.answer("allow")
    assert close_of(stranger)[0] == 403


def test_a_trusted_identity_of_a_backend_that_this_node_does_not_have_is_refused() -> None:
    logins, waiter = Logins(BrokerSettings(), Turn(), AccessCatalog(), b"secret"), Waiter()
    logins.log_in(LoginAttempt("", "", "", "", True, True, Identity("alice", HTTP, HTTP)), waiter)
    assert waiter.refusals == ["user 'alice' - invalid credentials"]


# -- kept answers


def cached_core(ttl_ms: int = 1_000, refusals: bool = False) -> Core:
    return web_core(HttpBackendSettings(cache_ttl_ms=ttl_ms, caches_refusals=refusals), [(CACHE, CACHE)])


def test_kept_answers_save_questions_until_they_are_too_old() -> None:
    core = cached_core()
    client = working(core)
    client.say(QueueDeclare("q"))
    assert allow_all(core) == [("queue", "q", "configure")]
    again = greeted(core)
    assert (again.names()[-1], core.questions) == ("connection.tune", [])
    core.pass_ms(1_000)
    greeted(core)
    assert len(core.questions) == 1


def test_another_password_is_another_question() -> None:
    core = cached_core()
    greeted(core, "alice", "pw")
    core.answer()
    greeted(core, "alice", "other")
    assert len(core.questions) == 1


def test_another_users_permission_is_another_question() -> None:
    core = cached_core()
    alice, bob = working(core, "alice"), working(core, "bob")
    alice.say(QueueDeclare("q"))
    allow_all(core)
    bob.say(QueueDeclare("q"))
    assert len(core.questions) == 1


@pytest.mark.parametrize("refusals", [False, True])
def test_refusals_are_kept_only_if_the_operator_wants_it(refusals: bool) -> None:
    core = cached_core(refusals=refusals)
    greeted(core, "alice")
    core.answer("deny")
    again = greeted(core, "alice")
    core.pass_ms(200)
    assert len(core.questions) == (0 if refusals else 1)
    assert again.names()[-1] == ("connection.close" if refusals else "connection.start")


def test_a_failure_is_never_kept() -> None:
    core = cached_core(refusals=True)
    greeted(core, "alice")
    core.answer("", fault="no connection")
    greeted(core, "alice")
    assert len(core.questions) == 1
