"""Reconciling ledgers: two or more lists of the same business, compared by business id, each id with one status.

::

    describing ──▶ settings ◀── days              what is compared, checked before anything is read
    kit ──▶ sources ──▶ ledgers                   rows of every ledger in one shape
                          ├─▶ comparing.suspects  one pass over all rows: keys that are not plainly in balance
                          └─▶ comparing.judged    a second look at the rows of those keys alone ──▶ statuses
    job ──▶ summary ──▶ page                      what is written

Two passes, because nearly every key of a day is in order. The first needs a few bytes for each key whatever the ledgers
hold, which is why a hundred million rows go through a small heap; the second may be thorough, since it sees little.

Lemma: a key that the first pass lets go is in balance. It has exactly one row in every ledger, all of them readable, in
the business day, and equal in all that is compared. (Equal means that 64 bits made of it are equal; among fifty million
keys that differ, one would pass by chance once in some four hundred thousand million runs.)

Not here: what is done about differences (`pipeline.compensate`).
"""
