"""The generated pages and their generators."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.audit_figures.page import figures_page
from tools.reference.audit import audit_page
from tools.reference.client_pages import client_pages
from tools.reference.clients import clients_page
from tools.reference.commands import commands_page
from tools.reference.reason_codes import reason_codes_page
from tools.reference.seeds import seeds_page
from tools.reference.settings import settings_page
from tools.reference.troubleshooting import troubleshooting_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["PAGES"]

_FOLDER: Final = Path(__file__).parents[2] / "docs/reference"

PAGES: Final[Mapping[Path, Callable[[], str]]] = {
    _FOLDER / "audit-figures.md": figures_page,
    _FOLDER / "audit.md": audit_page,
    _FOLDER / "clients.md": partial(clients_page, _FOLDER / "clients.md"),
    _FOLDER / "commands.md": commands_page,
    _FOLDER / "reason-codes.md": partial(reason_codes_page, _FOLDER / "reason-codes.md"),
    _FOLDER / "seeds.md": partial(seeds_page, _FOLDER / "seeds.md"),
    _FOLDER / "settings.md": settings_page,
    _FOLDER.parent / "troubleshooting.md": troubleshooting_page,
    **client_pages(_FOLDER.parent / "clients"),
}
