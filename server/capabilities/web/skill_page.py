"""The page of one skill: what it says, its files, what is wrong with it, and the panels of other capabilities."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

from server.capabilities.web.catalog_page import skill_address
from server.html.markdown import render_markdown
from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import printable
from skills_core.rendering.matches import names_in_short
from skills_core.skills.skill import State
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from markupsafe import Markup

    from server.capability import SkillPanel, Visit
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill, SkillFile

logger = logging.getLogger(__name__)

MAX_SHOWN: Final = 256 * 1024
"""Bytes of a text file that are shown."""

_CHARACTERS_OF_A_TOKEN: Final = 4
_MARKDOWN: Final = (".md", ".markdown")
_MAX_ALIKE: Final = 10


class ShownPanel(NamedTuple):
    """A panel with the values for its template; without values, it cannot be made, and the log says why."""

    panel: SkillPanel
    values: Mapping[str, Any] | None


class FilePage(NamedTuple):
    """A file of a skill: its text, None if it has none, and as HTML if it is Markdown. `is_cut` tells of an end."""

    file: SkillFile
    text: str | None
    html: Markup | None = None
    is_cut: bool = False


def skill_values(skill: Skill, visit: Visit, panels: Iterable[SkillPanel]) -> Mapping[str, Any]:
    """Return the values for the template of a skill. It may take long, so run it in a worker thread."""
    return {
        "skill": skill,
        "facts": list(_facts(skill, visit)),
        "body": _rendered(skill, skill.body, ""),
        "files": list(_files(skill, visit)),
        "diagnostics": [*_diagnostics(skill, visit)],
        "panels": [shown for panel in panels if (shown := _shown(panel, skill, visit)) is not None],
        "tokens": _tokens(skill),
    }


class ShownDiagnostic(NamedTuple):
    """A diagnostic as a visitor sees it: the place is a path on the server's disk for operators alone."""

    severity: str
    message: str
    place: str
    advice: str | None


def _diagnostics(skill: Skill, visit: Visit) -> Iterable[ShownDiagnostic]:
    catalog = visit.view.catalog
    for each in skill.diagnostics:
        place = f"{each.path or ''}{f', line {each.line}' if each.line else ''}"
        texts = (
            (each.message, place)
            if visit.is_operator
            else (below_sources(catalog, each.message), below_sources(catalog, place))
        )
        yield ShownDiagnostic(each.severity.value, *texts, ADVICE.get(each.code))


def below_sources(catalog: Catalog, text: str) -> str:
    """Return a text with paths below the sources and their projects, instead of from the root of the disk."""
    sources = [found.source for found in catalog.sources]
    roots = {printable(str(root)) for each in sources for root in (each.root, each.project) if root is not None}
    for root in sorted(roots, key=len, reverse=True):
        text = text.replace(f"{root}/", "").replace(root, ".")
    return text


def _shown(panel: SkillPanel, skill: Skill, visit: Visit) -> ShownPanel | None:
    if panel.operators and not visit.is_operator:
        return None
    try:
        values = panel.show(skill, visit)
    except Exception:
        # One damaged file must not take the rest of the page away.
        logger.exception("the panel %s of the page cannot be shown", panel.key)
        return ShownPanel(panel, None)
    return None if values is None else ShownPanel(panel, values)


def _tokens(skill: Skill) -> int:
    return -(-skill.body_length // _CHARACTERS_OF_A_TOKEN)


def _facts(skill: Skill, visit: Visit) -> Iterable[tuple[str, object]]:
    front = skill.frontmatter
    yield "State", skill.state.value
    if front.version:
        yield "Version", front.version
    if front.license:
        yield "License", front.license
    if front.tags:
        yield "Tags", ", ".join(front.tags)
    if alike := visit.view.alike_to(skill):
        yield "Alike", f"{len(alike)}: {names_in_short(alike, _MAX_ALIKE)}"
    yield "Address", skill.uri
    yield "Source", str(skill.source.root) if visit.is_operator else skill.source.scope.value
    if skill.digest:
        yield "Digest", skill.digest


def _files(skill: Skill, visit: Visit) -> Iterable[tuple[SkillFile, str | None]]:
    """Yield the files that a visitor may see, each with its address, None if it cannot be shown."""
    for file in visible_files(skill, visit).values():
        yield file, file_address(skill, file.path) if skill.state is State.ACTIVE else None


def visible_files(skill: Skill, visit: Visit) -> Mapping[str, SkillFile]:
    """Return the files of a skill that a visitor sees, by path: the files of evals are for operators."""
    return skill.content.files if visit.is_operator else files_for_models(skill.content)


def file_address(skill: Skill, path: str) -> str:
    """Return the address of the page of a file."""
    return f"{skill_address(skill)}?file={quote(path.encode('utf-8', 'surrogateescape'), safe='/')}"


def shown_file(skill: Skill, file: SkillFile, raw: bytes) -> FilePage:
    """Return what the page shows of a file."""
    if not file.text:
        return FilePage(file, None)
    text = raw[:MAX_SHOWN].decode("utf-8", "replace")
    is_cut = len(raw) > MAX_SHOWN
    is_markdown = file.path.lower().endswith(_MARKDOWN) and not skill.content.is_main(file) and not is_cut
    html = _rendered(skill, text, posixpath.dirname(file.path)) if is_markdown else None
    return FilePage(file, text, html, is_cut)


def _rendered(skill: Skill, text: str, folder: str) -> Markup:
    known = frozenset(skill.content.files) if skill.state is State.ACTIVE else frozenset[str]()
    return _rendered_once(text, folder, skill_address(skill), known)


@lru_cache(maxsize=64)
def _rendered_once(text: str, folder: str, address: str, known: frozenset[str]) -> Markup:
    return render_markdown(text, partial(_link, folder, address, known))


def _link(folder: str, address: str, known: frozenset[str], target: str) -> str | None:
    """Return the address of the page of a file that a text names by a relative path, None if there is none."""
    path = unquote(target.partition("#")[0].partition("?")[0])
    full = posixpath.normpath(posixpath.join(folder, path)) if path and not path.startswith("/") else ""
    return f"{address}?file={quote(full, safe='/')}" if full in known else None
