"""The upstreams that a policy selects, and their settings."""

import pytest

from warren.bridges.federation.upstreams import FederationUpstream, FederationUpstreams
from warren.bridges.host import FederatedObject
from warren.broker.policies.parameters import Parameter
from warren.wire.field_tables import Table

URI = "amqp://user:secret@far:5672/there"


def upstream(name: str, vhost: str = "/", **said: object) -> Parameter:
    value = {"uri": URI, **{key.replace("_", "-"): each for key, each in said.items()}}
    return Parameter(vhost, "federation-upstream", name, value)


def upstream_set(name: str, *elements: object, vhost: str = "/", definer: str | None = "") -> Parameter:
    return Parameter(vhost, "federation-upstream-set", name, list(elements), definer)


def exchange(**policy: object) -> FederatedObject:
    definition: Table = {key.replace("_", "-"): each for key, each in policy.items()}
    return FederatedObject("exchange", "/", "orders", "a policy", definition, type="topic")


def names(found: list[FederationUpstream]) -> list[str]:
    return [each.name for each in found]


def test_an_upstream_that_says_nothing_else_has_rabbitmqs_defaults() -> None:
    [found] = FederationUpstreams([upstream("up")], []).of(exchange(federation_upstream="up"))
    assert found == FederationUpstream(
        name="up",
        uris=(URI,),
        exchange="orders",
        queue="orders",
        consumer_tag="federation-link-up",
        prefetch=1000,
        reconnect_delay_s=5.0,
        max_hops=1,
        expires_ms=None,
        message_ttl_ms=None,
        trust_user_id=False,
        ack_mode="on-confirm",
        bind_nowait=False,
        keeps_resources=False,
    )


def test_everything_an_upstream_says_counts() -> None:
    said = upstream(
        "up",
        uri=[URI, "amqp://other"],
        exchange="theirs",
        queue="their-queue",
        consumer_tag="me",
        prefetch_count=7,
        reconnect_delay=0.5,
        max_hops=3,
        expires=60000,
        message_ttl=0,
        trust_user_id=True,
        ack_mode="no-ack",
        bind_nowait=True,
        resource_cleanup_mode="never",
    )
    [found] = FederationUpstreams([said], []).of(exchange(federation_upstream="up"))
    assert found == FederationUpstream(
        "up", (URI, "amqp://other"), "theirs", "their-queue", "me", 7, 0.5, 3, 60000, 0, True, "no-ack", True, True
    )


def test_the_set_all_has_every_upstream_of_the_virtual_host() -> None:
    known = FederationUpstreams([upstream("b"), upstream("a"), upstream("c", vhost="other")], [])
    assert names(known.of(exchange(federation_upstream_set="all"))) == ["a", "b"]


def test_a_pattern_means_the_upstreams_it_fits_anywhere() -> None:
    known = FederationUpstreams([upstream("berlin-1"), upstream("paris-1"), upstream("berlin-2")], [])
    assert names(known.of(exchange(federation_upstream_pattern="berlin"))) == ["berlin-1", "berlin-2"]


def test_an_element_of_a_set_may_say_otherwise_than_its_upstream() -> None:
    chosen = upstream_set("chosen", {"upstream": "up", "max-hops": 5, "exchange": "renamed"})
    [found] = FederationUpstreams([upstream("up", max_hops=2)], [chosen]).of(exchange(federation_upstream_set="chosen"))
    assert (found.max_hops, found.exchange) == (5, "renamed")


@pytest.mark.parametrize("definer", ["pol", None])
@pytest.mark.parametrize("element", [{"queue": "secret"}, {"exchange": "secret"}, {"trust-user-id": True}])
def test_a_set_of_another_user_does_not_widen_what_an_upstream_of_this_broker_may_do(
    element: dict[str, object], definer: str | None
) -> None:
    local = upstream("up", uri="amqp:///there", queue="public", exchange="public")
    chosen = upstream_set("chosen", {"upstream": "up", **element}, definer=definer)
    known = FederationUpstreams([local], [chosen])
    federated = exchange(federation_upstream_set="chosen")
    assert known.of(federated) == []
    [(name, sentence)] = known.missing(federated)
    [changed] = element
    assert (name, sentence.split(":")[0]) == ("up", f"the upstream set 'chosen' changes {changed} of the upstream 'up'")


def test_a_set_of_another_user_may_name_other_objects_of_another_broker_but_not_trust_it() -> None:
    federated = exchange(federation_upstream_set="chosen")
    renamed = upstream_set("chosen", {"upstream": "up", "exchange": "theirs"}, definer="pol")
    [found] = FederationUpstreams([upstream("up")], [renamed]).of(federated)
    assert found.exchange == "theirs"
    trusting = upstream_set("chosen", {"upstream": "up", "trust-user-id": True}, definer="pol")
    assert FederationUpstreams([upstream("up")], [trusting]).of(federated) == []


def test_the_definer_of_an_upstream_and_administrators_may_override_it_in_a_set() -> None:
    federated = exchange(federation_upstream_set="chosen")
    local = upstream("up", uri="amqp:///there", queue="public")
    local.definer = "pol"
    for definer in ("pol", "adm"):
        chosen = upstream_set("chosen", {"upstream": "up", "queue": "other"}, definer=definer)
        known = FederationUpstreams([local], [chosen], lambda user: user == "adm")
        assert [each.queue for each in known.of(federated)] == ["other"]
        assert known.missing(federated) == []


def test_a_missing_upstream_of_a_set_is_left_out_and_logged() -> None:
    known = FederationUpstreams([upstream("up")], [upstream_set("both", {"upstream": "up"}, {"upstream": "gone"})])
    federated = exchange(federation_upstream_set="both")
    assert names(known.of(federated)) == ["up"]
    assert known.missing(federated) == [
        (
            "gone",
            "the upstream set 'both' names the upstream 'gone', which virtual host '/' does not have: "
            "set the parameter federation-upstream of that name",
        )
    ]


def test_a_missing_upstream_or_set_is_reported() -> None:
    known = FederationUpstreams([upstream("up", vhost="other")], [])
    [(name, sentence)] = known.missing(exchange(federation_upstream="up"))
    assert (name, sentence.split(":")[0]) == (
        "up",
        "the policy names the upstream 'up', which virtual host '/' does not have",
    )
    [(name, sentence)] = known.missing(exchange(federation_upstream_set="none"))
    assert (name, sentence.split(":")[0]) == (
        "none",
        "the policy names the upstream set 'none', which virtual host '/' does not have",
    )
    assert known.of(exchange(federation_upstream_set="none")) == []


def test_nothing_is_missing_where_nothing_is_named() -> None:
    none = FederationUpstreams([], [])
    assert none.missing(exchange(federation_upstream_set="all")) == []
    assert none.missing(exchange(federation_upstream_pattern="x")) == []


def test_the_uri_that_is_shown_has_no_password() -> None:
    [found] = FederationUpstreams([upstream("up")], []).of(exchange(federation_upstream="up"))
    assert found.shown_uri == "amqp://far:5672/there"
