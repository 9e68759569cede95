"""Policies and parameters at work: who is told what, how operators change them, how they outlive the node."""
