"""The families of metrics, in RabbitMQ's groups: names, types and sentences are RabbitMQ's, so that its dashboards and
alert rules need no change.

Left out is what tells of Erlang's insides (reductions, schedulers, Raft logs). Of those names three are kept,
because rules read them and there is an equivalent: the uptime, garbage collections, context switches.

Not here: where the values come from (`metrics.readings`, `metrics.objects`), families of our own (`metrics.own`).
"""

from warren.admin.metrics.text import COUNTER, GAUGE, UNTYPED, Family

Families = tuple[Family, ...]


def _counters(**helps: str) -> Families:
    return tuple(Family(name, COUNTER, text) for name, text in helps.items())


def _gauges(**helps: str) -> Families:
    return tuple(Family(name, GAUGE, text) for name, text in helps.items())


PROCESS: Families = _gauges(process_start_time_seconds="Start time of the process since unix epoch in seconds.")

ALARMS: Families = (
    Family("alarms_file_descriptor_limit", UNTYPED, "is 1 if file descriptor limit alarm is in effect"),
    Family("alarms_free_disk_space_watermark", UNTYPED, "is 1 if free disk space watermark alarm is in effect"),
    Family("alarms_memory_used_watermark", UNTYPED, "is 1 if VM memory watermark alarm is in effect"),
)

IDENTITY: Families = (
    Family("build_info", UNTYPED, "RabbitMQ & Erlang/OTP version info"),
    Family("identity_info", UNTYPED, "RabbitMQ node & cluster identity info"),
)

CHURN: Families = _counters(
    connections_opened_total="Total number of connections opened",
    connections_closed_total="Total number of connections closed or terminated",
    channels_opened_total="Total number of channels opened",
    channels_closed_total="Total number of channels closed",
    queues_declared_total="Total number of queues declared",
    queues_created_total="Total number of queues created",
    queues_deleted_total="Total number of queues deleted",
)

NODE_COARSE: Families = (
    *_gauges(
        process_open_fds="Open file descriptors",
        process_open_tcp_sockets="Open TCP sockets",
        process_resident_memory_bytes="Memory used in bytes",
        disk_space_available_bytes="Disk space available in bytes",
    ),
    *_counters(
        erlang_gc_runs_total="Total number of Erlang garbage collector runs",
        erlang_scheduler_context_switches_total="Total number of Erlang scheduler context switches",
    ),
)

NODE: Families = _gauges(
    process_max_fds="Open file descriptors limit",
    process_max_tcp_sockets="Open TCP sockets limit",
    resident_memory_limit_bytes="Memory high watermark in bytes",
    disk_space_available_limit_bytes="Free disk space low watermark in bytes",
    erlang_uptime_seconds="Node uptime",
)

PERSISTER: Families = _counters(
    io_read_ops_total="Total number of I/O read operations",
    io_read_bytes_total="Total number of I/O bytes read",
    io_write_ops_total="Total number of I/O write operations",
    io_write_bytes_total="Total number of I/O bytes written",
    io_sync_ops_total="Total number of I/O sync operations",
    io_read_time_seconds_total="Total I/O read time",
    io_write_time_seconds_total="Total I/O write time",
    io_sync_time_seconds_total="Total I/O sync time",
)

AUTH: Families = _counters(
    auth_attempts_total="Total number of authorization attempts",
    auth_attempts_succeeded_total="Total number of successful authentication attempts",
    auth_attempts_failed_total="Total number of failed authentication attempts",
)

QUEUE_COARSE: Families = _gauges(
    queue_messages_ready="Messages ready to be delivered to consumers",
    queue_messages_unacked="Messages delivered to consumers but not yet acknowledged",
    queue_messages="Sum of ready and unacknowledged messages - total queue depth",
)

QUEUE_CONSUMERS: Families = _gauges(queue_consumers="Consumers on a queue")

QUEUE: Families = (
    *_gauges(
        queue_consumer_capacity="Consumer capacity",
        queue_consumer_utilisation="Same as consumer capacity",
        queue_process_memory_bytes="Memory in bytes used by the Erlang queue process",
        queue_messages_ram="Ready and unacknowledged messages stored in memory",
        queue_messages_ram_bytes="Size of ready and unacknowledged messages stored in memory",
        queue_messages_ready_ram="Ready messages stored in memory",
        queue_messages_unacked_ram="Unacknowledged messages stored in memory",
        queue_messages_persistent="Persistent messages",
        queue_messages_persistent_bytes="Size in bytes of persistent messages",
        queue_messages_bytes="Size in bytes of ready and unacknowledged messages",
        queue_messages_ready_bytes="Size in bytes of ready messages",
        queue_messages_unacked_bytes="Size in bytes of all unacknowledged messages",
        queue_messages_paged_out="Messages paged out to disk",
        queue_messages_paged_out_bytes="Size in bytes of messages paged out to disk",
        queue_head_message_timestamp="Timestamp of the first message in the queue, if any",
    ),
    *_counters(
        queue_disk_reads_total="Total number of times queue read messages from disk",
        queue_disk_writes_total="Total number of times queue wrote messages to disk",
    ),
)

# of several queues there is no first message
QUEUE_SUMS: Families = tuple(family for family in QUEUE if family.name != "queue_head_message_timestamp")

