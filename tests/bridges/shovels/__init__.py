"""Shovels as operators define them, between real brokers."""
