"""`warren client`: for programs that use the client, what can be told about their settings before they run.

Not here: settings themselves (`warren.client.settings`).
"""