QUEUE_PUBLISHED: Families = _counters(queue_messages_published_total="Total number of messages published to queues")

CHANNEL: Families = _gauges(
    channel_consumers="Consumers on a channel",
    channel_messages_unacked="Delivered but not yet acknowledged messages",
    channel_messages_unconfirmed="Published but not yet confirmed messages",
    channel_messages_uncommitted="Messages received in a transaction but not yet committed",
    channel_acks_uncommitted="Message acknowledgements in a transaction not yet committed",
    consumer_prefetch="Limit of unacknowledged messages for each consumer",
    channel_prefetch="Total limit of unacknowledged messages for all consumers on a channel",
)

CHANNEL_EXCHANGE: Families = _counters(
    channel_messages_published_total="Total number of messages published into an exchange on a channel",
    channel_messages_confirmed_total="Total number of messages published into an exchange and confirmed on the channel",
    channel_messages_unroutable_returned_total="Total number of messages published as mandatory into an exchange and "
    "returned to the publisher as unroutable",
    channel_messages_unroutable_dropped_total="Total number of messages published as non-mandatory into an exchange "
    "and dropped as unroutable",
)

CHANNEL_QUEUE: Families = _counters(
    channel_get_ack_total="Total number of messages fetched with basic.get in manual acknowledgement mode",
    channel_get_total="Total number of messages fetched with basic.get in automatic acknowledgement mode",
    channel_messages_delivered_ack_total="Total number of messages delivered to consumers in manual acknowledgement "
    "mode",
    channel_messages_delivered_total="Total number of messages delivered to consumers in automatic acknowledgement "
    "mode",
    channel_messages_redelivered_total="Total number of messages redelivered to consumers",
    channel_messages_acked_total="Total number of messages acknowledged by consumers",
    channel_get_empty_total="Total number of times basic.get operations fetched no message",
)

CONNECTION_COARSE: Families = _counters(
    connection_incoming_bytes_total="Total number of bytes received on a connection",
    connection_outgoing_bytes_total="Total number of bytes sent on a connection",
)

CONNECTION: Families = (
    *_counters(
        connection_incoming_packets_total="Total number of packets received on a connection",
        connection_outgoing_packets_total="Total number of packets sent on a connection",
    ),
    *_gauges(
        connection_pending_packets="Number of packets waiting to be sent on a connection",
        connection_channels="Channels on a connection",
    ),
)

OBJECTS: Families = _gauges(
    connections="Connections currently open",
    channels="Channels currently open",
    consumers="Consumers currently connected",
    queues="Queues available",
)

GLOBAL_PUBLISHING: Families = (
    *_counters(
        global_messages_received_total="Total number of messages received from publishers",
        global_messages_received_confirm_total="Total number of messages received from publishers expecting "
        "confirmations",
        global_messages_routed_total="Total number of messages routed to queues or streams",
        global_messages_confirmed_total="Total number of messages confirmed to publishers",
        global_messages_unroutable_dropped_total="Total number of messages published as non-mandatory into an exchange "
        "and dropped as unroutable",
        global_messages_unroutable_returned_total="Total number of messages published as mandatory into an exchange "
        "and returned to the publisher as unroutable",
    ),
    *_gauges(
        global_publishers="Current number of publishers",
        global_consumers="Current number of consumers",
    ),
)

GLOBAL_TAKING: Families = _counters(
    global_messages_acknowledged_total="Total number of messages acknowledged by consumers",
    global_messages_delivered_total="Total number of messages delivered to consumers",
    global_messages_delivered_consume_auto_ack_total="Total number of messages delivered to consumers using "
    "basic.consume with automatic acknowledgment",
    global_messages_delivered_consume_manual_ack_total="Total number of messages delivered to consumers using "
    "basic.consume with manual acknowledgment",
    global_messages_delivered_get_auto_ack_total="Total number of messages delivered to consumers using basic.get with "
    "automatic acknowledgment",
    global_messages_delivered_get_manual_ack_total="Total number of messages delivered to consumers using basic.get "
    "with manual acknowledgment",
    global_messages_get_empty_total="Total number of times basic.get operations fetched no message",
    global_messages_redelivered_total="Total number of messages redelivered to consumers",
)

GLOBAL_DEAD: Families = _counters(
    global_messages_dead_lettered_maxlen_total="Total number of messages dead-lettered due to overflow drop-head or "
    "reject-publish-dlx",
    global_messages_dead_lettered_expired_total="Total number of messages dead-lettered due to message TTL exceeded",
    global_messages_dead_lettered_rejected_total="Total number of messages dead-lettered due to basic.reject or "
    "basic.nack",
    global_messages_dead_lettered_delivery_limit_total="Total number of messages dead-lettered due to delivery-limit "
    "exceeded",
)

VHOST_STATUS: Families = _gauges(vhost_status="Whether a given vhost is running")

EXCHANGE_NAMES: Families = _gauges(
    exchange_name="Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper alternative "
    "to `exchange_bindings`"
)

EXCHANGE_BINDINGS: Families = _gauges(
    exchange_bindings="Number of bindings for an exchange. This value is cluster-wide."
)
