"""Streams that several nodes hold: what a member has of one, and what its master's stream does with that.

Theory of operation
===================

A stream is mirrored by the ring that any queue is (`mirroring`): what is published is a STORE in a step, and counts
when that is settled. What differs is what becomes of it then. A queue's messages leave one by one, in steps; a stream's
stay, and every member moves them for itself from its journal to its own archive. ::

    STORE ──► journal ──settled──► archive: chunks of what is settled, without a gap     (each member for itself)
    retention: the master's segments go ──REMOVE p──► settled ──► whole segments of others that end at p or before

1.  A copy of a stream is its archive and, behind that, what its journal has. Which positions it has is told by both.
    Where chunks begin and end differs from member to member; what is in them does not.
2.  Only what is settled gets into an archive. So nothing is ever in one that another master might give out again under
    the same offset, and nobody has to take anything out of one. A mirror that was not told so far what is settled of
    what it holds, because it has restarted, archives nothing of that until its master has compared the two: what the
    master lacks is taken out first, then comes the past, in order, and up to where that has come all is settled.
3.  One writes to the archive at a time, the `Archivist`. A mirror's reads what is settled back from its journal, a
    chunk's worth at a time. A master's gets chunks of its stream, which has them in memory. A mirror that is promoted
    lets the chunk that is being written be written first; a master that steps down leaves its last one to its mirror.
4.  Retention is the master's decision, and needs nobody's consent: it drops segments and says up to where. The others
    drop whole segments, so they may keep a little more. An archive begins with what was the first thing there was, at
    some time: what lies before that is gone, and nobody is sent it, though another may still have it.
5.  A new master gives out offsets that go on behind the highest it holds, in positions of its own epoch. Whatever it
    holds is settled with its epoch's first step. What another has beyond is taken off when that comes back.
6.  One that is promoted though it was not in sync may lack something in the middle. Offsets have no gaps: it keeps what
    it has up to the first one, and gives up the rest, as it gives up what it never had. Whoever then comes back with an
    archive that has what the master does not have, begins anew, with nothing.
7.  What a newcomer lacks is read from the archive or from the journal, wherever it is by then, and goes through the
    journal of the newcomer, which archives it as it comes. Streams always catch up by themselves: they are not emptied,
    so waiting for what is old to go would be in vain.
8.  Files can be lost as a whole, and then nothing in them tells. So the journal has a mark: up to which position the
    archive went when the journal forgot what is in it. The two are one batch. Whatever an archive has beyond its mark
    is in the journal as well; an archive that ends before it has lost something. Before an archive is cleared (4) the
    mark is 0 on disk: what is left of it after a crash is no more than that.
9.  A member that was in sync and has lost something takes no part: as the master it would give out offsets again, and
    have the others drop what it lost. It says so. When the ring counts on it no more it writes down that it has lost
    something. What its journal forgot, it does not take in again, so it cannot be sent that as a newcomer (7): when
    there is a master it begins with nothing, as it does if what it has cannot be read. If there is none, it may be
    promoted as any other that is not in sync, with what is left (6), and then has lost nothing. If no other was in
    sync, it waits for an operator.
10. Damage may be met later, when somebody reads, or a mirror archives. Nobody throws anything away for that: others may
    be counting on the rest at that moment, also if this node has not heard of it. A master goes on without those who
    want what is damaged; a mirror leaves it in its journal, and says so.

Readers are with the master. When that changes their seats attach them to the next one, behind the last message that
each was given.

Not here: rings (`mirroring`, `broker.mirrors`), one node's stream (`stream`).
"""
