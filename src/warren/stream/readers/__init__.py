"""Readers of a stream: each is somewhere in it, and is given what comes next when its client has room for it.

::

    consumer's arguments ──opening──► messages   one delivery a message, perhaps only some of them (`wish`)
                                      chunks     one delivery a chunk: many messages as columns
                                      probe      one delivery in all, which says where the stream begins and ends

What they share is how they find where to begin and how they read the archive (`reader`). A reader with a name has its
progress kept (`bookmarks`), so that the next one of that name can go on behind it.

Not here: whose turn it is (`stream.stream`), the bytes of a chunk (`stream.chunk`).
"""
