"""Changes of users, permissions and limits, and their effect on clients."""

import pytest

from tests.support.core_driver import CAPABLE, Core
from warren.broker.access.passwords import SCRYPT, SHA256, hash_password
from warren.broker.commands.requests import (
    Authenticate,
    ClearPermission,
    ClearTopicPermission,
    ClearUserLimits,
    DeleteUser,
    PutUser,
    PutVhost,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
)
from warren.broker.model.events import Command, CommandBatch, CommandReceived
from warren.broker.model.identity import Identity
from warren.broker.model.settings import BrokerSettings
from warren.errors import CommandRefused
from warren.wire.methods import ChannelOpen, ConnectionClose, ConnectionOpen, ConnectionTuneOk, Method

INVALID = "user 'u' - invalid credentials"


def put_user(name: str = "u", password: str = "", tags: tuple[str, ...] = ()) -> PutUser:
    return PutUser(name, hash_password(SHA256, password or name, b"salt"), SHA256, list(tags))


@pytest.fixture
def core() -> Core:
    core = Core()
    core.command(put_user())
    core.command(SetPermission("u", "/", ".*", ".*", ".*"))
    return core


def refusal(core: Core, command: Command) -> tuple[str, str]:
    before = (dict(core.broker.access.users), dict(core.broker.access.permissions), list(core.broker.vhosts))
    with pytest.raises(CommandRefused) as refused:
        core.command(command)
    assert (core.broker.access.users, core.broker.access.permissions, list(core.broker.vhosts)) == before
    return refused.value.kind, refused.value.reason


def closed_with(methods: list[Method]) -> tuple[int, str]:
    [close] = [method for method in methods if isinstance(method, ConnectionClose)]
    return close.reply_code, close.reply_text


def test_a_user_can_be_made_and_changed_and_keeps_its_limits(core: Core) -> None:
    assert core.command(put_user("new", tags=("monitoring",))) is True
    core.command(SetUserLimits("new", {"max-channels": 3}))
    assert core.command(put_user("new", "other", ("policymaker",))) is False
    user = core.broker.access.users["new"]
    assert (user.tags, user.limits) == (["policymaker"], {"max-channels": 3})
    core.command(Authenticate("new", "other", "127.0.0.1"))
    assert refusal(core, Authenticate("new", "new", "127.0.0.1")) == (
        "not_authorised",
        "user 'new' - invalid credentials",
    )


def test_the_default_user_is_an_administrator_of_the_default_virtual_host() -> None:
    core = Core(BrokerSettings(default_user="alice", default_pass="pw", default_vhost="v", default_read="^r"))
    assert [(user.name, user.tags) for user in core.broker.access.users.values()] == [("alice", ["administrator"])]
    [permission] = core.broker.access.permissions.values()
    assert (permission.user, permission.vhost, permission.configure, permission.read) == ("alice", "v", ".*", "^r")
    core.command(Authenticate("alice", "pw", "10.0.0.1"))


def test_deleting_a_user_takes_its_permissions_and_closes_its_connections(core: Core) -> None:
    core.command(SetTopicPermission("u", "/", "amq.topic", "", ""))
    guest, client = core.client(), core.client(user="u")
    core.command(DeleteUser("u"))
    assert closed_with(client.methods()) == (320, "CONNECTION_FORCED - user 'u' is deleted")
    assert guest.names() == []
    access = core.broker.access
    assert ("u" in access.users, ("u", "/") in access.permissions, access.topic_permissions) == (False, False, {})
    assert refusal(core, Authenticate("u", "u", "127.0.0.1")) == ("not_authorised", INVALID)
    assert refusal(core, DeleteUser("u")) == ("not_found", "Not Found")


def test_a_user_deleted_during_its_login_is_refused(core: Core) -> None:
    client = core.connect()
    client.log_in("u", "u")
    client.say(ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=0), channel=0)
    core.command(DeleteUser("u"))
    client.say(ConnectionOpen(virtual_host="/"), channel=0)
    assert closed_with(client.methods()) == (530, "NOT_ALLOWED - access to vhost '/' refused for user 'u'")


def test_a_user_without_permissions_in_a_virtual_host_is_refused(core: Core) -> None:
    core.command(PutVhost("v", "", [], None))
    client = core.connect()
    assert closed_with([heard.method for heard in client.shake_hands(user="u", vhost="v")]) == (
        530,
        "NOT_ALLOWED - access to vhost 'v' refused for user 'u'",
    )
    core.command(SetPermission("u", "v", "^$", "^$", "^$"))
    assert core.connect().shake_hands(user="u", vhost="v")[-1].method.name == "connection.open-ok"


@pytest.mark.parametrize(("vhost", "user"), [("absent", "u"), ("/", "absent")])
def test_permissions_are_of_users_and_virtual_hosts_that_exist(core: Core, vhost: str, user: str) -> None:
    expected = ("bad_request", "vhost_or_user_not_found")
    assert refusal(core, SetPermission(user, vhost, "", "", "")) == expected
    assert refusal(core, SetTopicPermission(user, vhost, "amq.topic", "", "")) == expected
    assert refusal(core, ClearPermission(user, vhost)) == ("not_found", "Not Found")
    assert refusal(core, ClearTopicPermission(user, vhost, None)) == ("not_found", "Not Found")


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_broken_expression_is_refused(core: Core, broken: int) -> None:
    expressions = [".*", ".*", ".*"]
    expressions[broken] = "["
    kind, reason = refusal(core, SetPermission("u", "/", *expressions))
    assert kind == "bad_request"
    assert "missing terminating ] for character class" in reason
    if broken:
        kind, reason = refusal(core, SetTopicPermission("u", "/", "amq.topic", *expressions[1:]))
        assert (kind, reason[:15]) == ("bad_request", "invalid_regexp:")


