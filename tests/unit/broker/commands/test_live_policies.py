"""Policies that are set, changed and cleared while queues and exchanges are in use."""

import pytest

from tests.support.core_driver import Client, Core, published
from tests.unit.broker.refusals import clear_policy, exchange_of, queue_of, refusal, set_policy
from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.model.events import CommandBatch
from warren.broker.policies.policies import Policy
from warren.wire.methods import BasicGet, BasicGetOk, BasicReject, QueueDeclare


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def client(core: Core) -> Client:
    return core.client()


def ready(core: Core, queue: str) -> int:
    return queue_of(core, queue).ready_count()


def drained(client: Client, queue: str) -> list[bytes]:
    """Everything in a queue, taken out."""
    bodies = []
    while True:
        client.say(BasicGet(queue=queue, no_ack=True))
        (heard,) = client.heard()
        if not isinstance(heard.method, BasicGetOk):
            return bodies
        bodies.append(heard.body)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# -- effective policies


def test_a_policy_counts_for_queues_that_are_there_and_for_new_ones(core: Core, client: Client) -> None:
    client.declare("orders.1")
    set_policy(core, "^orders", {"max-length": 5})
    client.declare("orders.2")
    client.declare("other")
    for name in ("orders.1", "orders.2"):
        queue = queue_of(core, name)
        assert (queue.policy, queue.operator_policy) == ("p", "")
        assert queue.effective_policy == {"max-length": 5}
    assert queue_of(core, "other").policy == ""
    assert queue_of(core, "other").effective_policy == {}


def test_queues_without_arguments_share_their_settings(core: Core, client: Client) -> None:
    client.declare("a")
    set_policy(core, "", {"max-length": 5})
    client.declare("b")
    assert queue_of(core, "a").settings is queue_of(core, "b").settings


def test_a_policy_with_a_higher_priority_takes_over_and_gives_back(core: Core, client: Client) -> None:
    client.declare("q")
    set_policy(core, "q", {"max-length": 5}, name="low")
    set_policy(core, "q", {"expires": 5000}, name="high", priority=1)
    assert queue_of(core, "q").effective_policy == {"expires": 5000}
    clear_policy(core, "high")
    assert queue_of(core, "q").policy == "low"
    assert queue_of(core, "q").effective_policy == {"max-length": 5}
    clear_policy(core, "low")
    assert queue_of(core, "q").effective_policy == {}
    assert queue_of(core, "q").settings.max_length == -1


def test_a_policy_with_a_new_pattern_leaves_queues_that_no_longer_match(core: Core, client: Client) -> None:
    client.declare("a")
    client.declare("b")
    set_policy(core, "a", {"max-length": 5})
    set_policy(core, "b", {"max-length": 5})
    assert [queue_of(core, name).policy for name in ("a", "b")] == ["", "p"]


def test_an_operator_policy_lowers_limits_of_a_policy_and_an_argument(core: Core, client: Client) -> None:
    client.declare("q", {"x-max-length": 9, "x-message-ttl": 100})
    set_policy(core, "q", {"max-length": 7, "message-ttl": 500})
    set_policy(core, "q", {"max-length": 3}, name="ceiling", operator=True)
    queue = queue_of(core, "q")
    assert (queue.policy, queue.operator_policy) == ("p", "ceiling")
    assert queue.effective_policy == {"max-length": 3, "message-ttl": 500}
    assert (queue.settings.max_length, queue.settings.message_ttl_ms) == (3, 100)
    clear_policy(core, "ceiling", operator=True)
    assert queue_of(core, "q").settings.max_length == 7


def test_exclusive_queues_follow_policies(core: Core, client: Client) -> None:
    client.say(QueueDeclare(queue="mine", exclusive=True))
    set_policy(core, "mine", {"max-length": 1, "ha-mode": "all"})
    assert queue_of(core, "mine").settings.max_length == 1


