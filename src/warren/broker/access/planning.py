"""What changes of users, permissions and virtual hosts entail, written into a plan.

A command may follow others in one plan, so what it finds is what there will be by then: what the plan says of a key
and, if it says nothing, what there is.

With a user go its permissions; with a virtual host everything in it. So nothing may come meanwhile that would have to
go, too. Whoever goes comes first in the plan: its connections are told why, and not that they lost what went with it.

Not here: whether a change is allowed (`broker.access.user_commands`, `broker.access.vhost_commands`), making it
(`broker.access.applier`).
"""

from typing import Final

from warren.access.catalog import Catalog
from warren.broker.policy.policy_commands import plan_oblivion
from warren.broker.topology_plans import plan_all_removal
from warren.broker.vhost import Vhost
from warren.policy.policies import Policies
from warren.store.access_definitions import (
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    UserDefinition,
    VhostDefinition,
    permission_key,
    topic_permission_key,
    user_key,
    vhost_key,
)
from warren.store.metadata import beginning
from warren.store.plan import Plan
from warren.store.policy_definitions import OPERATOR_POLICIES, PARAMETERS, POLICIES
from warren.store.topology_definitions import BINDINGS, EXCHANGES, QUEUES

IN_VHOSTS: Final = (POLICIES, OPERATOR_POLICIES, PARAMETERS, EXCHANGES, QUEUES, BINDINGS)
"""Kinds whose keys have the virtual host first."""


def is_new(plan: Plan, key: str, known: bool) -> bool:
    """Whether a key will stand for nothing when all of the plan came about; `known`: it stands for something now."""
    change = plan.planned(key)
    return not known if change is None else change.definition is None


def user_to_be(plan: Plan, catalog: Catalog, name: str) -> UserDefinition | None:
    """The user as it will be."""
    change = plan.planned(user_key(name))
    if change is not None:
        return change.definition if isinstance(change.definition, UserDefinition) else None
    user = catalog.users.get(name)
    if user is None:
        return None
    return UserDefinition(name, user.password_hash, user.hashing_algorithm, user.tags, user.limits)


def vhost_to_be(plan: Plan, vhosts: dict[str, Vhost], name: str) -> VhostDefinition | None:
    """The virtual host as it will be."""
    change = plan.planned(vhost_key(name))
    if change is not None:
        return change.definition if isinstance(change.definition, VhostDefinition) else None
    vhost = vhosts.get(name)
    return None if vhost is None else VhostDefinition(name, vhost.description, vhost.tags, vhost.limits)


def rely_on_both(plan: Plan, user: str, vhost: str) -> None:
    """What is planned makes no sense without either."""
    plan.rely_on(user_key(user))
    plan.rely_on(vhost_key(vhost))


def plan_user_removal(plan: Plan, catalog: Catalog, name: str) -> None:
    plan.delete(user_key(name))
    plan.rely_on_all(beginning(PERMISSIONS, [name]))
    plan.rely_on_all(beginning(TOPIC_PERMISSIONS, [name]))
    for permission in catalog.permissions_of_user(name):
        plan.delete(permission_key(name, permission.vhost))
    for topic in catalog.topic_permissions_of_user(name):
        plan.delete(topic_permission_key(name, topic.vhost, topic.exchange))


def plan_vhost_removal(plan: Plan, catalog: Catalog, policies: Policies, vhost: Vhost) -> None:
    name = vhost.name
    plan.delete(vhost_key(name))
    plan.rely_on_all(beginning(PERMISSIONS, []))
    plan.rely_on_all(beginning(TOPIC_PERMISSIONS, []))
    for kind in IN_VHOSTS:
        plan.rely_on_all(beginning(kind, [name]))
    for permission in catalog.permissions_in(name):
        plan.delete(permission_key(permission.user, name))
    for topic in catalog.topic_permissions_in(name):
        plan.delete(topic_permission_key(topic.user, name, topic.exchange))
    plan_oblivion(plan, policies, name)
    plan_all_removal(plan, vhost.topology)
