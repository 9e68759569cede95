"""RabbitMQ's metric families in RabbitMQ's groups. Names and types are RabbitMQ's, so dashboards and alert rules work
unchanged.

Metrics of Erlang's internals are missing (reductions, schedulers, Raft logs), except three that rules read and that
have an equivalent: uptime, garbage collections, context switches.

Not here: values (`metrics.node_values`, `metrics.object_values`), Warren's own families (`metrics.node_values`).
"""

from warren.admin.metrics.text import COUNTER, GAUGE, UNTYPED, MetricFamily

Families = tuple[MetricFamily, ...]


def _counters(**helps: str) -> Families:
    return tuple(MetricFamily(name, COUNTER, text) for name, text in helps.items())


def _gauges(**helps: str) -> Families:
    return tuple(MetricFamily(name, GAUGE, text) for name, text in helps.items())


PROCESS: Families = _gauges(process_start_time_seconds="When the node's process started, in seconds since 1970")

ALARMS: Families = (
    MetricFamily("alarms_file_descriptor_limit", UNTYPED, "1 while the node has no file descriptors left, else 0"),
    MetricFamily(
        "alarms_free_disk_space_watermark", UNTYPED, "1 while publishers wait because the disk is nearly full"
    ),
    MetricFamily(
        "alarms_memory_used_watermark", UNTYPED, "1 while publishers are blocked because memory use is above its limit"
    ),
)

IDENTITY: Families = (
    MetricFamily("build_info", UNTYPED, "Always 1; the labels say which versions run"),
    MetricFamily("identity_info", UNTYPED, "Always 1; the labels say which node of which cluster this is"),
)

CHURN: Families = _counters(
    connections_opened_total="Connections opened since the node started",
    connections_closed_total="Connections closed",
    channels_opened_total="Channels opened",
    channels_closed_total="Channels closed",
    queues_declared_total="Successful queue declarations, also of existing queues",
    queues_created_total="Queues created",
    queues_deleted_total="Queues deleted",
)

NODE_COARSE: Families = (
    *_gauges(
        process_open_fds="Open file descriptors",
        process_open_tcp_sockets="Open sockets, listeners included",
        process_resident_memory_bytes="Resident memory of the process",
        disk_space_available_bytes="Free space on the disk of the data directory",
    ),
    *_counters(
        erlang_gc_runs_total="Garbage collections of Python; the name is RabbitMQ's",
        erlang_scheduler_context_switches_total="Context switches of the process",
    ),
)

NODE: Families = _gauges(
    process_max_fds="Limit of open file descriptors",
    process_max_tcp_sockets="Limit of open sockets",
    resident_memory_limit_bytes="Memory use above which publishers are blocked",
    disk_space_available_limit_bytes="Free disk space below which publishers are blocked",
    erlang_uptime_seconds="Uptime of the node",
)

PERSISTER: Families = _counters(
    io_read_ops_total="Reads of the journal",
    io_read_bytes_total="Bytes read from the journal",
    io_write_ops_total="Writes to the journal",
    io_write_bytes_total="Bytes written to the journal",
    io_sync_ops_total="Flushes of the journal",
    io_read_time_seconds_total="Time spent reading the journal",
    io_write_time_seconds_total="Time spent writing to the journal",
    io_sync_time_seconds_total="Time spent flushing the journal",
)

AUTH: Families = _counters(
    auth_attempts_total="Login attempts",
    auth_attempts_succeeded_total="Successful logins",
    auth_attempts_failed_total="Refused logins",
)

QUEUE_COARSE: Families = _gauges(
    queue_messages_ready="Messages ready for delivery",
    queue_messages_unacked="Messages delivered but not acked",
    queue_messages="Messages in a queue, ready and unacked",
)

QUEUE_CONSUMERS: Families = _gauges(queue_consumers="Consumers of a queue")

QUEUE: Families = (
    *_gauges(
        queue_consumer_capacity="Share of the time in which a queue could deliver at once, from 0 to 1",
        queue_consumer_utilisation="The same as queue_consumer_capacity, under its older name",
        queue_process_memory_bytes="Approximate memory of a queue and its messages",
        queue_messages_ram="Messages in memory, ready and unacked",
        queue_messages_ram_bytes="Bytes of message bodies in memory",
        queue_messages_ready_ram="Ready messages in memory",
        queue_messages_unacked_ram="Unacked messages in memory",
        queue_messages_persistent="Persistent messages",
        queue_messages_persistent_bytes="Bytes of persistent message bodies",
        queue_messages_bytes="Bytes of all message bodies in a queue",
        queue_messages_ready_bytes="Bytes of ready message bodies",
        queue_messages_unacked_bytes="Bytes of unacked message bodies",
        queue_messages_paged_out="Messages that are on disk only",
        queue_messages_paged_out_bytes="Bytes of message bodies that are on disk only",
        queue_head_message_timestamp="Timestamp property of the first message of a queue",
    ),
    *_counters(
        queue_disk_reads_total="Messages read from disk",
        queue_disk_writes_total="Messages written to disk",
        queue_messages_deduplicated_total="Messages dropped as duplicates of their publisher",
    ),
)

