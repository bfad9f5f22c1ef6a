"""The generated pages of the docs are those of the product as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct
from typer.main import get_command

from server.cli.app import app
from server.config.settings.names import BY_OPTION, SECTIONS
from server.config.settings.skills import SourceSettings
from tools.reference.pages import PAGES
from tools.reference.settings import docstrings_of

STRUCTS = [*(section.kind for section in SECTIONS.values()), SourceSettings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_current(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), f"{page.name} is out of date: run `make reference`"


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_setting_has_its_docstring(kind: type[Struct]) -> None:
    assert list(docstrings_of(kind)) == list(kind.__struct_fields__)


def test_a_setting_knows_the_flag_that_it_has() -> None:
    options = get_command(app).commands["serve"].params  # type: ignore[attr-defined]
    flags = {option.name: option.opts[0] for option in options if option.name in BY_OPTION}
    assert {name: BY_OPTION[name].flag for name in flags} == flags
    assert {BY_OPTION["strictness"].flag, BY_OPTION["adapt"].flag} <= {option.opts[0] for option in options}
