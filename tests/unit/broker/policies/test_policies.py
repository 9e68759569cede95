"""Which policy is effective for a queue, and how two policies are merged."""

from warren.broker.policies.policies import NO_EFFECTIVE_POLICY, Policies, Policy, merged_definition
from warren.wire.field_tables import Table


def policies(*given: Policy) -> Policies:
    made = Policies()
    for policy in given:
        made.set_policy(policy, False)
    return made


def policy(name: str, pattern: str = "", apply_to: str = "all", priority: int = 0, **definition: int) -> Policy:
    table: Table = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy("/", name, pattern, apply_to, table or {"max-length": 1}, priority)


def test_nothing_is_in_force_without_policies() -> None:
    assert Policies().for_queue("/", "q") is NO_EFFECTIVE_POLICY
    assert Policies().for_exchange("/", "x") is NO_EFFECTIVE_POLICY


def test_the_highest_priority_counts_and_nothing_of_the_others() -> None:
    made = policies(policy("low", priority=1, expires=5), policy("high", priority=2, max_length=3))
    effective = made.for_queue("/", "q")
    assert (effective.policy, effective.definition) == ("high", {"max-length": 3})


def test_among_equals_the_first_name_counts() -> None:
    made = policies(policy("b"), policy("a"), policy("c"))
    assert made.for_queue("/", "q").policy == "a"


def test_a_policy_that_does_not_match_is_skipped() -> None:
    made = policies(policy("fits", "^q", priority=1), policy("other", "^x", priority=2))
    assert made.for_queue("/", "q").policy == "fits"
    assert made.for_queue("/", "y") is NO_EFFECTIVE_POLICY


def test_a_pattern_fits_anywhere_in_a_name() -> None:
    assert policies(policy("p", "der")).for_queue("/", "orders").policy == "p"


def test_apply_to_is_respected() -> None:
    made = policies(policy("q", apply_to="queues", priority=2), policy("x", apply_to="exchanges", priority=1))
    assert made.for_queue("/", "n").policy == "q"
    assert made.for_exchange("/", "n").policy == "x"


def test_virtual_hosts_have_their_own() -> None:
    assert policies(policy("p")).for_queue("other", "q") is NO_EFFECTIVE_POLICY


def test_a_policy_that_is_set_again_is_another_one() -> None:
    made = policies(policy("p", max_length=1))
    before = made.for_queue("/", "q")
    made.set_policy(policy("p", max_length=2), False)
    assert made.for_queue("/", "q").definition == {"max-length": 2}
    assert before.definition == {"max-length": 1}


def test_a_cleared_policy_leaves_the_next_in_rank() -> None:
    made = policies(policy("low"), policy("high", priority=1))
    made.clear_policy("/", "high", False)
    assert made.for_queue("/", "q").policy == "low"
    made.clear_policy("/", "low", False)
    assert made.for_queue("/", "q") is NO_EFFECTIVE_POLICY


def test_queues_with_the_same_policies_share_their_effective_definition() -> None:
    made = policies(policy("p"))
    made.set_policy(policy("o"), True)
    assert made.for_queue("/", "a") is made.for_queue("/", "b")


def test_an_operator_policy_lowers_and_never_raises() -> None:
    said = policy("p", max_length=10, expires=10, message_ttl=7)
    limits = policy("o", max_length=5, expires=20, delivery_limit=3)
    assert merged_definition(said, limits) == {"delivery-limit": 3, "expires": 10, "max-length": 5, "message-ttl": 7}
    assert list(merged_definition(said, limits)) == ["delivery-limit", "expires", "max-length", "message-ttl"]


def test_an_operator_policy_counts_alone() -> None:
    made = Policies()
    made.set_policy(policy("o", max_length=5), True)
    effective = made.for_queue("/", "q")
    assert (effective.policy, effective.operator_policy, effective.definition) == ("", "o", {"max-length": 5})


def test_exchanges_have_no_operator_policy() -> None:
    made = policies(policy("p"))
    made.set_policy(policy("o"), True)
    assert made.for_exchange("/", "x").operator_policy == ""


def test_effective_policies_of_one_virtual_host_outlive_changes_in_another() -> None:
    made = policies(policy("here"))
    made.set_policy(policy("limit"), True)
    effective = made.for_queue("/", "q")
    for operator in (False, True):
        made.set_policy(Policy("elsewhere", "there", "", "all", {"max-length": 1}, 0), operator)
        assert made.for_queue("/", "q") is effective
    made.set_policy(policy("here", max_length=2), False)
    assert made.for_queue("/", "q") is not effective
