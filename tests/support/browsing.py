"""A page of a real browser that is looked after: what must hold on every page, and a person without a mouse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

AXE_FROM = "axe_core_python.sync_playwright"
GRAVE = {"serious", "critical"}
MOST_STOPS = 250
"""Stops of the Tab key on a page before a thing is held not to be there."""

_WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_SHIFT = (
    "new Promise(done => { let sum = 0; new PerformanceObserver(list => { for (const entry of"
    " list.getEntries()) sum += entry.value }).observe({type: 'layout-shift', buffered: true});"
    " setTimeout(() => done(sum), 50) })"
)
# What has the focus: its words, its name in a form, whether one can see that, and whether it comes in order.
_FOCUS = """() => {
    const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
    const label = at.labels && at.labels.length ? at.labels[0].textContent : '';
    const before = window.__before;
    const after = !before || !before.isConnected
        || !!(before.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING);
    window.__before = at;
    return {
        words: (at.textContent || at.value || '').trim().replace(/\\s+/g, ' '), label: label.trim(),
        name: at.getAttribute('name') || '', tag: at.tagName.toLowerCase(),
        form: at.form ? [...at.form.elements].filter(e => e.type === 'submit').map(e => e.value).join(' ') : '',
        ringed: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
        seen: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
        after, body: at === document.body,
    }
}"""


class Watchful:
    """A page of a browser that remembers what went wrong in it."""

    def __init__(self, browser: Any, axe: Any, width: int = 1440, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.axe = axe
        self.name = f"{width}-{scheme}"
        self.errors: list[str] = []
        self.page.on("console", lambda told: self.errors.append(told.text) if told.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._refuse)

    def _refuse(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def settle(self, what: str, *, refused: int | None = None) -> None:
        """What must hold on every page: it fits, also unfolded, is accessible, nothing is wrong, nothing is alive.

        ``refused`` is the status of a page that is meant to be one, which a browser tells as an error.
        """
        page = self.page
        assert page.evaluate(_SHIFT) < 0.01, f"{what} moves while it loads"
        page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        assert page.evaluate(_WIDER) <= 0, f"{what} is wider than {self.name}"
        found = self.axe.run(page)["violations"]
        grave = [(item["id"], item["nodes"][0]["html"][:200]) for item in found if item["impact"] in GRAVE]
        assert not grave, f"{what} at {self.name}: {grave}"
        assert page.evaluate("document.scripts.length") == 0
        assert page.evaluate("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length") == 0
        assert "owned" not in page.title()
        if refused is not None:
            self.errors = [told for told in self.errors if f"status of {refused}" not in told]
        assert not self.errors, self.errors
        folder = os.environ.get("HUBWATCH_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{folder}/{what}-{self.name}.png", full_page=True)


class Keyboard:
    """A person without a mouse: goes by Tab, types, presses Enter. Every stop must show, and come in order."""

    def __init__(self, page: Any) -> None:
        self.page, self.keys = page, page.keyboard

    def tab(self) -> dict[str, Any]:
        """One stop further; fails if one cannot see where that is, or if it leads back."""
        self.keys.press("Tab")
        at: dict[str, Any] = self.page.evaluate(_FOCUS)
        if not at["body"]:
            assert at["ringed"], f"no ring on {at}"
            assert at["seen"], f"out of sight: {at}"
            assert at["after"], f"out of order: {at}"
        return at

    def to(self, words: str = "", *, name: str = "", form: str = "") -> None:
        """Go on to what says these words, or to the field of this name in the form that does ``form``."""
        passed = []
        for _ in range(MOST_STOPS):
            at = self.tab()
            if at["body"]:
                break
            passed.append(f"{at['tag']} {at['name']} {at['words'][:40]}")
            fits = at["words"] == words or at["label"] == words if words else at["name"] == name
            if fits and (not form or form in at["form"].split()) and (at["tag"] != "button" or not name):
                return
        raise AssertionError(f"no stop at {words or name} on {self.page.url}: {passed}")

    def follow(self, words: str) -> None:
        """Go to a link or button and press it."""
        self.to(words)
        self.press()

    def press(self) -> None:
        """Press what has the focus, and wait for the page that this leads to."""
        with self.page.expect_navigation():
            self.keys.press("Enter")

    def fill(self, form: str, **fields: str) -> None:
        """Fill in fields of the form that does ``form``, in its order."""
        for name, text in fields.items():
            self.to(name=name, form=form)
            self.keys.type(text)
