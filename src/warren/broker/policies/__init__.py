"""Policies and parameters: what they may say, and which policy is effective for a queue or exchange.
Not here: applying them to queues and exchanges (`broker.policy_enforcer`), commands
(`broker.commands.requests.policies`).
"""
