"""The node as a host of bridges: what it tells them, and how they reach it.

Not here: what bridges do (`warren.bridges`), what operators are told of them (`admin.bridges_port`).
"""
