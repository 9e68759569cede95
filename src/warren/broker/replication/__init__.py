"""Mirrored queues and streams: a replica set of nodes that hold the same queue: a master that everybody uses, and
mirrors that can take its place.

Theory of operation
===================

Members. The *replica set* of a queue is agreed upon in the metadata store, by compare-and-swap: an *epoch*, the
master, the
members, and which of them are *in sync*, each with its incarnation (one start of its node's process). The epoch
grows by
one whenever the master changes. Members that are not in sync are on their way to be.

Replication batches. All that the master does to the queue in one turn is one *replication batch*. The master
numbers batches, through all epochs,
and sends each to every mirror; each mirror answers how far it has got: FLUSHED n says that everything up to batch
n is held
and, where it has to be, on disk. What every *counted* member has is *committed*, and the master tells everybody
how far
that is. Only then is a publish confirmed, and only then does a consumer see the message. ::

    publish ──► master: position, journal ──batch n──► mirror: journal ──flush──► FLUSHED n ──┐
                   └── own flush ─────────────────────────────────────────────────────────┴──► committed: confirm,
                   deliver

The master speaks to each mirror itself. Mirrors do not relay: a lap round n members would take n hops instead of
two, a
relay that dies leaves a gap to mend, and a cut between two mirrors would concern everybody. Bytes and CPU are the
same.

What a batch says: STORE a message under a position, REMOVE positions, WATERMARK (what may have been handed out),
RETURNED
(how often a message came back), OPEN (an epoch begins), STORED_OFFSET (how far a reader has come). A mirror
carries out
STORE and WATERMARK as they come, because they have to be safe; REMOVE and RETURNED when their batch is committed.
So a batch
that turns out not to count can be dropped, and nothing has to be brought back. Replication batches that are not
committed are kept:
whoever is promoted sends them to those who lack them.

Positions are given out by the master, upwards, and each epoch has its own. So a position belongs to one message for
ever, and two replicas differ exactly where their positions do.

The rules
=========

1.  A mirror takes batch n only if it holds batch n-1, and only of the master and epoch that it follows.
2.  A restarted member has lost whatever was not flushed: another incarnation is another member. It is not in sync
    until
    it has caught up and was admitted.
3.  Replication batches keep the epoch in which they were numbered. A mirror that was in sync tells a new master
    where its epochs
    begin and where it ends; the answer is the last batch they have in common. It drops what it has beyond: removes
    what
    those batches stored, and forgets what else they said. Never below what it knows to be committed. A master that
    hands
    over does the same: it made those batches, and stays in sync.
4.  A new master opens its epoch with a batch of its own. It confirms and delivers nothing before that is committed.
5.  In-sync members of unbroken incarnation are promoted, the eldest first; after a full stop, one that was in sync
    when
    it ended: everything that was confirmed is on its disk. Others only if a policy says so, and what is given up is
    told.
6.  Only the master admits and drops. It counts whoever is in sync by what was agreed upon, and by any proposal since
    that may have come about: a joining mirror counts before it is proposed, and whoever is dropped counts until
    that is
    known.
7.  Those who are not in sync get all batches, too, and are waited for by nobody. What was before comes behind, in
    slices.
8.  Progress is told whenever it changes, also when no batch flows.
9.  The loss of a link to a counted mirror makes the master propose to drop it. The loss of the master makes the
    eldest
    propose itself at once, and the next after a delay. The store decides between them.
10. A mirror that is about to propose itself follows nobody any more. The old master needs it to commit anything,
    so it
    commits nothing: no clock is needed for that.
11. Delivering is another matter: a message must not be with two exclusive consumers. A master that has not heard from
    all counted members for `DELIVERY_LEASE_MS` hands out nothing. A new master hands out when the old incarnation
    is known to have
    ended, or after `DELIVERY_LEASE_MS` and a margin.
12. A delivery watermark (WATERMARK) is committed before anything below it is handed out. After a failover whatever
    is below
    carries `redelivered`, and nothing else does.
13. A joining mirror tells which positions it holds. The master takes note of what it has itself at that moment,
    sends every
    batch from then on, and behind them the difference: what is to be removed, what is lacking. A removal that comes
    before its message is remembered until the joining mirror has caught up.
14. It has caught up when all that is on its disk, and the batch it began behind is committed; then it is counted,
    then
    proposed, then admitted. So is one that was dropped and has kept all it had, once it holds, committed, whatever
    its
    master inherited: some of that may have been committed without it.
15. Who is to hold the queue is changed by the master: others are added at once, and taken out when as many as are
    wanted are in sync without them. Whoever is taken out drops its replica when it hears of that. If it is taken
    in again,
    its master does not hear it before it knows that it was gone: it would count with what it is about to drop.

Publishes carry their *origin* (a node, its incarnation, and its own count of publishes to this queue). Every member
keeps the highest count of each origin, so a new master can tell a node what it has of what that node sent.

Publishing ids (`broker.model.window`) are learned from the messages that batches store, by whoever holds them, and
are struck
out with batches that do not count. So a master that was promoted knows a repeated publish by what it holds,
committed or
not. A joining mirror is told all ids, and how far readers have come, when it has been sent everything else; it has
caught up
when those are on its disk, too. STORED_OFFSET says in a batch how far a reader has come, and is carried out as it
comes: what
a reader is done with is committed.

Not here: what a queue is (`broker.queues`), what goes over links (`broker.links`).
"""
