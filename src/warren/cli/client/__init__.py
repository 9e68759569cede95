"""`warren client`: for programs that use the client, a look at their settings, and the jobs that run beside them.

Not here: settings themselves (`warren.client.settings`), what the jobs do (`warren.client.outbox` and its like).
"""
