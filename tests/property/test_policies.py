"""Selection and merging of policies, against the rules said naively."""

import re

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.policies.policies import Policies, Policy
from warren.wire.field_tables import Table

NAMES = st.sampled_from(["a", "b", "ab", "abc", "q1", "q2"])
NUMBERS = st.dictionaries(st.sampled_from(["max-length", "expires", "message-ttl"]), st.integers(1, 9), min_size=1)
TEXTS = st.dictionaries(st.sampled_from(["dead-letter-exchange", "queue-mode"]), st.sampled_from(["default", "lazy"]))
POLICIES = st.builds(
    Policy,
    st.sampled_from(["/", "v"]),
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from(["^a", "b$", "", "q[12]", "abc", "z"]),
    st.sampled_from(["all", "queues", "exchanges"]),
    st.builds(lambda numbers, texts: {**numbers, **texts}, NUMBERS, TEXTS),
    st.integers(-1, 2),
)
OPERATOR_POLICIES = st.builds(
    Policy,
    st.sampled_from(["/", "v"]),
    st.sampled_from(["o1", "o2"]),
    st.sampled_from(["^a", "b$", "", "z"]),
    st.sampled_from(["all", "queues"]),
    NUMBERS,
    st.integers(-1, 2),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), POLICIES),
        st.tuples(st.just("limit"), OPERATOR_POLICIES),
        st.tuples(st.just("clear"), POLICIES),
    ),
    max_size=12,
)


def best(among: dict[tuple[str, str], Policy], vhost: str, name: str, kind: str) -> Policy | None:
    fitting = [
        policy
        for policy in among.values()
        if policy.vhost == vhost and policy.apply_to in ("all", kind) and re.search(policy.pattern, name)
    ]
    return min(fitting, key=lambda policy: (-policy.priority, policy.name)) if fitting else None


def together(policy: Policy | None, limits: Policy | None) -> Table:
    said: Table = {} if policy is None else dict(policy.definition)
    for key, limit in ({} if limits is None else limits.definition).items():
        own = said.get(key)
        said[key] = min(own, limit) if isinstance(own, int) and isinstance(limit, int) else limit
    return said


@given(STEPS, NAMES, st.sampled_from(["/", "v"]))
def test_selection_and_merging_follow_the_rules(steps: list[tuple[str, Policy]], name: str, vhost: str) -> None:
    made = Policies()
    for step, policy in steps:
        if step == "set":
            made.set_policy(policy, False)
        elif step == "limit":
            made.set_policy(policy, True)
        elif (policy.vhost, policy.name) in made.policies:
            made.clear_policy(policy.vhost, policy.name, False)
        # asked after each step, so that a stale cache would be noticed
        made.for_queue(vhost, name)
    policy_of_queue = best(made.policies, vhost, name, "queues")
    limits = best(made.operator_policies, vhost, name, "queues")
    effective = made.for_queue(vhost, name)
    assert effective.policy == ("" if policy_of_queue is None else policy_of_queue.name)
    assert effective.operator_policy == ("" if limits is None else limits.name)
    assert effective.definition == together(policy_of_queue, limits)
    policy_of_exchange = best(made.policies, vhost, name, "exchanges")
    assert made.for_exchange(vhost, name).definition == together(policy_of_exchange, None)
