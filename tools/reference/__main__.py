"""Write all generated pages."""

from __future__ import annotations

from tools.reference.pages import PAGES

for path, text in PAGES.items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text(), encoding="utf-8")
