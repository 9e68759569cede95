"""Accessibility rules that a script can check: for users of a keyboard, of a screen reader, or with weak eyes.

Each rule (`accessibility_rules.js`) answers the places that break it. Contrast is WCAG 2's: 4.5 to 1 for text, 3 to 1
for large text, computed from the colours the browser really uses, through every half-transparent layer.

Not here: rules that only a person can judge, such as whether a label is meaningful.
"""

from pathlib import Path

from playwright.sync_api import Page

_RULES = Path(__file__).with_name("accessibility_rules.js").read_text()


def broken_rules(page: Page) -> list[str]:
    """The rules that the page breaks as it stands, folded parts unfolded."""
    page.evaluate("() => document.querySelectorAll('details').forEach((part) => (part.open = true))")
    broken: list[str] = page.evaluate(_RULES)
    return broken
