"""Logins with access tokens: what is verified, what is kept, and what waits for keys."""

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.credential_checks import RUNNING_CHECKS_MAX
from warren.broker.access.token_backend import AWAITING_KEYS_MAX, TOKEN_CHARACTERS_MAX, TokenBackend
from warren.broker.model.effects import VerifyToken
from warren.broker.model.events import TokenVerified
from warren.broker.model.identity import Identity
from warren.broker.model.settings import OAuth2Settings
from warren.broker.model.turn import Turn

TOKEN = "head.claims.signature"
CLAIMS: dict[str, object] = {"aud": "rabbitmq", "scope": "rabbitmq.read:*/*", "sub": "alice"}


class Waiter(LoginWaiter):
    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.refusals: list[str] = []
        self.gone = False

    def still_waits(self) -> bool:
        return not self.gone

    def login_accepted(self, identity: Identity) -> None:
        self.identity = identity

    def login_refused(self, reason: str) -> None:
        self.refusals.append(reason)

    @property
    def waits(self) -> bool:
        return self.identity is None and not self.refusals


class TokenNode:
    def __init__(self) -> None:
        self.turn = Turn()
        self.turn.now_ms = 1_000
        self.backend = TokenBackend(OAuth2Settings("rabbitmq"), self.turn, b"secret")

    def log_in(self, token: str = TOKEN, user: str = "", host: str = "10.0.0.1", external: bool = False) -> Waiter:
        waiter = Waiter()
        self.backend.authenticate(LoginAttempt(user, token, host, "", external), waiter)
        return waiter

    def asked(self) -> list[VerifyToken]:
        effects = [effect for effect in self.turn.effects if isinstance(effect, VerifyToken)]
        self.turn.effects = []
        return effects

    def answer(self, claims: dict[str, object] | None = CLAIMS, lives_ms: int = 0) -> None:
        for order in self.asked():
            self.backend.verified(TokenVerified(order.ticket, claims, "forged", lives_ms))

    def miss_key(self) -> None:
        for order in self.asked():
            self.backend.verified(TokenVerified(order.ticket, None, "unknown key", awaits_keys=True))


def test_a_good_token_is_an_identity_with_its_scopes_and_its_end() -> None:
    node = TokenNode()
    waiter = node.log_in()
    assert waiter.waits
    node.answer(lives_ms=500)
    found = waiter.identity
    assert found is not None
    assert (found.name, found.authn, found.scopes, found.expires_at_ms) == ("alice", "oauth2", ["read:*/*"], 1_500)


def test_a_forged_token_is_refused_with_the_reason_of_the_shell() -> None:
    node = TokenNode()
    waiter = node.log_in()
    node.answer(None)
    assert waiter.refusals == ["forged"]


def test_a_token_for_another_audience_is_refused() -> None:
    node = TokenNode()
    waiter = node.log_in()
    node.answer({**CLAIMS, "aud": "other"})
    assert waiter.refusals == ["'rabbitmq' is not in the token's aud"]


def test_a_password_that_cannot_be_a_token_is_refused_at_once() -> None:
    node = TokenNode()
    for password in ("", "secret", "a.b", "a.b.c.d", "é.b.c", "a.b." + "c" * TOKEN_CHARACTERS_MAX):
        assert not node.log_in(password).waits
    assert not node.log_in(TOKEN, external=True).waits
    assert node.asked() == []


def test_a_token_without_a_user_is_that_of_the_user_the_client_names() -> None:
    node = TokenNode()
    named, unnamed = node.log_in(user="bob"), node.log_in()
    node.answer({"aud": "rabbitmq", "scope": ""})
    assert named.identity is not None
    assert named.identity.name == "bob"
    assert unnamed.refusals == ["the token names no user, and neither does the client"]


def test_a_good_token_is_kept_until_it_expires() -> None:
    node = TokenNode()
    node.log_in()
    node.answer(lives_ms=500)
    assert node.log_in().identity is not None
    node.turn.now_ms = 1_500
    assert node.log_in().waits
    assert len(node.asked()) == 1


def test_a_good_token_is_verified_again_when_the_keys_change() -> None:
    node = TokenNode()
    node.log_in()
    node.answer()
    node.backend.keys_fetched(False)
    assert node.log_in().identity is not None
    node.backend.keys_fetched(True)
    assert node.log_in().waits


def test_a_bad_token_is_not_kept() -> None:
    node = TokenNode()
    node.log_in()
    node.answer(None)
    assert node.log_in().waits
    assert len(node.asked()) == 1


def test_a_token_with_an_unknown_key_waits_for_the_next_fetch_and_is_tried_once_more() -> None:
    node = TokenNode()
    good, bad = node.log_in("a.b.good"), node.log_in("a.b.bad")
    node.miss_key()
    assert good.waits
    assert bad.waits
    node.backend.keys_fetched(True)
    first, second = node.asked()
    node.backend.verified(TokenVerified(first.ticket, CLAIMS))
    node.backend.verified(TokenVerified(second.ticket, None, "unknown key", awaits_keys=True))
    assert good.identity is not None
    assert bad.refusals == ["unknown key"]


def test_tokens_with_unknown_keys_take_no_place_among_the_running_checks() -> None:
    node = TokenNode()
    flood = [node.log_in(f"a.b.{number}") for number in range(10 * RUNNING_CHECKS_MAX)]
    for _ in range(10):
        node.miss_key()
    assert all(waiter.waits for waiter in flood)
    good = node.log_in()
    node.answer()
    assert good.identity is not None


def test_so_many_of_one_address_wait_for_keys_and_the_others_are_refused() -> None:
    node = TokenNode()
    flood = [node.log_in(f"a.b.{number}") for number in range(AWAITING_KEYS_MAX + 10)]
    for _ in range(AWAITING_KEYS_MAX):
        node.miss_key()
    other = node.log_in("a.b.other", host="10.0.0.2")
    node.miss_key()
    assert other.waits
    node.backend.keys_fetched(False)
    for _ in range(AWAITING_KEYS_MAX):
        node.miss_key()
    assert [len(waiter.refusals) for waiter in [*flood, other]] == [1] * (AWAITING_KEYS_MAX + 11)


def test_no_token_is_verified_for_a_client_that_disconnected() -> None:
    node = TokenNode()
    waiter = node.log_in()
    node.miss_key()
    waiter.gone = True
    node.backend.keys_fetched(True)
    assert node.asked() == []
    assert node.log_in().waits


def test_an_order_never_shows_its_token() -> None:
    node = TokenNode()
    node.log_in()
    assert TOKEN not in repr(node.asked())
