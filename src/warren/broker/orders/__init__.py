"""Operators' orders about what clients make and about clients themselves."""
