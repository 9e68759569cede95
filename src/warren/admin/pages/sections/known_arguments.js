// Known arguments and policy keys with their meaning, which forms offer.

const MS = "Milliseconds.";

export const QUEUE_ARGUMENTS = [
  { key: "x-message-ttl", type: "number", title: "Message TTL", hint: `How long a message may stay. ${MS}` },
  {
    key: "x-expires",
    type: "number",
    title: "Expires",
    hint: `How long the queue may be unused before it is deleted. ${MS}`,
  },
  { key: "x-max-length", type: "number", title: "Max length", hint: "How many messages may be ready." },
  { key: "x-max-length-bytes", type: "number", title: "Max length bytes", hint: "How many bytes of ready messages." },
  {
    key: "x-overflow",
    type: "text",
    title: "Overflow",
    values: ["drop-head", "reject-publish", "reject-publish-dlx"],
    hint: "What happens at the limit.",
  },
  {
    key: "x-dead-letter-exchange",
    type: "text",
    title: "Dead letter exchange",
    hint: "Where expired, rejected and overflowing messages go.",
  },
  {
    key: "x-dead-letter-routing-key",
    type: "text",
    title: "Dead letter key",
    hint: "The routing key of dead letters; by default their own.",
  },
  {
    key: "x-ha-mode",
    type: "text",
    title: "HA mode",
    values: ["all", "exactly", "nodes"],
    hint: "Which nodes hold the queue, if no policy says so.",
  },
  {
    key: "x-copy-from",
    type: "text",
    title: "Copy from",
    hint: "The queue to copy messages from.",
  },
  {
    key: "x-copy-routing-key",
    type: "text",
    title: "Copy routing key",
    hint: "A topic pattern for the messages to copy; all by default.",
  },
  {
    key: "x-max-priority",
    type: "number",
    title: "Max priority",
    hint: "The number of priorities, 1 to 255; a few are enough.",
  },
  {
    key: "x-single-active-consumer",
    type: "yesno",
    title: "Single active consumer",
    hint: "Only one consumer gets messages at a time.",
  },
  {
    key: "x-delivery-limit",
    type: "number",
    title: "Delivery limit",
    hint: "How often a message may be requeued before it is dropped or dead-lettered.",
  },
  {
    key: "x-queue-mode",
    type: "text",
    title: "Mode",
    values: ["lazy", "default"],
    hint: "Lazy keeps messages on disk.",
  },
  { key: "x-queue-type", type: "text", title: "Type", values: ["classic", "quorum", "stream"], hint: "The queue type." },
  {
    key: "x-max-age",
    type: "text",
    title: "Age",
    hint: "For streams: the maximum age of messages, such as 7D, 12h or 30m.",
  },
  {
    key: "x-stream-max-segment-size-bytes",
    type: "number",
    title: "Segment size",
    hint: "For streams: the size of a segment. Old messages are deleted by whole segments.",
  },
  {
    key: "x-stream-partitions",
    type: "number",
    title: "Partitions",
    hint: "For streams: the number of partitions, chosen by routing key.",
  },
];

export const EXCHANGE_ARGUMENTS = [
  {
    key: "alternate-exchange",
    type: "text",
    title: "Alternate exchange",
    hint: "Where unroutable messages go.",
  },
  {
    key: "x-delayed-type",
    type: "text",
    title: "Delayed type",
    values: ["direct", "fanout", "topic", "headers"],
    hint: "For x-delayed-message: how it routes once the delay is over.",
  },
];

export const BINDING_ARGUMENTS = [
  {
    key: "x-match",
    type: "text",
    title: "Match",
    values: ["all", "any"],
    hint: "For headers exchanges: whether all headers must match, or any.",
  },
];

const LIMITS = [
  { key: "message-ttl", type: "number", title: "Message TTL", hint: `How long a message may stay. ${MS}` },
  {
    key: "expires",
    type: "number",
    title: "Expires",
    hint: `How long a queue may be unused before it is deleted. ${MS}`,
  },
  { key: "max-length", type: "number", title: "Max length", hint: "How many messages may be ready." },
  { key: "max-length-bytes", type: "number", title: "Max length bytes", hint: "How many bytes of ready messages." },
  {
    key: "overflow",
    type: "text",
    title: "Overflow",
    values: ["drop-head", "reject-publish", "reject-publish-dlx"],
    hint: "What happens at the limit.",
  },
  { key: "delivery-limit", type: "number", title: "Delivery limit", hint: "How often a message may be requeued." },
];

