"""Mirrored queues and streams: a replica set of nodes holds the same queue, with one master and its mirrors.

Theory of operation
===================

Members. The *replica set* of a queue is part of its definition in the metadata store, and changes by compare-and-swap:
an *epoch*, the master, the members, and the members that are *in sync*, each with its incarnation (one start of its
node's process). The epoch grows by one when the master changes. A member that is not in sync is joining.

Replication batches. Everything that the master does to the queue in one turn is one *replication batch*. The master
numbers batches, through all epochs, and sends each to every mirror. A mirror answers FLUSHED n: it holds every batch up
to n, on disk where that is required. A batch is *committed* when every *counted* member has it. The master tells the
mirrors the number of the last committed batch. Only then is a publish confirmed, and only then does a consumer get the
message. ::

    publish ──► master: position, journal ──batch n──► mirror: journal ──flush──► FLUSHED n ──┐
                   └── own flush ─────────────────────────────────────────────────────────────┴──► committed: confirm

The master sends to each mirror directly. Mirrors do not relay: a lap round n members would take n hops instead of two,
a relay that dies would leave a gap, and a cut between two mirrors would concern all members.

The operations of a batch: STORE a message under a position, REMOVE positions, WATERMARK (messages up to this position
may have been delivered), RETURNED (how often a message came back), OPEN (an epoch begins), STORED_OFFSET (how far a
reader has come). A mirror carries out STORE and WATERMARK when they arrive, because they must be safe; REMOVE and
RETURNED when their batch is committed. So an uncommitted batch can be dropped, and no message has to be restored. A
mirror keeps uncommitted batches: after its promotion it sends them to the members that lack them.

The master assigns positions, upwards, and each epoch has positions of its own. So a position belongs to one message for
ever, and two replicas differ exactly where their positions differ.

The rules
=========

1.  A mirror accepts batch n only if it holds batch n-1, and only from the master and in the epoch that it follows.
2.  A restarted member has lost its unflushed batches, so another incarnation is another member. It is not in sync until
    it has caught up and the master has admitted it.
3.  A batch keeps the epoch of its number. A mirror that was in sync tells a new master where its epochs begin
    and where its batches end. The master answers with the last common batch. The mirror drops later batches: it removes
    the messages that they stored and forgets their other operations. It never drops a batch that it knows to be
    committed. A master that hands over does the same, and stays in sync.
4.  A new master opens its epoch with a batch of its own. It confirms and delivers nothing before that is committed.
5.  In-sync members of unbroken incarnation are promoted, the eldest first. After a full stop, a member that was in sync
    when it ended is promoted: every confirmed message is on its disk. Another member is promoted only if a policy
    allows it, and the log says what is lost.
6.  Only the master admits and removes in-sync members. It counts the members that are in sync in the stored replica set
    and in every later proposal that may have succeeded. So a joining mirror counts before it is proposed, and a removed
    mirror counts until its removal is known to have succeeded.
7.  Members that are not in sync get all batches too, and no commit waits for them. Their backfill follows, in slices.
8.  A member reports its progress whenever it changes, also when there are no batches.
9.  When the master loses the link to a counted mirror, it proposes to remove that mirror. When the master is lost, the
    eldest mirror proposes itself at once, and the next one after a delay. The metadata store decides between them.
10. A mirror that is about to propose itself follows no master. The old master needs its answers to commit, so the old
    master commits nothing. This needs no clock.
11. Deliveries need a clock, because two exclusive consumers must not have the same message. A master that has not heard
    from all counted members for `DELIVERY_LEASE_MS` delivers nothing. A new master delivers when the old incarnation is
    known to have ended, or after `DELIVERY_LEASE_MS` and a margin.
12. A delivery watermark (WATERMARK) is committed before a message below it is delivered. After a failover the messages
    below it carry `redelivered`, and no others do.
13. A joining mirror reports the positions it holds. The master records its own positions at that moment, sends every
    later batch, and behind those the difference: positions to remove and messages that are missing. A joining mirror
    remembers a removal that arrives before its message until it has caught up.
14. A joining mirror has caught up when the whole backfill is on its disk and the batch before its first one is
    committed. Then it is counted, then proposed, then admitted. The same holds for a removed mirror that has kept its
    batches, once it holds, committed, all batches that its master inherited: some of them may have been committed
    without it.
15. Only the master changes the members. It adds members at once, and removes one when enough others are in sync. A
    removed member drops its replica when it learns of the removal. If it is added again, the master ignores it until it
    knows that it was removed: it would count with a replica that it is about to drop.

A publish carries its *origin*: a node, its incarnation, and that node's count of publishes to this queue. Every member
keeps the highest count of each origin, so a new master can tell a node which of its publishes it has.

Publishing ids (`broker.model.deduplication`). Every member learns the ids from the messages that batches store, and
removes them with batches that it drops. So a promoted master recognises a repeated publish by the messages it holds,
committed or not. A joining mirror gets all ids and all stored offsets after the backfill, and has caught up when they
are on its disk too. A mirror carries out STORED_OFFSET when it arrives: a reader only stores offsets of committed
messages.

The modules
===========

Imports point down this list; an owner is called through a port that is defined beside its user. ::

    replica_sets            all replicas of a node: definitions, messages and links reach them here
    local_replica           one replica, as master or mirror; proposes itself when the master is lost
    master_replica          the master's queue, its publishers and conditional deletes
    backfill, adoption      messages for joining mirrors; queues that become mirrored
    context                 the services that the replicas of a node share
    placement, peers        the wanted members and masters; the incarnations of other nodes
    replica_queues          contents and master queues, by type
    mirrored_log            the log of a master's queue; delivery_lease: when it may deliver
    replica_links, messages the messages between members, and their bytes
    master, mirror, batches the rules above, without input and output
    stream_contents         streams; with stream_archiver and stream_backfill

Not here: queues (`broker.queues`), the records on links (`broker.links`).
"""
