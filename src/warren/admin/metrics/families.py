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
    MetricFamily("alarms_memory_used_watermark", UNTYPED, "1 while publishers wait because memory is nearly used up"),
)

IDENTITY: Families = (
    MetricFamily("build_info", UNTYPED, "Always 1; the labels say which versions run"),
    MetricFamily("identity_info", UNTYPED, "Always 1; the labels say which node of which cluster this is"),
)

CHURN: Families = _counters(
    connections_opened_total="Connections that clients have made since the node started",
    connections_closed_total="Connections that have ended, in whichever way",
    channels_opened_total="Channels that clients have opened",
    channels_closed_total="Channels that are no more",
    queues_declared_total="Declares of queues that succeeded, whether or not the queue was there before",
    queues_created_total="Queues that came to be by a declare",
    queues_deleted_total="Queues that are no more",
)

NODE_COARSE: Families = (
    *_gauges(
        process_open_fds="File descriptors that the process has open",
        process_open_tcp_sockets="Sockets that the process has open, listeners among them",
        process_resident_memory_bytes="What the process has of the machine's memory",
        disk_space_available_bytes="What is free on the disk of the data directory",
    ),
    *_counters(
        erlang_gc_runs_total="How often Python has collected garbage; the name is from RabbitMQ",
        erlang_scheduler_context_switches_total="How often the system has given the processor to somebody else",
    ),
)

NODE: Families = _gauges(
    process_max_fds="How many file descriptors the process may have",
    process_max_tcp_sockets="How many sockets the process may have",
    resident_memory_limit_bytes="Above this much memory publishers wait",
    disk_space_available_limit_bytes="Below this much free disk space publishers wait",
    erlang_uptime_seconds="For how long the node has been running",
)

PERSISTER: Families = _counters(
    io_read_ops_total="Reads of the journal",
    io_read_bytes_total="Bytes read from the journal",
    io_write_ops_total="Writes to the journal",
    io_write_bytes_total="Bytes written to the journal",
    io_sync_ops_total="Flushes of the journal",
    io_read_time_seconds_total="Time spent reading the journal",
    io_write_time_seconds_total="Time spent writing to the journal",
    io_sync_time_seconds_total="Time spent waiting for the disk to flush",
)

AUTH: Families = _counters(
    auth_attempts_total="Logins that were tried",
    auth_attempts_succeeded_total="Logins that were let in",
    auth_attempts_failed_total="Logins that were turned away",
)

QUEUE_COARSE: Families = _gauges(
    queue_messages_ready="Messages that wait in a queue for somebody to take them",
    queue_messages_unacked="Messages that a client has and has not acked",
    queue_messages="All messages of a queue, waiting or unacked",
)

QUEUE_CONSUMERS: Families = _gauges(queue_consumers="How many consume from a queue")

QUEUE: Families = (
    *_gauges(
        queue_consumer_capacity="For which share of the time a queue could hand a message on at once, from 0 to 1",
        queue_consumer_utilisation="The same as queue_consumer_capacity, under its older name",
        queue_process_memory_bytes="About how much memory a queue takes, with what it holds",
        queue_messages_ram="Messages of a queue that are in memory, waiting or unacked",
        queue_messages_ram_bytes="Bytes of the bodies that a queue has in memory",
        queue_messages_ready_ram="Messages in memory that wait",
        queue_messages_unacked_ram="Messages in memory that are unacked",
        queue_messages_persistent="Messages of a queue that are to outlive the node",
        queue_messages_persistent_bytes="Bytes of the bodies that are to outlive the node",
        queue_messages_bytes="Bytes of all bodies in a queue",
        queue_messages_ready_bytes="Bytes of the bodies that wait",
        queue_messages_unacked_bytes="Bytes of the bodies that are unacked",
        queue_messages_paged_out="Messages of a queue that are on disk alone",
        queue_messages_paged_out_bytes="Bytes of the bodies that are on disk alone",
        queue_head_message_timestamp="The timestamp that the publisher gave to the message at the head of a queue",
    ),
    *_counters(
        queue_disk_reads_total="Messages that a queue has read back from disk",
        queue_disk_writes_total="Messages that a queue has written to disk",
        queue_messages_deduplicated_total="Messages that a queue did not keep because their publisher repeated them",
    ),
)

# the timestamp of the first message cannot be summed
QUEUE_SUMS: Families = tuple(family for family in QUEUE if family.name != "queue_head_message_timestamp")