export const POLICY_KEYS = [
  ...LIMITS,
  {
    key: "dead-letter-exchange",
    type: "text",
    title: "Dead letter exchange",
    hint: "Where expired, rejected and overflowing messages go.",
  },
  {
    key: "dead-letter-routing-key",
    type: "text",
    title: "Dead letter key",
    hint: "The routing key of dead letters; by default their own.",
  },
  {
    key: "alternate-exchange",
    type: "text",
    title: "Alternate exchange",
    hint: "For exchanges: where unroutable messages go.",
  },
  { key: "queue-mode", type: "text", title: "Mode", values: ["lazy", "default"], hint: "Lazy keeps messages on disk." },
  {
    key: "ha-mode",
    type: "text",
    title: "HA mode",
    values: ["all", "exactly", "nodes"],
    hint: "Which nodes have a mirror of the queue.",
  },
  {
    key: "ha-params",
    type: "json",
    title: "HA params",
    hint: "For exactly a number, for nodes a list of names.",
  },
  {
    key: "ha-sync-mode",
    type: "text",
    title: "HA sync mode",
    values: ["manual", "automatic"],
    hint: "Whether a new mirror is synchronised at once.",
  },
  {
    key: "ha-promote-on-shutdown",
    type: "text",
    title: "HA mirror promotion on shutdown",
    values: ["when-synced", "always"],
    hint: "Which mirrors may be promoted when the master is shut down.",
  },
  {
    key: "federation-upstream-set",
    type: "text",
    title: "Federated with a set",
    value: "all",
    hint: "A set of upstreams; all has every upstream of the virtual host.",
  },
  { key: "federation-upstream", type: "text", title: "Federated with", hint: "One upstream." },
];

export const OPERATOR_POLICY_KEYS = LIMITS;

/** Of a shovel, beside source and destination. */
export const SHOVEL_KEYS = [
  {
    key: "ack-mode",
    type: "text",
    title: "Ack mode",
    values: ["on-confirm", "on-publish", "no-ack"],
    hint: "When a message is acked at the source. on-confirm loses nothing.",
  },
  { key: "src-prefetch-count", type: "number", title: "Prefetch", hint: "The maximum number of unacked messages." },
  {
    key: "src-delete-after",
    type: "text",
    title: "Delete after",
    value: "queue-length",
    hint: "When the shovel deletes itself: queue-length, after the messages present at the start; or a number.",
  },
  { key: "reconnect-delay", type: "number", title: "Reconnect delay", hint: "Seconds; 0 for never." },
  { key: "dest-add-forward-headers", type: "yesno", title: "Add forward headers", hint: "In the header x-shovelled." },
  {
    key: "dest-add-timestamp-header",
    type: "yesno",
    title: "Add timestamp header",
    hint: "In the header x-shovelled-timestamp.",
  },
  {
    key: "dest-mandatory",
    type: "yesno",
    title: "Mandatory",
    hint: "Unroutable messages stay at the source. Needs on-confirm.",
  },
  { key: "dest-publish-properties", type: "json", title: "Properties", hint: "Properties to set on every message." },
  { key: "src-queue-args", type: "json", title: "Source's arguments", hint: "For declaring the queue." },
  { key: "dest-queue-args", type: "json", title: "Destination's arguments", hint: "For declaring the queue." },
  { key: "src-consumer-args", type: "json", title: "Consumer's arguments", hint: "x-priority, x-stream-offset." },
];

/** Of a federation upstream, beside its URIs. */
export const UPSTREAM_KEYS = [
  { key: "max-hops", type: "number", title: "Max hops", hint: "For exchanges: the maximum number of brokers a message passes." },
  { key: "exchange", type: "text", title: "Exchange", hint: "Its name at the upstream; the same by default." },
  { key: "queue", type: "text", title: "Queue", hint: "Its name at the upstream; the same by default." },
  {
    key: "ack-mode",
    type: "text",
    title: "Ack mode",
    values: ["on-confirm", "on-publish", "no-ack"],
    hint: "When a message is acked at the upstream. on-confirm loses nothing.",
  },
  { key: "prefetch-count", type: "number", title: "Prefetch", hint: "The maximum number of unacked messages." },
  { key: "reconnect-delay", type: "number", title: "Reconnect delay", hint: "Seconds." },
  {
    key: "expires",
    type: "number",
    title: "Expires",
    hint: `For exchanges: how long the queue at the upstream survives a link that is down. ${MS}`,
  },
  {
    key: "message-ttl",
    type: "number",
    title: "Message TTL",
    hint: `For exchanges: how long a message waits at the upstream for the link. ${MS}`,
  },
  { key: "trust-user-id", type: "yesno", title: "Trust user id", hint: "Whether user ids of messages stay." },
];

/** Well-known properties of a message. */
export const MESSAGE_PROPERTIES = [
  { key: "content_type", type: "text" },
  { key: "content_encoding", type: "text" },
  { key: "priority", type: "number" },
  { key: "correlation_id", type: "text" },
  { key: "reply_to", type: "text" },
  { key: "expiration", type: "text", hint: "Milliseconds, as text." },
  { key: "message_id", type: "text" },
  { key: "timestamp", type: "number", hint: "Seconds since 1970." },
  { key: "type", type: "text" },
  { key: "user_id", type: "text" },
  { key: "app_id", type: "text" },
];