def test_setting_a_policy_again_unchanged_reconfigures_nothing(core: Core, client: Client) -> None:
    client.declare("q")
    set_policy(core, "q", {"expires": 1000})
    settings = queue_of(core, "q").settings
    set_policy(core, "q$", {"expires": 1000}, name="other", priority=1)
    assert queue_of(core, "q").policy == "other"
    assert queue_of(core, "q").settings is settings


def test_a_file_of_policies_counts_as_a_whole(core: Core, client: Client) -> None:
    client.declare("q")
    good = SetPolicy(Policy("/", "good", "q", "all", {"max-length": 1}), False)
    bad = SetPolicy(Policy("/", "bad", "q", "all", {"max-length": -1}), False)
    kind, reason = refusal(core, CommandBatch([good, bad]))
    assert (kind, reason) == ("bad_request", "Validation failed\n\n-1 is not a valid maximum length\n")
    assert queue_of(core, "q").policy == ""
    core.command(CommandBatch([good]))
    assert queue_of(core, "q").policy == "good"


def test_invalid_policies_are_refused(core: Core) -> None:
    elsewhere = Policy("nowhere", "p", "q", "all", {"max-length": 1})
    assert refusal(core, SetPolicy(elsewhere, False)) == ("not_found", "vhost_not_found")
    assert refusal(core, ClearPolicy("/", "p", False)) == ("not_found", "Parameter does not exist")
    set_policy(core, "q", {"max-length": 1})
    assert refusal(core, ClearPolicy("/", "p", True)) == ("not_found", "Parameter does not exist")


# -- the effect of a change on messages


