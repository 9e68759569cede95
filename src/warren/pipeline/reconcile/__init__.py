"""The job `reconcile`: two or more ledgers of the same business, compared by business id, each id with one status.

    describing ──▶ settings                        what is compared, checked before anything is read
    sources ──▶ ledgers                            rows of every ledger in one shape
                  ├─▶ comparison.suspects          one pass over all rows: keys that are not plainly in balance
                  └─▶ comparison.compare_keys      a second pass over the rows of those keys, and their status
    job ──▶ summary                                what is written

There are two passes because nearly every key of a day is in balance. The first needs a few bytes for each key, so a
hundred million rows fit a small heap; the second may be thorough, because it sees few rows.

Lemma: a key that the first pass drops is in balance. It has exactly one row in every ledger, all of them readable, in
the business day, and equal in all compared values. (Equal means that 64-bit hashes are equal; among fifty million
differing keys, one would pass by chance once in some four hundred thousand million runs.)

Not here: correcting differences (`pipeline.compensate`).
"""
