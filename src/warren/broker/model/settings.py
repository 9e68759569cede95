"""The operator's settings of one node, as plain values.

Not here: where the values come from (`node.config`), the settings of a queue (`broker.queues.settings`).
"""

from typing import Final, NamedTuple, final

from warren.broker.model.identity import INTERNAL

WORK_A_TURN: Final = 16_000
"""The budget of a turn in messages routed to queues, and in deliveries: about 20 ms (`broker.model.turn`)."""

CLOSE_CHANNEL: Final = "close"
REQUEUE_DELIVERY: Final = "requeue"

DISC: Final = "disc"
RAM: Final = "ram"
NODE_KINDS: Final = (DISC, RAM)
"""Whether a cluster node keeps the definitions on disk, or only in memory."""


class PasswordRules(NamedTuple):
    """What a password that is set as plain text must have: so many bytes, and a match of this expression, if any."""

    bytes_min: int = 0
    pattern: str = ""


@final
class OAuth2Settings:
    """What the claims of an access token mean (`auth_oauth2.*`)."""

    def __init__(
        self,
        resource_server_id: str,
        scope_prefix: str | None = None,
        additional_scopes_key: str = "",
        verify_aud: bool = True,
        issuer: str = "",
        username_claims: list[str] | None = None,
        scope_aliases: dict[str, list[str]] | None = None,
    ) -> None:
        self.resource_server_id = resource_server_id
        # scopes with another prefix are those of other servers
        self.scope_prefix = f"{resource_server_id}." if scope_prefix is None else scope_prefix
        # a claim that has more scopes
        self.additional_scopes_key = additional_scopes_key
        self.verify_aud = verify_aud
        # if it is known, tokens of other issuers are refused
        self.issuer = issuer
        # the claims that may have the name of the user, in order
        self.username_claims: list[str] = [*(username_claims or []), "client_id", "sub"]
        # the scopes that a scope stands for
        self.scope_aliases: dict[str, list[str]] = {} if scope_aliases is None else scope_aliases


@final
class HttpBackendSettings:
    """How long a web server may take to decide, and how long its answers are kept (`auth_http.*`, `auth_cache.*`)."""

    def __init__(self, timeout_ms: int = 15_000, cache_ttl_ms: int = 0, caches_refusals: bool = False) -> None:
        self.timeout_ms = timeout_ms
        # 0: answers are not kept
        self.cache_ttl_ms = cache_ttl_ms
        self.caches_refusals = caches_refusals


@final
class AuthenticationSettings:
    """Who is asked about a login."""

    def __init__(self) -> None:
        # the backends that authenticate, and authorise, in the order in which they are asked
        self.backends: list[tuple[str, str]] = [(INTERNAL, INTERNAL)]
        # the largest frame before the login is accepted: a long token needs a large one
        self.initial_frame_max = 4096
        # of the backend `oauth2`, if it is among them
        self.oauth2: OAuth2Settings | None = None
        # of the backend `http` or `cache`, if it is among them
        self.http: HttpBackendSettings | None = None


@final
class BrokerSettings:
    """One node's settings; the defaults are RabbitMQ 3.10's."""

    def __init__(
        self,
        node_name: str = "warren@localhost",
        default_user: str = "guest",
        default_pass: str = "guest",
        default_vhost: str = "/",
        default_user_tags: list[str] | None = None,
        default_configure: str = ".*",
        default_write: str = ".*",
        default_read: str = ".*",
        starts_empty: bool = False,
        password_hashing_module: str = "rabbit_password_hashing_sha256",
        loopback_users: list[str] | None = None,
        frame_max: int = 131072,
        channel_max: int = 2047,
        heartbeat_s: int = 60,
        handshake_timeout_ms: int = 10_000,
        max_message_size: int = 134_217_728,
        consumer_timeout_ms: int = 1_800_000,
        consumer_timeout_action: str = CLOSE_CHANNEL,
        auth_mechanisms: list[str] | None = None,
        paging_ratio: float = 0.5,
        segment_bytes: int = 64 * 1024 * 1024,
        queue_master_locator: str = "client-local",
        partition_handling: str = "ignore",
        sync_batch_count: int = 4096,
        sync_bytes_per_s: int = 0,
        work_a_turn: int = WORK_A_TURN,
    ) -> None:
        self.node_name = node_name
        # created when a node without users starts
        self.default_user = default_user
        self.default_pass = default_pass
        self.default_vhost = default_vhost
        self.default_user_tags: list[str] = ["administrator"] if default_user_tags is None else default_user_tags
        self.default_configure = default_configure
        self.default_write = default_write
        self.default_read = default_read
        # a new node creates no defaults: an import provides users and virtual hosts
        self.starts_empty = starts_empty
        # the hash for passwords that are set as plain text
        self.password_hashing_module = password_hashing_module
        self.password_rules = PasswordRules()
        # users that may only connect from this machine
        self.loopback_users: list[str] = ["guest"] if loopback_users is None else loopback_users
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.heartbeat_s = heartbeat_s
        self.handshake_timeout_ms = handshake_timeout_ms
        self.max_message_size = max_message_size
        # how long a delivery may stay unacked; 0 for no limit
        self.consumer_timeout_ms = consumer_timeout_ms
        # after the timeout: close the channel, as RabbitMQ does, or requeue only that delivery
        self.consumer_timeout_action = consumer_timeout_action
        self.auth_mechanisms: list[str] = ["PLAIN", "AMQPLAIN"] if auth_mechanisms is None else auth_mechanisms
        self.authentication = AuthenticationSettings()
        self.segment_bytes = segment_bytes  # of the journal
        # the share of the memory limit above which new messages are kept on disk only; above 1, never
        self.paging_ratio = paging_ratio
        # the node of a new queue, unless its arguments or a policy decide
        self.queue_master_locator = queue_master_locator
        # how a node reacts to a network partition: see `broker.network_partitions`
        self.partition_handling = partition_handling
        self.pause_nodes: list[str] = []
        self.pause_recovery = "ignore"
        # backfill of a joining mirror: messages in a slice, and bytes per second of all backfills, 0 for no limit
        self.sync_batch_count = sync_batch_count
        self.sync_bytes_per_s = sync_bytes_per_s
        # users cannot set it; simulations make it small
        self.work_a_turn = work_a_turn