def test_a_shorter_limit_drops_heads_at_once_and_keeps_the_rest(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", *numbered(10))
    set_policy(core, "q", {"max-length": 3})
    assert drained(client, "q") == [b"7", b"8", b"9"]


def test_heads_beyond_a_new_limit_are_dead_lettered(core: Core, client: Client) -> None:
    client.declare("q")
    client.declare("dead")
    client.publish("q", *numbered(5))
    set_policy(core, "^q$", {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    assert drained(client, "dead") == [b"0", b"1", b"2"]
    assert drained(client, "q") == [b"3", b"4"]


def test_a_queue_that_rejects_publishes_keeps_its_messages(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", *numbered(5))
    client.confirm()
    set_policy(core, "q", {"max-length": 1, "overflow": "reject-publish"})
    client.publish("q", b"more")
    assert client.names() == ["basic.nack"]
    assert drained(client, "q") == numbered(5)


def test_a_limit_counts_for_bytes_too(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", b"aaaa", b"bbbb", b"cc")
    set_policy(core, "q", {"max-length-bytes": 6})
    assert drained(client, "q") == [b"bbbb", b"cc"]


def test_unacked_messages_count_for_no_limit_until_they_are_requeued(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", *numbered(3))
    client.say(BasicGet(queue="q"))
    client.heard()
    set_policy(core, "q", {"max-length": 2})
    assert ready(core, "q") == 2
    client.say(BasicReject(delivery_tag=1, requeue=True))
    assert drained(client, "q") == [b"1", b"2"]


def test_a_message_ttl_counts_for_later_messages(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", b"old")
    set_policy(core, "q", {"message-ttl": 1000})
    core.pass_ms(2000)
    assert drained(client, "q") == [b"old"]
    client.publish("q", b"new")
    core.pass_ms(2000)
    assert ready(core, "q") == 0


def test_a_lifetime_that_was_given_stays_when_the_policy_goes(core: Core, client: Client) -> None:
    client.declare("q")
    set_policy(core, "q", {"message-ttl": 1000})
    client.publish("q", b"m")
    clear_policy(core)
    core.pass_ms(999)
    assert ready(core, "q") == 1
    core.pass_ms(1)
    assert ready(core, "q") == 0


def test_a_dead_letter_goes_where_the_policy_says_when_it_dies(core: Core, client: Client) -> None:
    for name in ("q", "first", "second"):
        client.declare(name)
    set_policy(core, "^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "first"})
    client.publish("q", b"a", b"b")
    client.say(BasicGet(queue="q"), BasicReject(delivery_tag=1, requeue=False))
    set_policy(core, "^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "second"})
    client.say(BasicGet(queue="q"), BasicReject(delivery_tag=2, requeue=False))
    client.heard()
    assert drained(client, "first") == [b"a"]
    assert drained(client, "second") == [b"b"]


def test_idle_time_counts_from_the_moment_the_policy_does(core: Core, client: Client) -> None:
    client.declare("q")
    core.pass_ms(5000)
    set_policy(core, "q", {"expires": 1000})
    core.pass_ms(999)
    assert "q" in core.broker.vhosts["/"].topology.queues
    core.pass_ms(1)
    assert "q" not in core.broker.vhosts["/"].topology.queues


def test_a_queue_lives_on_when_its_expiry_is_cleared(core: Core, client: Client) -> None:
    client.declare("q")
    set_policy(core, "q", {"expires": 1000})
    clear_policy(core)
    core.pass_ms(10_000)
    assert "q" in core.broker.vhosts["/"].topology.queues


def test_deliveries_are_counted_against_a_limit_by_policy(core: Core, client: Client) -> None:
    client.declare("q")
    client.publish("q", b"m")
    set_policy(core, "q", {"delivery-limit": 1})
    for tag in (1, 2):
        client.say(BasicGet(queue="q"), BasicReject(delivery_tag=tag, requeue=True))
    assert ready(core, "q") == 0


# -- exchanges


def test_unroutable_messages_go_to_the_alternate_exchange_of_a_policy(core: Core, client: Client) -> None:
    client.declare("rest")
    client.declare_exchange("spare", "fanout")
    client.declare_exchange("news", "direct")
    client.bind("rest", "spare")
    # the route is cached from the first publish on
    client.publish("unbound", b"lost", exchange="news")
    set_policy(core, "^news$", {"alternate-exchange": "spare"}, apply_to="exchanges")
    client.publish("unbound", b"kept", exchange="news")
    clear_policy(core)
    client.publish("unbound", b"lost again", exchange="news")
    assert drained(client, "rest") == [b"kept"]


def test_an_alternate_exchange_by_argument_comes_first(core: Core, client: Client) -> None:
    client.declare_exchange("x", "direct", {"alternate-exchange": "mine"})
    set_policy(core, "x", {"alternate-exchange": "theirs"})
    assert exchange_of(core, "x").alternate == "mine"
    assert exchange_of(core, "x").policy == "p"
    clear_policy(core)
    assert exchange_of(core, "x").alternate == "mine"


def test_every_exchange_follows_policies_the_predeclared_ones_too(core: Core, client: Client) -> None:
    set_policy(core, "", {"alternate-exchange": "amq.fanout"})
    client.declare_exchange("later", "topic")
    for name in ("", "amq.direct", "later"):
        exchange = exchange_of(core, name)
        assert (exchange.policy, exchange.operator_policy, exchange.alternate) == ("p", "", "amq.fanout")
        assert exchange.effective_policy == {"alternate-exchange": "amq.fanout"}


def test_only_a_change_of_routes_moves_the_topologys_version(core: Core, client: Client) -> None:
    topology = core.broker.vhosts["/"].topology
    client.declare("q")
    version = topology.version
    set_policy(core, "", {"max-length": 1})
    assert topology.version == version
    set_policy(core, "^amq.direct$", {"alternate-exchange": "a"}, name="other", priority=1)
    assert topology.version > version


def test_a_policy_for_queues_leaves_exchanges_alone(core: Core) -> None:
    set_policy(core, "", {"alternate-exchange": "a"}, apply_to="queues")
    assert exchange_of(core, "amq.direct").alternate == ""


def test_consumers_get_waiting_messages_before_a_limit_drops_them(core: Core, client: Client) -> None:
    client.declare("q")
    client.consume("q", no_ack=True)
    client.heard()
    client.read(published("q", b"1") + published("q", b"2"))
    set_policy(core, "q", {"max-length": 0})
    assert client.bodies() == [b"1", b"2"]