QUEUE_PUBLISHED: Families = _counters(queue_messages_published_total="Messages that were routed into queues")

CHANNEL: Families = _gauges(
    channel_consumers="How many consumers a channel has",
    channel_messages_unacked="Messages that were delivered over a channel and not acked",
    channel_messages_unconfirmed="Messages that were published over a channel and wait for their confirms",
    channel_messages_uncommitted="Messages that were published in a transaction which is open",
    channel_acks_uncommitted="Acks that were given in a transaction which is open",
    consumer_prefetch="How many unacked messages each consumer of a channel may have; 0 for any number",
    channel_prefetch="How many unacked messages all consumers of a channel may have together; 0 for any number",
)

CHANNEL_EXCHANGE: Families = _counters(
    channel_messages_published_total="Messages that a channel has published to an exchange",
    channel_messages_confirmed_total="Messages that a channel has published to an exchange and had confirmed",
    channel_messages_unroutable_returned_total="Mandatory messages that no queue took, and that went back",
    channel_messages_unroutable_dropped_total="Messages that no queue took, and nobody wanted back",
)

CHANNEL_QUEUE: Families = _counters(
    channel_get_ack_total="Messages that a channel took with basic.get, to be acked",
    channel_get_total="Messages that a channel took with basic.get, without acks",
    channel_messages_delivered_ack_total="Messages that went to the consumers of a channel, to be acked",
    channel_messages_delivered_total="Messages that went to the consumers of a channel, without acks",
    channel_messages_redelivered_total="Messages that a channel got which had been delivered before",
    channel_messages_acked_total="Messages that were acked over a channel",
    channel_get_empty_total="How often a channel's basic.get found its queue empty",
)

CONNECTION_COARSE: Families = _counters(
    connection_incoming_bytes_total="Bytes that came from a client",
    connection_outgoing_bytes_total="Bytes that went to a client",
)

CONNECTION: Families = (
    *_counters(
        connection_incoming_packets_total="Reads of a client's socket that brought something",
        connection_outgoing_packets_total="Writes to a client's socket",
    ),
    *_gauges(
        connection_pending_packets="Always 0: what waits for a client is not counted in packets",
        connection_channels="How many channels a connection has",
    ),
)

OBJECTS: Families = _gauges(
    connections="How many clients are connected",
    channels="How many channels they have",
    consumers="How many consumers there are on them",
    queues="How many queues live on the node",
)

GLOBAL_PUBLISHING: Families = (
    *_counters(
        global_messages_received_total="Messages that came from publishers",
        global_messages_received_confirm_total="Messages that came over channels in confirm mode",
        global_messages_routed_total="Copies of messages that were routed to queues",
        global_messages_confirmed_total="Messages whose publishers have had a confirm",
        global_messages_unroutable_dropped_total="Messages that no queue took, and nobody wanted back",
        global_messages_unroutable_returned_total="Mandatory messages that no queue took, and that went back",
    ),
    *_gauges(
        global_publishers="How many channels have published",
        global_consumers="How many consumers there are",
    ),
)

GLOBAL_TAKING: Families = _counters(
    global_messages_acknowledged_total="Messages that were acked",
    global_messages_delivered_total="Messages that left queues for clients, in whichever way",
    global_messages_delivered_consume_auto_ack_total="Messages that went to consumers, without acks",
    global_messages_delivered_consume_manual_ack_total="Messages that went to consumers, to be acked",
    global_messages_delivered_get_auto_ack_total="Messages that were taken with basic.get, without acks",
    global_messages_delivered_get_manual_ack_total="Messages that were taken with basic.get, to be acked",
    global_messages_get_empty_total="How often basic.get found a queue empty",
    global_messages_redelivered_total="Messages that had been delivered before",
)

GLOBAL_DEAD: Families = _counters(
    global_messages_dead_lettered_maxlen_total="Messages that died because their queue was full",
    global_messages_dead_lettered_expired_total="Messages that died because their time was up",
    global_messages_dead_lettered_rejected_total="Messages that died because a consumer did not want them",
    global_messages_dead_lettered_delivery_limit_total="Messages that died after too many deliveries",
)

VHOST_STATUS: Families = _gauges(vhost_status="1 for every virtual host that is up")

EXCHANGE_NAMES: Families = _gauges(exchange_name="Always 1; the labels name every exchange of the cluster")

EXCHANGE_BINDINGS: Families = _gauges(exchange_bindings="How many bindings an exchange has; the same on every node")