def test_topic_permissions_are_cleared_one_by_one_or_together(core: Core) -> None:
    for exchange in ("a", "b", "c"):
        assert core.command(SetTopicPermission("u", "/", exchange, "w", "r")) is True
    assert core.command(SetTopicPermission("u", "/", "a", "w", "other")) is False
    core.command(ClearTopicPermission("u", "/", "a"))
    assert list(core.broker.access.topic_permissions) == [("u", "/", "b"), ("u", "/", "c")]
    core.command(ClearTopicPermission("u", "/", None))
    assert core.broker.access.topic_permissions == {}


def test_commands_that_belong_together_may_build_on_one_another(core: Core) -> None:
    together: list[Command] = [
        PutVhost("v", "", [], None),
        put_user("new"),
        SetPermission("new", "v", "", "", ""),
        SetUserLimits("new", {"max-connections": 1}),
    ]
    broken = SetPermission("new", "v", "[", "", "")
    refusal(core, CommandBatch([*together, broken]))
    assert core.command(CommandBatch(together)) == [True, True, True, None]


def test_a_user_has_only_so_many_connections(core: Core) -> None:
    core.command(SetUserLimits("u", {"max-connections": 1}))
    first = core.client(user="u")
    text = "NOT_ALLOWED - connection refused for user 'u': user connection limit (1) is reached"
    assert closed_with([heard.method for heard in core.connect().shake_hands(user="u")]) == (530, text)
    first.lose()
    core.client(user="u").lose()
    core.command(SetUserLimits("u", {"max-connections": 0}))
    assert closed_with([heard.method for heard in core.connect().shake_hands(user="u")])[0] == 530
    core.command(ClearUserLimits("u", ["max-connections"]))
    core.client(user="u")
    core.client(user="u")
    assert core.broker.access.users["u"].limits == {}


def test_a_user_has_only_so_many_channels_on_all_its_connections(core: Core) -> None:
    core.command(SetUserLimits("u", {"max-channels": 3}))
    one, other = core.client(user="u", channels=2), core.client(user="u", channels=1)
    one.say(ChannelOpen(), channel=7)
    text = "NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of (3)"
    assert closed_with(one.methods()) == (530, text)
    other.say(ChannelOpen(), channel=2)
    assert other.names() == ["channel.open-ok"]


def test_limits_that_make_no_sense_are_refused(core: Core) -> None:
    assert refusal(core, SetUserLimits("absent", {}))[0] == "bad_request"
    assert refusal(core, SetUserLimits("u", {"max-queues": 1}))[0] == "bad_request"
    assert refusal(core, ClearUserLimits("absent", None))[0] == "bad_request"


def test_input_after_a_login_waits_for_its_slow_hash() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    client = core.connect()
    client.log_in("guest", "guest")
    assert client.names() == ["connection.start"]
    assert core.unread == {client.number}
    client.say(ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=0), channel=0)
    client.say(ConnectionOpen(virtual_host="/"), channel=0)
    core.verify_passwords()
    core.settle()
    assert client.names() == ["connection.tune", "connection.open-ok"]
    assert core.unread == set()
    assert core.connect().shake_hands()[-1].method.name == "connection.open-ok"
    assert core.asked == []


def test_a_verified_password_stays_so_until_there_is_another_one() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    login = Authenticate("guest", "guest", "127.0.0.1")
    core.turn(CommandReceived(1, login))
    core.verify_passwords()
    core.command(SetUserLimits("guest", {"max-channels": 5}))
    core.command(login)
    core.command(PutUser("guest", hash_password(SCRYPT, "other", b"salt" * 4), SCRYPT, []))
    core.turn(CommandReceived(9, login))
    core.verify_passwords()
    assert core.answers[9].refusal == "not_authorised"


def test_a_refused_login_with_a_slow_hash_is_answered() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    client = core.connect()
    client.log_in("guest", "wrong")
    core.verify_passwords()
    assert closed_with(client.methods())[0] == 403
    assert core.unread == set()


def test_a_client_that_does_not_understand_a_refusal_is_disconnected() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    client = core.connect()
    client.log_in("guest", "wrong", capabilities={})
    core.verify_passwords()
    assert client.names() == ["connection.start"]
    core.pass_ms(3_000)
    assert core.closed == [client.number]


def test_a_client_that_went_while_its_password_was_looked_at_is_not_missed() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    client = core.connect()
    client.log_in("guest", "guest")
    client.lose()
    core.verify_passwords()
    late = core.connect()
    late.log_in("guest", "wrong", CAPABLE)
    core.pass_ms(10_000)
    assert core.closed == [late.number]
    core.verify_passwords()


def test_an_operator_waits_for_a_slow_hash_like_a_client() -> None:
    core = Core(BrokerSettings(password_hashing_module=SCRYPT))
    core.turn(CommandReceived(1, Authenticate("guest", "guest", "127.0.0.1")))
    assert core.answers == {}
    core.verify_passwords()
    assert core.answers[1].refusal == ""
    identity = core.command(Authenticate("guest", "guest", "127.0.0.1"))
    assert isinstance(identity, Identity)
    assert (identity.name, identity.authn, identity.authz) == ("guest", "internal", "internal")


def test_refused_logins_are_noted_without_their_passwords(core: Core) -> None:
    refusal(core, Authenticate("u", "open sesame", "127.0.0.1"))
    core.connect().log_in("u", "open sesame")
    notes = [note for note in core.notes if note.name == "login.refused"]
    assert [note.fields["reason"] for note in notes] == [INVALID]
    core.pass_ms(100)
    notes = [note for note in core.notes if note.name == "login.refused"]
    assert [note.fields["reason"] for note in notes] == [INVALID, INVALID]
    assert "sesame" not in repr(core.notes)
