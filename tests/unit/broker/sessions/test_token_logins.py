"""Connections whose login is a token: the moment of expiry, renewal, and permissions after it."""

import pytest

from tests.support.core_driver import Client, Core
from warren.broker.model.effects import Effect, VerifyToken
from warren.broker.model.events import TokenVerified
from warren.broker.model.identity import INTERNAL, OAUTH2
from warren.broker.model.settings import BrokerSettings, OAuth2Settings
from warren.wire.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)

ALL = "rabbitmq.configure:*/* rabbitmq.write:*/*/* rabbitmq.read:*/*/*"
LIVES_MS = 5_000


class TokenCore(Core):
    """A core that asks for tokens first, and the answers of its shell."""

    def __init__(self) -> None:
        settings = BrokerSettings()
        settings.authentication.backends = [(OAUTH2, OAUTH2), (INTERNAL, INTERNAL)]
        settings.authentication.oauth2 = OAuth2Settings("rabbitmq")
        super().__init__(settings)
        self._tokens: list[VerifyToken] = []

    def answer(self, scope: str = ALL, lives_ms: int = LIVES_MS, user: str = "alice", good: bool = True) -> None:
        asked, self._tokens = self._tokens, []
        claims: dict[str, object] = {"aud": "rabbitmq", "scope": scope, "sub": user}
        for order in asked:
            self.turn(TokenVerified(order.ticket, claims if good else None, "forged", lives_ms))
        self.settle()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, VerifyToken):
            self._tokens.append(effect)
        super()._carry_out(effect)

    def entered(self) -> Client:
        """A client that logged in with a token."""
        client = self.connect()
        client.log_in("", "head.claims.first")
        self.answer()
        client.say(
            ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0), ConnectionOpen(virtual_host="/"), channel=0
        )
        client.say(ChannelOpen())
        client.heard()
        return client


@pytest.fixture
def core() -> TokenCore:
    return TokenCore()


def only(client: Client) -> Method:
    [method] = client.methods()
    return method


def renew(client: Client, token: str) -> None:
    client.say(ConnectionUpdateSecret(token.encode()), channel=0)


def test_a_connection_is_closed_in_the_millisecond_its_token_expires(core: TokenCore) -> None:
    client = core.entered()
    core.pass_ms(LIVES_MS - 1)
    assert client.methods() == []
    core.pass_ms(1)
    close = only(client)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 403
    assert close.reply_text.startswith("ACCESS_REFUSED - Provided JWT token has expired at timestamp ")


def test_a_handshake_ends_when_its_token_expires(core: TokenCore) -> None:
    client = core.connect()
    client.log_in("", "head.claims.first")
    core.answer(lives_ms=1_000)
    core.pass_ms(1_000)
    assert core.closed == [client.number]


def test_a_client_that_is_gone_leaves_no_timer(core: TokenCore) -> None:
    core.entered().lose()
    core.pass_ms(2 * LIVES_MS)
    assert core.broker.connections == {}


def test_a_renewed_login_ends_later_and_has_the_new_scopes(core: TokenCore) -> None:
    client = core.entered()
    core.pass_ms(4_000)
    renew(client, "head.claims.second")
    client.say(QueueDeclare(queue="kept", exclusive=True))
    assert client.methods() == []
    core.answer("rabbitmq.configure:*/kept")
    assert [type(method) for method in client.methods()] == [ConnectionUpdateSecretOk, QueueDeclareOk]
    client.say(QueueDeclare(queue="other", exclusive=True))
    assert client.close_reason() == (
        403,
        "ACCESS_REFUSED - access to queue 'other' in vhost '/' refused for user 'alice'",
    )
    core.pass_ms(LIVES_MS - 1)
    assert client.methods() == []
    core.pass_ms(1)
    assert isinstance(only(client), ConnectionClose)


def test_a_renewal_that_is_undecided_does_not_prolong_the_login(core: TokenCore) -> None:
    client = core.entered()
    renew(client, "head.claims.second")
    core.pass_ms(LIVES_MS)
    assert isinstance(only(client), ConnectionClose)
    core.answer()
    assert client.methods() == []


@pytest.mark.parametrize(("user", "good"), [("mallory", True), ("alice", False)])
def test_a_bad_renewal_closes_the_connection(core: TokenCore, user: str, good: bool) -> None:
    client = core.entered()
    renew(client, "head.claims.second")
    core.answer(user=user, good=good)
    close = only(client)
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text, close.blamed_class_id, close.blamed_method_id) == (
        530,
        "NOT_ALLOWED - New secret was refused by one of the backends",
        10,
        70,
    )


def test_a_loopback_user_with_a_token_is_bound_to_loopback_too(core: TokenCore) -> None:
    client = core.connect("10.0.0.1")
    client.log_in("", "head.claims.first")
    core.answer(user="guest")
    core.pass_ms(5_000)
    assert isinstance(client.methods()[-1], ConnectionClose)
    assert "can only connect via localhost" in repr(core.notes)


def test_a_token_that_every_backend_refuses_is_refused_once(core: TokenCore) -> None:
    client = core.connect()
    client.log_in("bob", "head.claims.first")
    core.answer(good=False)
    assert isinstance(client.methods()[-1], ConnectionClose)
    [note] = [note for note in core.notes if note.name == "login.refused"]
    assert note.fields["reason"] == "forged; user 'bob' - invalid credentials"
