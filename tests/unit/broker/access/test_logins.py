"""Logins: which are accepted, from which address, and how long the answer takes."""

import pytest

from warren.broker.access.backends import SHOWN_NAME_MAX, LoginAttempt, LoginWaiter
from warren.broker.access.credential_checks import QUEUED_CHECKS_MAX, RUNNING_CHECKS_MAX
from warren.broker.access.logins import DELAY_MAX_MS, Logins, is_loopback
from warren.broker.access.passwords import SCRYPT, SHA256, hash_password
from warren.broker.access.users import AccessCatalog
from warren.broker.metadata.access_definitions import UserDefinition
from warren.broker.model.effects import VerifyPassword
from warren.broker.model.identity import Identity
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import Turn

SALT = bytes(range(16))
INVALID = "user 'guest' - invalid credentials"
FAR = "user 'guest' can only connect via localhost"
SLOW_HASH = hash_password(SCRYPT, "guest", SALT)


class Waiter(LoginWaiter):
    """Records its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.gone = False

    def still_waits(self) -> bool:
        return not self.gone

    def login_accepted(self, identity: Identity) -> None:
        self.outcomes.append("")

    def login_refused(self, reason: str) -> None:
        self.outcomes.append(reason)


class LoginNode:
    """The logins of a node with one user, its clock, and its requests to the shell."""

    def __init__(self, settings: BrokerSettings | None = None, password_hash: bytes = b"", name: str = "guest") -> None:
        settings = settings or BrokerSettings()
        self.turn = Turn()
        self.turn.now_ms = 1_000
        self.catalog = AccessCatalog()
        algorithm = settings.password_hashing_module
        self.catalog.add_user(
            UserDefinition(name, password_hash or hash_password(SHA256, "guest", SALT), algorithm, [], {})
        )
        self.logins = Logins(settings, self.turn, self.catalog, b"secret")

    def log_in(
        self, user: str = "guest", password: str = "guest", host: str = "127.0.0.1", external: bool = False
    ) -> Waiter:
        waiter = Waiter()
        self.logins.log_in(LoginAttempt(user, password, host, user if external else "", external), waiter)
        return waiter

    def asked(self) -> list[VerifyPassword]:
        effects = [effect for effect in self.turn.effects if isinstance(effect, VerifyPassword)]
        self.turn.effects = []
        return effects

    def pass_ms(self, milliseconds: int) -> None:
        self.turn.now_ms += milliseconds
        self.turn.fire_timers()


def slow_node() -> LoginNode:
    return LoginNode(BrokerSettings(password_hashing_module=SCRYPT), SLOW_HASH)


def refusal(
    user: str = "guest",
    password: str = "guest",
    host: str = "127.0.0.1",
    external: bool = False,
    settings: BrokerSettings | None = None,
) -> str:
    [outcome] = LoginNode(settings).log_in(user, password, host, external).outcomes
    return outcome


def test_a_user_is_let_in_with_its_password() -> None:
    assert refusal() == ""


@pytest.mark.parametrize("password", ["", "Guest", "guest ", "gues", "\udcff", "gästé"])
def test_a_wrong_password_is_refused(password: str) -> None:
    assert refusal(password=password) == INVALID


@pytest.mark.parametrize("user", ["", "GUEST", "nobody"])
def test_an_unknown_user_is_refused_like_a_wrong_password(user: str) -> None:
    assert refusal(user=user) == f"user '{user}' - invalid credentials"


def test_a_user_without_a_password_cannot_log_in_with_any() -> None:
    node = LoginNode()
    node.catalog.add_user(UserDefinition("guest", b"", SHA256, [], {}))
    assert [node.log_in(password=password).outcomes for password in ("", "guest")] == [[INVALID], []]
    assert node.log_in(external=True).outcomes == [""]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])
def test_loopback_has_many_names(host: str) -> None:
    assert is_loopback(host)
    assert refusal(host=host) == ""


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "192.168.1.1", "::ffff:10.0.0.1", "fe80::1", "::2", "0.0.0.0", "", "localhost", "127.0.0.1.evil"],
)
def test_everything_else_is_far_away(host: str) -> None:
    assert not is_loopback(host)
    assert refusal(host=host) == FAR


def test_the_password_is_judged_before_the_place() -> None:
    assert refusal(password="wrong", host="10.0.0.1") == INVALID


def test_without_loopback_users_every_address_is_accepted() -> None:
    assert refusal(host="10.0.0.1", settings=BrokerSettings(loopback_users=[])) == ""


def test_only_the_named_users_are_bound_to_loopback() -> None:
    assert refusal(host="10.0.0.1", settings=BrokerSettings(loopback_users=["admin"])) == ""


def test_a_verified_certificate_needs_no_password_but_a_known_name() -> None:
    assert refusal(password="", external=True) == ""
    assert refusal(user="stranger", password="", external=True) == "user 'stranger' - invalid credentials"
    assert refusal(password="", host="10.0.0.1", external=True) == FAR


def test_the_node_itself_may_come_from_anywhere() -> None:
    waiter = Waiter()
    LoginNode().logins.log_in(LoginAttempt("guest", "", "", "", True, trusted=True), waiter)
    assert waiter.outcomes == [""]


def test_an_identity_of_another_node_needs_a_backend_that_this_one_has() -> None:
    elsewhere = Identity("ann", "oauth2", "oauth2", scopes=["read:*/*"])
    waiter = Waiter()
    LoginNode().logins.log_in(LoginAttempt("", "", "", "", True, trusted=True, identity=elsewhere), waiter)
    assert waiter.outcomes == ["user 'ann' - invalid credentials"]


def test_refusals_are_delayed_longer_each_time_up_to_a_bound() -> None:
    node = LoginNode()
    waits = []
    for _ in range(12):
        waiter, waited_ms = node.log_in(password="wrong"), 0
        while not waiter.outcomes:
            waited_ms += 100
            node.pass_ms(100)
            assert waited_ms <= DELAY_MAX_MS
        assert waiter.outcomes == [INVALID]
        waits.append(waited_ms)
    assert waits[:5] == [0, 100, 200, 400, 800]
    assert waits[-1] == DELAY_MAX_MS


def test_failed_logins_do_not_delay_a_correct_password() -> None:
    node = LoginNode()
    guesses = [node.log_in(password="wrong") for _ in range(5)]
    assert node.log_in().outcomes == [""]
    assert [len(guess.outcomes) for guess in guesses] == [1, 0, 0, 0, 0]


def test_other_users_and_other_addresses_are_not_slowed() -> None:
    node = LoginNode()
    for _ in range(3):
        node.log_in(password="wrong")
    assert node.log_in(user="other").outcomes == ["user 'other' - invalid credentials"]
    assert node.log_in(password="wrong", host="127.0.0.2").outcomes == [INVALID]


def test_ipv6_addresses_of_one_block_are_slowed_as_one() -> None:
    node = LoginNode()
    node.log_in(password="wrong", host="2001:db8::1")
    assert node.log_in(password="wrong", host="2001:db8::2").outcomes == []
    assert node.log_in(password="wrong", host="2001:db8:0:1::1").outcomes == [INVALID]


def test_of_a_long_name_the_beginning_is_recorded_and_logged() -> None:
    node = LoginNode()
    shown = "u" * SHOWN_NAME_MAX
    assert node.log_in(user=shown + "1" * 45_000).outcomes == [f"user '{shown}' - invalid credentials"]
    # the second failure under what is the same name to the throttle
    assert node.log_in(user=shown + "2" * 45_000).outcomes == []


def test_a_slow_hash_is_computed_outside_and_the_login_waits_for_it() -> None:
    node = slow_node()
    waiter = node.log_in()
    [order] = node.asked()
    assert (order.algorithm, order.password_hash, order.password) == (SCRYPT, SLOW_HASH, "guest")
    assert waiter.outcomes == []
    node.logins.internal.verified(order.ticket, True)
    assert waiter.outcomes == [""]


def test_a_verified_password_is_remembered_until_the_user_changes() -> None:
    node = slow_node()
    node.log_in()
    [order] = node.asked()
    node.logins.internal.verified(order.ticket, True)
    assert node.log_in().outcomes == [""]
    assert node.log_in(password="guess").outcomes == []
    assert len(node.asked()) == 1
    node.logins.internal.forget("guest")
    assert node.log_in().outcomes == []
    assert len(node.asked()) == 1


def test_a_wrong_password_is_not_remembered() -> None:
    node = slow_node()
    first = node.log_in(password="wrong")
    [order] = node.asked()
    node.logins.internal.verified(order.ticket, False)
    assert first.outcomes == [INVALID]
    node.log_in(password="wrong")
    assert len(node.asked()) == 1


def test_logins_with_the_same_password_wait_for_one_answer() -> None:
    node = slow_node()
    waiters = [node.log_in() for _ in range(50)]
    [order] = node.asked()
    node.logins.internal.verified(order.ticket, True)
    assert [waiter.outcomes for waiter in waiters] == [[""]] * 50


def test_few_answers_are_asked_for_at_a_time_and_the_rest_in_order() -> None:
    node = slow_node()
    waiters = [node.log_in(password=f"guess {number}") for number in range(RUNNING_CHECKS_MAX + 2)]
    orders = node.asked()
    assert len(orders) == RUNNING_CHECKS_MAX
    node.logins.internal.verified(orders[0].ticket, False)
    [following] = node.asked()
    assert following.password == f"guess {RUNNING_CHECKS_MAX}"
    assert [len(waiter.outcomes) for waiter in waiters] == [1] + [0] * (RUNNING_CHECKS_MAX + 1)


def test_a_flood_of_guesses_from_one_address_does_not_delay_another() -> None:
    node = slow_node()
    for number in range(QUEUED_CHECKS_MAX + RUNNING_CHECKS_MAX):
        node.log_in(password=f"guess {number}", host="10.0.0.1")
    waiter = node.log_in()
    [first, *_others] = node.asked()
    node.logins.internal.verified(first.ticket, False)
    node.logins.internal.verified(first.ticket + 1, False)
    assert [order.password for order in node.asked()] == [f"guess {RUNNING_CHECKS_MAX}", "guest"]
    assert waiter.outcomes == []


def test_a_flood_of_guesses_from_one_ipv6_block_does_not_delay_another() -> None:
    node = slow_node()
    for number in range(100):
        node.log_in(password=f"guess {number}", host=f"2001:db8::{number + 1:x}")
    waiter = node.log_in(host="2001:db8:0:1::1")
    [first, *_others] = node.asked()
    node.logins.internal.verified(first.ticket, False)
    node.logins.internal.verified(first.ticket + 1, False)
    assert "guest" in [order.password for order in node.asked()]
    assert waiter.outcomes == []


def test_a_flood_of_guesses_does_not_delay_another_user_of_the_same_address() -> None:
    node = slow_node()
    for number in range(QUEUED_CHECKS_MAX + RUNNING_CHECKS_MAX):
        node.log_in(user=f"stranger {number}")
    for number in range(QUEUED_CHECKS_MAX):
        node.log_in(user="guest", password=f"guess {number}")
    node.catalog.add_user(UserDefinition("alice", hash_password(SCRYPT, "alice", SALT), SCRYPT, [], {}))
    waiter = node.log_in(user="alice", password="alice")
    running = node.asked()
    for order in running[:3]:
        node.logins.internal.verified(order.ticket, False)
    following = node.asked()
    # one of each: the strangers, guest, alice
    assert [order.password for order in following] == ["guest", "guess 0", "alice"]
    node.logins.internal.verified(following[-1].ticket, True)
    assert waiter.outcomes == [""]


def test_refusals_of_one_address_are_answered_in_the_order_of_the_logins() -> None:
    node = slow_node()
    strangers = [node.log_in(user=f"stranger {number}") for number in range(RUNNING_CHECKS_MAX + 2)]
    known = node.log_in(password="guess")
    orders = node.asked()
    node.logins.internal.verified(orders.pop(0).ticket, False)
    orders += node.asked()
    node.logins.internal.verified(orders.pop(0).ticket, False)
    [of_known] = node.asked()
    assert of_known.password == "guess"
    node.logins.internal.verified(of_known.ticket, False)
    # the turns of users decided it before strangers that came earlier
    assert known.outcomes == []
    orders += node.asked()
    while orders:
        assert known.outcomes == []
        node.logins.internal.verified(orders.pop(0).ticket, False)
        orders += node.asked()
    assert known.outcomes == [INVALID]
    assert all(len(stranger.outcomes) == 1 for stranger in strangers)


def test_of_one_address_so_many_may_wait_and_the_user_with_the_most_is_refused() -> None:
    node = slow_node()
    count = RUNNING_CHECKS_MAX + QUEUED_CHECKS_MAX
    strangers = [node.log_in(user=f"stranger {number}", host="10.0.0.1") for number in range(count + 1)]
    known = node.log_in(host="10.0.0.1")
    # the last two strangers are not checked
    passed: list[str] = []
    orders = node.asked()
    while orders:
        passed.append(orders[0].password_hash.hex())
        node.logins.internal.verified(orders.pop(0).ticket, passed[-1] == SLOW_HASH.hex())
        orders += node.asked()
    assert len(passed) == count
    assert known.outcomes == [FAR]
    assert [len(stranger.outcomes) for stranger in strangers] == [1] * (count + 1)


def test_a_refusal_takes_a_slow_hash_whichever_hash_the_user_has() -> None:
    node = slow_node()
    node.catalog.add_user(UserDefinition("quick", hash_password(SHA256, "quick", SALT), SHA256, [], {}))
    node.catalog.add_user(UserDefinition("none", b"", "", [], {}))
    assert node.log_in(user="quick", password="quick").outcomes == [""]
    waiters = [node.log_in(user=user, password="guess") for user in ("quick", "none", "guest", "stranger")]
    orders = node.asked()
    assert [(order.algorithm, len(order.password_hash)) for order in orders] == [(SCRYPT, len(SLOW_HASH))] * 4
    for order in orders:
        node.logins.internal.verified(order.ticket, False)
    assert [len(waiter.outcomes) for waiter in waiters] == [1] * 4


def test_a_refusal_takes_a_slow_hash_as_soon_as_one_user_has_one() -> None:
    node = LoginNode()
    assert node.log_in(password="guess").outcomes == [INVALID]
    node.catalog.add_user(UserDefinition("slow", SLOW_HASH, SCRYPT, [], {}))
    waiters = [node.log_in(user=user, password="other") for user in ("guest", "slow", "stranger")]
    assert [waiter.outcomes for waiter in waiters] == [[]] * 3
    assert [order.algorithm for order in node.asked()] == [SCRYPT] * 3


def test_no_hash_is_computed_for_a_client_that_disconnected() -> None:
    node = slow_node()
    waiters = [node.log_in(password=f"guess {number}") for number in range(RUNNING_CHECKS_MAX + 2)]
    waiters[RUNNING_CHECKS_MAX].gone = True
    [first, *_others] = node.asked()
    node.logins.internal.verified(first.ticket, False)
    [following] = node.asked()
    assert following.password == f"guess {RUNNING_CHECKS_MAX + 1}"
    again = node.log_in(password=f"guess {RUNNING_CHECKS_MAX}")
    node.logins.internal.verified(following.ticket, False)
    assert [order.password for order in node.asked()] == [f"guess {RUNNING_CHECKS_MAX}"]
    assert again.outcomes == []


def test_an_unknown_user_costs_the_same_computation() -> None:
    node = slow_node()
    waiter = node.log_in(user="stranger")
    [order] = node.asked()
    assert len(order.password_hash) == len(SLOW_HASH)
    # even if the password matched the hash for unknown users, the user would not exist
    node.logins.internal.verified(order.ticket, True)
    assert waiter.outcomes == ["user 'stranger' - invalid credentials"]


def test_a_password_that_was_changed_meanwhile_is_good_no_more() -> None:
    node = slow_node()
    waiter = node.log_in()
    [order] = node.asked()
    node.catalog.add_user(UserDefinition("guest", hash_password(SCRYPT, "other", SALT), SCRYPT, [], {}))
    node.logins.internal.forget("guest")
    node.logins.internal.verified(order.ticket, True)
    assert waiter.outcomes == [INVALID]
    assert node.log_in().outcomes == []


def test_an_order_never_shows_its_password() -> None:
    node = slow_node()
    node.log_in(password="open sesame")
    [order] = node.asked()
    assert "sesame" not in repr(order)
