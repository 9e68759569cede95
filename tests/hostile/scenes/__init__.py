"""Scenes: a hostile client at one door of a node, and what it does there.

`tests/hostile/test_rule.py` and `bench/hostile` run them beside a well-behaved pair. *Not here:* the pair and the rule
(`tests.hostile.bystanders`, `tests.hostile.rule`).
"""
