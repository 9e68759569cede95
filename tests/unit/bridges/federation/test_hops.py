"""How far messages and bindings go."""

from dataclasses import replace

from warren.bridges.federation.headers import may_be_forwarded, upstream_binding_arguments
from warren.bridges.federation.upstream_topology import (
    ExchangeLinkSpec,
    binding_differences,
    internal_exchange_name,
    link_id,
    link_key,
    upstream_bindings,
    upstream_queue_name,
)
from warren.bridges.federation.upstreams import FederationUpstream
from warren.bridges.host import LocalBinding
from warren.wire.field_tables import Table

HERE: Table = {"cluster-name": "here", "vhost": "/", "exchange": "/:fx A"}


def hop(cluster: str, vhost: str = "/", **more: object) -> dict[str, object]:
    return {"cluster-name": cluster, "vhost": vhost, **more}


def test_a_message_without_a_past_may_come() -> None:
    assert may_be_forwarded(None, 1, "here", "/")


def test_a_message_has_as_many_hops_as_allowed() -> None:
    assert may_be_forwarded([hop("a")], 2, "here", "/")
    assert not may_be_forwarded([hop("a"), hop("b")], 2, "here", "/")


def test_a_message_does_not_come_back_to_a_broker_it_was_at() -> None:
    assert not may_be_forwarded([hop("a"), hop("here")], 9, "here", "/")
    assert may_be_forwarded([hop("a"), hop("here", "other")], 9, "here", "/")
    assert may_be_forwarded(["not a table"], 9, "here", "/")


def test_a_binding_of_this_broker_has_its_origin_and_hop_limit() -> None:
    assert upstream_binding_arguments({"x-match": "all"}, 2, "there", "/", HERE) == {
        "x-match": "all",
        "x-bound-from": [{**HERE, "hops": 2}],
    }


def test_a_binding_that_came_from_further_counts_down_from_the_most_modest_link() -> None:
    came = hop("c", hops=2)
    assert upstream_binding_arguments({"x-bound-from": [came]}, 5, "there", "/", HERE) == {
        "x-bound-from": [{**HERE, "hops": 1}, came]
    }
    assert upstream_binding_arguments({"x-bound-from": [hop("c", hops=9)]}, 3, "there", "/", HERE) == {
        "x-bound-from": [{**HERE, "hops": 3}, hop("c", hops=9)]
    }


def test_a_binding_ends_where_its_hops_do() -> None:
    assert upstream_binding_arguments({"x-bound-from": [hop("c", hops=1)]}, 5, "there", "/", HERE) is None


def test_a_binding_does_not_go_back_to_a_broker_it_was_at() -> None:
    assert upstream_binding_arguments({"x-bound-from": [hop("there", hops=9)]}, 9, "there", "/", HERE) is None


def test_a_binding_with_nonsense_for_a_past_goes_no_further() -> None:
    assert upstream_binding_arguments({"x-bound-from": []}, 9, "there", "/", HERE) is None
    assert upstream_binding_arguments({"x-bound-from": ["x"]}, 9, "there", "/", HERE) is None


def plan(max_hops: int = 1) -> ExchangeLinkSpec:
    upstream = FederationUpstream("up", ("amqp://far",), "fx", "fx", "tag", max_hops=max_hops)
    return ExchangeLinkSpec("/", "fx", "topic", upstream, "/", "here", "a link")


def binding(key: str, destination: str, **arguments: object) -> LocalBinding:
    return LocalBinding(key, dict(arguments), False, destination)


def test_bindings_of_several_queues_that_are_the_same_are_one_upstream() -> None:
    wanted = upstream_bindings(
        [binding("a.*", "one"), binding("a.*", "two"), binding("b", "one")], plan(), "there", "A"
    )
    assert [key for key, _ in wanted.values()] == ["a.*", "b"]
    assert upstream_bindings([binding("a.*", "two")], plan(), "there", "A").items() <= wanted.items()


def test_bindings_with_other_arguments_are_others() -> None:
    bindings = [binding("", "one", colour="red"), binding("", "one", colour="blue")]
    assert len(upstream_bindings(bindings, plan(), "there", "A")) == 2


def test_only_differing_bindings_are_bound_and_unbound() -> None:
    made = upstream_bindings([binding("stays", "q"), binding("goes", "q")], plan(), "there", "A")
    wanted = upstream_bindings([binding("stays", "q"), binding("comes", "q")], plan(), "there", "A")
    missing, surplus = binding_differences(made, wanted)
    assert ([key for key, _ in missing], [key for key, _ in surplus]) == (["comes"], ["goes"])


def test_the_queue_upstream_is_called_as_rabbitmq_calls_it() -> None:
    assert upstream_queue_name("fx", "/", "here", "/", "fx") == "federation: fx -> here"
    assert upstream_queue_name("fx", "/", "here", "/", "mine") == "federation: fx -> here:mine"
    assert upstream_queue_name("fx", "/", "here", "v", "fx") == "federation: fx -> here:v:fx"


def test_two_upstreams_have_one_queue_and_internal_exchanges_of_their_own() -> None:
    one, two = (replace(plan(), upstream=replace(plan().upstream, name=name)) for name in ("one", "two"))
    assert one.queue == two.queue
    assert len({each.internal_exchange(suffix) for each in (one, two) for suffix in "AB"}) == 4


def test_an_internal_exchange_has_a_name_that_amqp_has_room_for_however_long_that_of_the_queue_is() -> None:
    names = [internal_exchange_name("q" * 250, link, suffix) for link in ("0a1b2c3d", "4e5f6071") for suffix in "AB"]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 255
    assert internal_exchange_name("q" * 244, "0a1b2c3d", "A") == "q" * 244 + " 0a1b2c3d A"


def test_links_with_any_names_have_distinct_keys() -> None:
    assert link_key("exchange", "a/b", "c", "up", "x") != link_key("exchange", "a", "b/c", "up", "x")
    assert len(link_id(link_key("queue", "/", "q", "up", "q"))) == 8