# the timestamp of the first message cannot be summed
QUEUE_SUMS: Families = tuple(family for family in QUEUE if family.name != "queue_head_message_timestamp")

QUEUE_PUBLISHED: Families = _counters(queue_messages_published_total="Messages that were routed into queues")

CHANNEL: Families = _gauges(
    channel_consumers="Consumers of a channel",
    channel_messages_unacked="Messages delivered to a channel but not acked",
    channel_messages_unconfirmed="Messages published on a channel but not confirmed",
    channel_messages_uncommitted="Messages published in an open transaction",
    channel_acks_uncommitted="Acks in an open transaction",
    consumer_prefetch="Limit of unacked messages for each consumer; 0 for no limit",
    channel_prefetch="Limit of unacked messages for all consumers of a channel; 0 for no limit",
)

CHANNEL_EXCHANGE: Families = _counters(
    channel_messages_published_total="Messages published to an exchange",
    channel_messages_confirmed_total="Messages published to an exchange and confirmed",
    channel_messages_unroutable_returned_total="Mandatory messages returned as unroutable",
    channel_messages_unroutable_dropped_total="Messages dropped as unroutable",
)

CHANNEL_QUEUE: Families = _counters(
    channel_get_ack_total="Messages received with basic.get in manual ack mode",
    channel_get_total="Messages received with basic.get in automatic ack mode",
    channel_messages_delivered_ack_total="Messages delivered to consumers in manual ack mode",
    channel_messages_delivered_total="Messages delivered to consumers in automatic ack mode",
    channel_messages_redelivered_total="Messages redelivered to a channel",
    channel_messages_acked_total="Messages acked on a channel",
    channel_get_empty_total="basic.get requests on an empty queue",
)

CONNECTION_COARSE: Families = _counters(
    connection_incoming_bytes_total="Bytes received from a client",
    connection_outgoing_bytes_total="Bytes sent to a client",
)

CONNECTION: Families = (
    *_counters(
        connection_incoming_packets_total="Reads of a client's socket that returned data",
        connection_outgoing_packets_total="Writes to a client's socket",
    ),
    *_gauges(
        connection_pending_packets="Always 0: pending data is not counted in packets",
        connection_channels="Channels of a connection",
    ),
)

OBJECTS: Families = _gauges(
    connections="Connections of clients",
    channels="Channels of clients",
    consumers="Consumers of clients",
    queues="Queues on the node",
)

GLOBAL_PUBLISHING: Families = (
    *_counters(
        global_messages_received_total="Messages received from publishers",
        global_messages_received_confirm_total="Messages received on channels in confirm mode",
        global_messages_routed_total="Messages routed to queues, counted for each queue",
        global_messages_confirmed_total="Messages confirmed to publishers",
        global_messages_unroutable_dropped_total="Messages dropped as unroutable",
        global_messages_unroutable_returned_total="Mandatory messages returned as unroutable",
    ),
    *_gauges(
        global_publishers="Channels that have published",
        global_consumers="Consumers",
    ),
)

GLOBAL_TAKING: Families = _counters(
    global_messages_acknowledged_total="Messages acked",
    global_messages_delivered_total="Messages delivered to clients",
    global_messages_delivered_consume_auto_ack_total="Messages delivered to consumers in automatic ack mode",
    global_messages_delivered_consume_manual_ack_total="Messages delivered to consumers in manual ack mode",
    global_messages_delivered_get_auto_ack_total="Messages received with basic.get in automatic ack mode",
    global_messages_delivered_get_manual_ack_total="Messages received with basic.get in manual ack mode",
    global_messages_get_empty_total="basic.get requests on an empty queue",
    global_messages_redelivered_total="Messages redelivered",
)

GLOBAL_DEAD: Families = _counters(
    global_messages_dead_lettered_maxlen_total="Messages dead-lettered because their queue was full",
    global_messages_dead_lettered_expired_total="Messages dead-lettered because they expired",
    global_messages_dead_lettered_rejected_total="Messages dead-lettered because a consumer rejected them",
    global_messages_dead_lettered_delivery_limit_total="Messages dead-lettered because of the delivery limit",
)

VHOST_STATUS: Families = _gauges(vhost_status="1 for every virtual host that is up")

EXCHANGE_NAMES: Families = _gauges(exchange_name="Always 1; the labels name every exchange of the cluster")

EXCHANGE_BINDINGS: Families = _gauges(exchange_bindings="Bindings of an exchange; the same on every node")
