"""Definitions come back: files of them, taken apart, judged and carried out whole."""
