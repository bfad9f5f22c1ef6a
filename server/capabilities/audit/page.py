"""The panel `Audit` of a skill's page: what `skillserve audit` finds in the files that the visitor sees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.audit.settings import accepted_findings
from server.capabilities.web.skill_page import file_address, visible_files
from server.capability import PageParts, SkillPanel
from server.hosting.views import PerView
from skills_core.audit.engine import audit
from skills_core.audit.findings import Severity
from skills_core.audit.review import AuditReview, loaded_skill
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from pathlib import Path

    from server.capability import Visit
    from server.hosting.host import Host
    from server.hosting.views import View
    from skills_core.audit.findings import Finding
    from skills_core.audit.skill import SkillUnderAudit
    from skills_core.skills.skill import Skill, SkillContent, SkillFile

    _Siblings = Mapping[tuple[Path, str], frozenset[str]]
    _Key = tuple[object, ...]

_MAX_BYTES: Final = 1024 * 1024
"""Bytes of text that are audited for a page; they take half a second."""

_MAX_SHOWN: Final = 50
_KEPT: Final = 512
_SNIPPET: Final = 160
_BEFORE: Final = 60
# Characters of a line that are shown, and of these before the finding.


class AuditedText(NamedTuple):
    """A finding with the text that it is about, empty for a finding about a whole file."""

    finding: Finding
    snippet: str


class ShownFinding(NamedTuple):
    """A finding as the panel shows it: `address` is that of the page of its file, None if there is none."""

    finding: Finding
    snippet: str
    address: str | None


class AuditPanel:
    """The panel of one server; it remembers what was found in files with the same digests."""

    def __init__(self, host: Host) -> None:
        """Audit nothing yet."""
        self._review = AuditReview(accepted=accepted_findings(host.settings))
        self._siblings = PerView(_siblings)
        self._known: OrderedDict[_Key, tuple[AuditedText, ...]] = OrderedDict()
        self._lock = Lock()

    def show(self, skill: Skill, visit: Visit) -> Mapping[str, Any] | None:
        """Return the values for the template, None for a skill whose files could not be read."""
        if skill.content.main is None:
            return None
        files = visible_files(skill, visit)
        size = sum(file.size for file in files.values() if file.text)
        if size > _MAX_BYTES:
            return {
                "size": size,
                "place": str(skill.source.root / skill.content.place) if visit.is_operator else "PATH",
            }
        found = self._found(skill, files, self._siblings.of(visit.view).get(skill.identity, frozenset()))
        return {"size": None, **self._values(skill, found)}

    def _found(self, skill: Skill, files: Mapping[str, SkillFile], siblings: frozenset[str]) -> tuple[AuditedText, ...]:
        key = (skill.identity, siblings, *((path, file.digest) for path, file in files.items()))
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        audited = loaded_skill(skill.source, skill.content, files, siblings)
        found = tuple(AuditedText(each, _snippet(audited, each)) for each in audit(audited))
        if not any(file.fault for file in audited.files.values()):
            with self._lock:
                self._known[key] = found
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return found

    def _values(self, skill: Skill, found: tuple[AuditedText, ...]) -> dict[str, Any]:
        """Return what is shown of findings: the author of a skill cannot hide an error, and its user can."""
        accepted = [self._review.acceptance(skill.source, skill.content, each.finding) is not None for each in found]
        left = [each for each, is_accepted in zip(found, accepted, strict=True) if not is_accepted]
        shown = [each for each in left if not each.finding.suppressed or each.finding.severity is Severity.ERROR]
        shown.sort(key=lambda each: -each.finding.severity.rank)
        return {
            "findings": [
                ShownFinding(*each, file_address(skill, each.finding.path) if skill.state is State.ACTIVE else None)
                for each in shown[:_MAX_SHOWN]
            ],
            "more": len(shown[_MAX_SHOWN:]),
            "suppressed": len(left) - len(shown),
            "accepted": sum(accepted),
        }


def page_parts(host: Host) -> PageParts:
    """Return the panel."""
    return PageParts(panels=(SkillPanel("audit", "Audit", "audit/audit.html", AuditPanel(host).show),))


def _siblings(view: View) -> _Siblings:
    """Return for each skill of a view the names of those beside it that look alike."""
    contents: dict[Path, dict[str, SkillContent]] = defaultdict(dict)
    for skill in view.catalog.skills:
        contents[skill.source.root][skill.content.place] = skill.content
    sources = {skill.source.root: skill.source for skill in view.catalog.skills}
    return {
        (root, place): names
        for root, found in contents.items()
        for place, names in AuditReview().siblings(sources[root], found).items()
    }


def _snippet(audited: SkillUnderAudit, finding: Finding) -> str:
    """Return the part of the line that a finding is about."""
    if finding.line is None:
        return ""
    line = audited.files[finding.path].lines[finding.line - 1]
    begin = max(0, (finding.column or 1) - 1 - _BEFORE)
    return "".join(_cut(line, begin)).strip()


def _cut(line: str, begin: int) -> Iterator[str]:
    end = begin + _SNIPPET
    yield "…" * (begin > 0)
    yield line[begin:end]
    yield "…" * (end < len(line))
