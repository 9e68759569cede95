"""What a node has that never started before.

A node that finds no virtual host, user or permission recorded gets the default ones, unless definitions are about to be
imported, and they are recorded: from then on the settings that name them have no effect. A virtual host that only its
queues tell of, as versions without users left it, is recorded as well.

Not here: how what was recorded comes back (`broker.storage`, and whoever makes things of its kind).
"""

import hashlib

from warren.access.hashing import SALT_OCTETS, hash_password
from warren.broker.vhost import Vhost
from warren.model.settings import BrokerSettings
from warren.store.access_definitions import PermissionDefinition, UserDefinition, VhostDefinition
from warren.store.metadata import Definition
from warren.store.plan import Plan


def plan_first_access(
    plan: Plan, settings: BrokerSettings, seed: bytes, recorded: list[Definition], vhosts: dict[str, Vhost]
) -> None:
    """Add what is not recorded, after everything was loaded."""
    names = [one.name for one in recorded if isinstance(one, VhostDefinition)]
    unrecorded = [name for name in vhosts if name not in names]
    others = [one for one in recorded if isinstance(one, UserDefinition | PermissionDefinition)]
    is_first = not names and not others and not settings.starts_empty
    if is_first and settings.default_vhost not in vhosts:
        unrecorded.append(settings.default_vhost)
    for name in unrecorded:
        plan.put(VhostDefinition(name, "", [], {}))
    if is_first:
        _plan_default_user(plan, settings, seed, unrecorded)


def _plan_default_user(plan: Plan, settings: BrokerSettings, seed: bytes, vhosts: list[str]) -> None:
    salt = hashlib.blake2b(b"salt of the default user", key=seed[:64], digest_size=SALT_OCTETS).digest()
    algorithm = settings.password_hashing_module
    name = settings.default_user
    password_hash = hash_password(algorithm, settings.default_pass, salt) if settings.default_pass else b""
    plan.put(UserDefinition(name, password_hash, algorithm, list(settings.default_user_tags), {}))
    for vhost in vhosts:
        plan.put(
            PermissionDefinition(name, vhost, settings.default_configure, settings.default_write, settings.default_read)
        )
