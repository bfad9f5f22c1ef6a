"""What clients can list, as pure functions of a catalog: no server, no client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.config.settings.server import Transport
from server.listing.envelope import cacheable
from server.listing.layout import ListingLayout
from server.listing.snapshot import Snapshot
from skills_core import Catalog, Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.server.settings import make_settings


def catalog_of(skills: Path) -> Catalog:
    return Library(explicit_sources([skills]), current_environment).catalog


@pytest.mark.parametrize("watch", [mode for mode in WatchMode if mode is not WatchMode.OFF])
def test_what_is_watched_may_be_kept_for_a_moment_and_what_is_frozen_for_long(watch: WatchMode) -> None:
    watched, frozen = (
        cacheable(make_settings(watch=watch))["ttlMs"],
        cacheable(make_settings(watch=WatchMode.OFF))["ttlMs"],
    )
    assert 0 < watched <= 1000
    assert frozen >= 600_000


def test_the_answers_to_one_user_are_private_and_those_to_all_who_ask_are_public() -> None:
    assert cacheable(make_settings(transport=Transport.STDIO))["cacheScope"] == "private"
    assert cacheable(make_settings(transport=Transport.HTTP))["cacheScope"] == "public"


def test_every_list_says_how_long_it_may_be_kept(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    settings = make_settings(watch=WatchMode.OFF)
    snapshot = Snapshot(catalog_of(skills), settings)
    pages = [
        snapshot.prompts.page(None),
        snapshot.resources.page(None),
        snapshot.skills.page(None),
        snapshot.tools(ListingLayout(1000)),
    ]
    for page in (*pages, snapshot.templates):
        assert page.items() >= cacheable(settings).items()


def described(skills: Path) -> dict[str, Any]:
    snapshot = Snapshot(catalog_of(skills), Settings())
    listed: list[dict[str, Any]] = snapshot.resources.page(None)["resources"]
    return {resource["uri"]: resource for resource in listed}


def test_further_fields_of_a_skill_stand_under_the_reserved_prefix(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", fields="license: MIT\nmetadata: {author: me}\nodd key!: 1", files={"x.md": b"x"})
    listed = described(skills)
    assert listed["skill://one/SKILL.md"]["_meta"] == {
        "io.modelcontextprotocol.skills/license": "MIT",
        "io.modelcontextprotocol.skills/metadata": {"author": "me"},
    }
    assert "_meta" not in listed["skill://one/x.md"]


def test_no_field_makes_a_list_long(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", fields=f"license: {'x' * 5000}")
    assert "_meta" not in described(skills)["skill://one/SKILL.md"]


@pytest.mark.parametrize("serve_evals", [False, True])
def test_small_pages_hold_what_one_page_holds(skills: Path, make_skill: MakeSkill, serve_evals: bool) -> None:  # noqa: FBT001 - a parameter
    # `-` sorts before `/`, so what is nested in `a` comes after `a-b`; its eval files are no eval files of `a/c`.
    make_skill("a", files={"z.md": b"", "c/evals/x.json": b"{}", "c/notes.md": b"", "d.md": b""})
    make_skill("a-b", files={"z.md": b""})
    make_skill("a/c")
    make_skill("other")
    settings, small = (make_settings(serve_evals=serve_evals, page_size=size) for size in (500, 1))
    catalog = catalog_of(skills)
    whole = Snapshot(catalog, settings).resources.page(None)["resources"]
    uris = [each["uri"] for each in whole]
    assert len(uris) == len(set(uris)) == (9 if serve_evals else 8)
    for kind in ("resources", "prompts"):
        pager, cursor, found = getattr(Snapshot(catalog, small), kind), None, []
        while page := pager.page(cursor):
            found += page[kind]
            if (cursor := page.get("nextCursor")) is None:
                break
        assert found == getattr(Snapshot(catalog, settings), kind).page(None)[kind]
