// The arguments and policy keys a broker knows, with what they mean: what forms offer.

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
    hint: "What happens beyond the limit.",
  },
  {
    key: "x-dead-letter-exchange",
    type: "text",
    title: "Dead letter exchange",
    hint: "Where messages go that expire, are rejected or are too many.",
  },
  {
    key: "x-dead-letter-routing-key",
    type: "text",
    title: "Dead letter key",
    hint: "The routing key they get there; else their own.",
  },
  {
    key: "x-ha-mode",
    type: "text",
    title: "Mirrors",
    values: ["all", "exactly", "nodes"],
    hint: "Which nodes hold the queue, where no policy says so.",
  },
  {
    key: "x-copy-from",
    type: "text",
    title: "Copy from",
    hint: "The queue of whose messages this one gets copies.",
  },
  {
    key: "x-copy-routing-key",
    type: "text",
    title: "Copy routing key",
    hint: "A topic pattern for what is copied; everything, unless given.",
  },
  {
    key: "x-max-priority",
    type: "number",
    title: "Max priority",
    hint: "The highest priority told apart, 1 to 255; a few are enough.",
  },
  {
    key: "x-single-active-consumer",
    type: "yesno",
    title: "Single active consumer",
    hint: "One consumer is served at a time.",
  },
  {
    key: "x-delivery-limit",
    type: "number",
    title: "Delivery limit",
    hint: "How often a message may be given back before it is dropped or dead-lettered.",
  },
  {
    key: "x-queue-mode",
    type: "text",
    title: "Mode",
    values: ["lazy", "default"],
    hint: "Lazy keeps messages on disk.",
  },
  { key: "x-queue-type", type: "text", title: "Type", values: ["classic", "quorum", "stream"], hint: "The kind of queue." },
  {
    key: "x-max-age",
    type: "text",
    title: "Age",
    hint: "Of a stream: how old messages become, such as 7D, 12h or 30m.",
  },
  {
    key: "x-stream-max-segment-size-bytes",
    type: "number",
    title: "Segment size",
    hint: "Of a stream: how large its files become. Old messages go by whole files.",
  },
  {
    key: "x-stream-partitions",
    type: "number",
    title: "Partitions",
    hint: "Of a stream: how many streams share what is published to its name, by routing key.",
  },
];

export const EXCHANGE_ARGUMENTS = [
  {
    key: "alternate-exchange",
    type: "text",
    title: "Alternate exchange",
    hint: "Where messages go that find no way here.",
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
    hint: "For headers exchanges: whether all headers must agree, or one.",
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
    hint: "What happens beyond the limit.",
  },
  { key: "delivery-limit", type: "number", title: "Delivery limit", hint: "How often a message may be given back." },
];

export const POLICY_KEYS = [
  ...LIMITS,
  {
    key: "dead-letter-exchange",
    type: "text",
    title: "Dead letter exchange",
    hint: "Where messages go that expire, are rejected or are too many.",
  },
  {
    key: "dead-letter-routing-key",
    type: "text",
    title: "Dead letter key",
    hint: "The routing key they get there; else their own.",
  },
  {
    key: "alternate-exchange",
    type: "text",
    title: "Alternate exchange",
    hint: "For exchanges: where messages go that find no way.",
  },
  { key: "queue-mode", type: "text", title: "Mode", values: ["lazy", "default"], hint: "Lazy keeps messages on disk." },
  {
    key: "ha-mode",
    type: "text",
    title: "Mirrors",
    values: ["all", "exactly", "nodes"],
    hint: "Which nodes have a copy of the queue.",
  },
  {
    key: "ha-params",
    type: "json",
    title: "Mirrors: how many or which",
    hint: "For exactly a number, for nodes a list of names.",
  },
  {
    key: "ha-sync-mode",
    type: "text",
    title: "Mirrors: filling",
    values: ["manual", "automatic"],
    hint: "Whether a new mirror is filled at once.",
  },
  {
    key: "ha-promote-on-shutdown",
    type: "text",
    title: "Mirrors: at a stop",
    values: ["when-synced", "always"],
    hint: "Which mirrors may take over when the master is stopped.",
  },
  {
    key: "federation-upstream-set",
    type: "text",
    title: "Federated with a set",
    value: "all",
    hint: "A set of upstreams to take from; all has every one of the virtual host.",
  },
  { key: "federation-upstream", type: "text", title: "Federated with", hint: "One upstream to take from." },
];

export const OPERATOR_POLICY_KEYS = LIMITS;

/** Of a shovel, beside its two ends. */
export const SHOVEL_KEYS = [
  {
    key: "ack-mode",
    type: "text",
    title: "Ack mode",
    values: ["on-confirm", "on-publish", "no-ack"],
    hint: "When a message is done with at the source. on-confirm loses nothing.",
  },
  { key: "src-prefetch-count", type: "number", title: "Prefetch", hint: "How many messages may be on their way at once." },
  {
    key: "src-delete-after",
    type: "text",
    title: "Delete after",
    value: "queue-length",
    hint: "When it ends and deletes its definition: queue-length, after as many as there are when it connects; or a number.",
  },
  { key: "reconnect-delay", type: "number", title: "Reconnect delay", hint: "Seconds; 0 for never." },
  { key: "dest-add-forward-headers", type: "yesno", title: "Tell the way", hint: "In the header x-shovelled." },
  {
    key: "dest-add-timestamp-header",
    type: "yesno",
    title: "Tell the time",
    hint: "In the header x-shovelled-timestamp.",
  },
  {
    key: "dest-mandatory",
    type: "yesno",
    title: "Mandatory",
    hint: "What the exchange routes to no queue stays at the source. Needs on-confirm.",
  },
  { key: "dest-publish-properties", type: "json", title: "Properties", hint: "That every message gets." },
  { key: "src-queue-args", type: "json", title: "Source's arguments", hint: "For declaring the queue." },
  { key: "dest-queue-args", type: "json", title: "Destination's arguments", hint: "For declaring the queue." },
  { key: "src-consumer-args", type: "json", title: "Consumer's arguments", hint: "x-priority, x-stream-offset." },
];

/** Of an upstream of federation, beside its URIs. */
export const UPSTREAM_KEYS = [
  { key: "max-hops", type: "number", title: "Max hops", hint: "For exchanges: through how many brokers a message comes." },
  { key: "exchange", type: "text", title: "Exchange", hint: "Its name over there; the same as here, unless given." },
  { key: "queue", type: "text", title: "Queue", hint: "Its name over there; the same as here, unless given." },
  {
    key: "ack-mode",
    type: "text",
    title: "Ack mode",
    values: ["on-confirm", "on-publish", "no-ack"],
    hint: "When a message is done with over there. on-confirm loses nothing.",
  },
  { key: "prefetch-count", type: "number", title: "Prefetch", hint: "How many messages may be on their way at once." },
  { key: "reconnect-delay", type: "number", title: "Reconnect delay", hint: "Seconds." },
  {
    key: "expires",
    type: "number",
    title: "Expires",
    hint: `For exchanges: how long what is kept over there outlives a link that is down. ${MS}`,
  },
  {
    key: "message-ttl",
    type: "number",
    title: "Message TTL",
    hint: `For exchanges: how long a message waits over there for the link. ${MS}`,
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
