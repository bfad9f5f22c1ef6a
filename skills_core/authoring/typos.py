"""Find misspelt fields, and paths in another case, where what was intended is certain."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from skills_core.diagnostics import MAX_PER_REASON, Diagnostic, Reason, Severity, capped, printable
from skills_core.format.frontmatter import similar_fields, unknown_fields
from skills_core.mentions import mentioned_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skills_core.skill import Skill

__all__ = ["misspelt_fields", "respelled_paths"]

_SHORT, _LONG = 5, 8
_SHOWN = 200
# Characters of a path or name in a message.

# From these lengths on, one or two letters may be wrong: `mode` is no typo of `model`, nor `stage` of `tags`.


def misspelt_fields(fields: Mapping[str, object]) -> dict[str, str]:
    """Return the intended field for each misspelt one.

    A field is misspelt if exactly one known field is similar, differs only by a typo, is not present, and is not the
    intended field of another. With more than 20 unknown fields none is misspelt: they belong to some other format.
    """
    unknown = unknown_fields(fields)
    if len(unknown) > MAX_PER_REASON:
        return {}
    similar = {key: similar_fields(key) for key in unknown}
    meant = {key: names[0] for key, names in similar.items() if len(names) == 1 and _is_typo(key, names[0])}
    times = Counter(meant.values())
    return {key: name for key, name in meant.items() if name not in fields and times[name] == 1}


def respelled_paths(skill: Skill) -> tuple[Diagnostic, ...]:
    """Return a warning for each path that the body or a tool spells in another case than the file of the skill.

    The server finds such files; hosts that read a folder themselves do so only where the file system ignores case.
    """
    main = skill.content.main
    if main is None:
        return ()
    shown = printable(f"{skill.source.root}/{skill.within_source(main.path)}")
    return capped(
        Diagnostic(
            Severity.WARNING,
            Reason.PATH_CASE,
            f"{who} names {written[:_SHOWN]!r}, but the file is {path[:_SHOWN]!r}",
            shown,
        )
        for who, written, path in dict.fromkeys(_respelled(skill))
    )


def _respelled(skill: Skill) -> Iterator[tuple[str, str, str]]:
    """Yield who names a file in another case, as it is written there, and as it is spelled."""
    names = {skill.name, skill.content.folder.rpartition("/")[2]} - {""}
    for mention in mentioned_paths(skill.body, skill.content.files.keys(), names).respelled:
        yield "the body", mention.written, mention.path
    for tool in skill.frontmatter.tools:
        written = (tool.script or "").removeprefix("./")
        file = skill.content.file(written)
        if file is not None and file.path != written:
            yield f"the tool {tool.name[:_SHOWN]!r}", written, file.path


def _is_typo(key: str, name: str) -> bool:
    """Tell whether `key` is `name` with other case, hyphens or letter order, or with one or two wrong letters."""
    if key.lower().startswith(("x-", "x_")):
        return False  # a custom field by convention
    wrong, right = _normalized(key), _normalized(name)
    if wrong.removesuffix("s") == right.removesuffix("s") and wrong != right:
        return False  # singular and plural differ in meaning
    if sorted(wrong) == sorted(right):
        return True
    allowed = (len(key) >= _SHORT) + (len(key) >= _LONG)
    steps = SequenceMatcher(None, wrong, right, autojunk=False).get_opcodes()
    changed = sum(max(end - start, to - at) for tag, start, end, at, to in steps if tag != "equal")
    return changed <= allowed


def _normalized(key: str) -> str:
    return key[:100].casefold().replace("-", "").replace("_", "")
