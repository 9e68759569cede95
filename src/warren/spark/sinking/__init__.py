"""Rows as messages: which columns they may have, what identifies each, how they become frames, and getting them there.

    rows ──▶ columns ──▶ ids ──▶ encoding ──▶ publishing ──▶ broker

Exactly once comes from three things that stand in different places. A message has an id that depends on what it is and
not on when, where or in which order it is sent (`ids`). The broker remembers ids, and does not keep a message twice.
And a task ends well only when the broker has confirmed all its rows (`publishing`); otherwise Spark runs it again.

Not here: Spark's side of it (`spark.sink`).
"""
