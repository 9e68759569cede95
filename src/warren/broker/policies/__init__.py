"""Policies and parameters: their keys and values, and which policy is effective for a queue or exchange.

Not here: applying them to queues and exchanges (`broker.policy_enforcer`), commands (`broker.commands.policies`).
"""
