"""An activation: the text that hands a skill to a model, and what goes with it.

It is built from a snapshot alone, so the same skill with the same arguments gives the same bytes on every surface to
the same recipient. Whatever strangers wrote is escaped so that it holds none of our tags; the body is otherwise
verbatim.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.rendering.escaping import attribute, contained, contained_line, escaped
from skills_core.rendering.recipient import ANYBODY, Recipient

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.skill import Skill

__all__ = [
    "FREE_ARGUMENT",
    "activation_inputs",
    "parameters_of",
    "render_activation",
    "render_request",
    "render_unchanged",
]

FREE_ARGUMENT = "arguments"
"""The prompt argument that holds what a user typed after the command."""

MAX_LISTED_FILES = 100

MAX_FILLED = 1_000_000
"""Most characters that values bring into a body: a skill can repeat a parameter without bound."""

# Both begin with a literal, which lets a search skip through a long body; what may not stand before is checked after.
_PARAMETER = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}(?!\})")

# `${{ … }}` is GitHub's, `{{{ … }}}` is Handlebars' and a backslash takes the meaning away: none are parameters.
_NOT_BEFORE = frozenset("$\\{")


def parameters_of(body: str) -> tuple[str, ...]:
    """Return the names of the `{{parameters}}` in a body, each once, in the order of their first appearance."""
    return tuple(dict.fromkeys(match[1] for match in _PARAMETER.finditer(body) if _is_parameter(match)))


def _is_parameter(match: re.Match[str]) -> bool:
    start = match.start()
    return start == 0 or match.string[start - 1] not in _NOT_BEFORE


def render_activation(
    skill: Skill,
    arguments: Mapping[str, str] | None = None,
    recipient: Recipient = ANYBODY,
    *,
    replaces: str | None = None,
) -> str:
    """Return the text that hands `skill` to a model.

    `arguments` fill the parameters of the body, in one pass: a value is never searched for parameters itself. Where
    they would make it longer by more than `MAX_FILLED`, they stand once behind it instead.
    What the text says beside the body depends on the `recipient`: who is on the same disk is told the folder, and
    what the body calls by the names of another host is explained before it.
    It ends in a receipt, the digest of the skill. `replaces` is the digest of an older text that is to be forgotten.
    """
    given = dict(arguments or {})
    values = given if _grows(skill.body, given) <= MAX_FILLED else {}
    body = _PARAMETER.sub(lambda at: values.get(at[1], at[0]) if _is_parameter(at) else at[0], skill.body)
    lines = [
        f"<skill_content name={attribute(skill.name)} uri={attribute(skill.uri)}>",
        *_adaptation(skill, recipient),
        contained(body),
        "",
    ]
    lines += _about_parameters(skill, given, values)
    lines.append(f"Skill root: {skill.root_uri}")
    if recipient.local:
        lines.append(f"Skill directory: {contained_line(str(skill.source.root.joinpath(skill.content.folder)))}")
    lines += _about_files(skill, recipient.file_tool)
    lines += _about_requirements(skill)
    if replaces:
        older = contained_line(replaces)
        lines.append(f"This text replaces the one of this skill that you were given before ({older}).")
    lines.append(f"<skill_receipt digest={attribute(skill.digest or '')}/>")
    lines.append("</skill_content>")
    return "\n".join(lines)


def render_unchanged(skill: Skill) -> str:
    """Return the line for a model that asks again for a skill that is as it was."""
    return (
        f"The skill {contained_line(skill.key)} has not changed since you loaded it (receipt {skill.digest}). "
        "If its text is no longer before you, call activate_skill for it once more, with force: true."
    )


def activation_inputs(
    skill: Skill, arguments: Mapping[str, str], message: str | None = None
) -> tuple[dict[str, str], str | None]:
    """Sort what a caller gave into values for parameters and the user's message, alike for every surface.

    An empty value is none: clients send one for a field that was left empty. `arguments` is the free text of a
    slash command; where the body has no parameter of that name, it is the message alone.
    """
    values = {name: value for name, value in arguments.items() if value}
    message = message or values.get(FREE_ARGUMENT)
    if FREE_ARGUMENT not in parameters_of(skill.body):
        values.pop(FREE_ARGUMENT, None)
    return values, message


def render_request(skill: Skill, message: str | None) -> str:
    """Return the user's message that goes with an activation: binding context, or `/name` where there is none."""
    if not message or not message.strip():
        return f"/{contained_line(skill.key)}"
    return (
        "The user's message is binding context for the skill: where it says otherwise, it overrides the skill.\n"
        f"<user_request>\n{contained(message.strip())}\n</user_request>"
    )


def _adaptation(skill: Skill, recipient: Recipient) -> list[str]:
    # Its tables of what hosts call their tools would cost each start more than all other rendering.
    from skills_core.rendering.adaptation import render_adaptation  # noqa: PLC0415

    return render_adaptation(skill, recipient)


def _grows(body: str, given: Mapping[str, str]) -> int:
    """Return how many characters `given` bring into a body."""
    if not given:
        return 0
    return sum(len(given.get(match[1], "")) for match in _PARAMETER.finditer(body) if _is_parameter(match))


def _about_parameters(skill: Skill, given: Mapping[str, str], filled: Mapping[str, str]) -> Iterable[str]:
    named = parameters_of(skill.body)
    further = [
        f"{contained_line(name)} = {contained(value)}"
        for name, value in given.items()
        if name not in named or name not in filled
    ]
    if further:
        yield "Further arguments: " + "; ".join(further)
    missing = [name for name in named if name not in given]
    if missing:
        yield f"Parameters without a value: {', '.join(missing)}. Take them from the conversation, or ask."


def _about_requirements(skill: Skill) -> Iterable[str]:
    if skill.frontmatter.requires:
        names = ", ".join(contained_line(name) for name in skill.frontmatter.requires)
        yield f"This skill builds on others; activate them too if you have not: {names}."


def _about_files(skill: Skill, tool: str | None) -> Iterable[str]:
    main = skill.content.main
    files = skill.content.files
    named = [path for reference in skill.frontmatter.references if (path := reference.removeprefix("./")) in files]
    paths = [path for path in dict.fromkeys([*named, *files]) if main is None or path != main.path]
    if not paths:
        return
    how = f"Read a file with {tool} (skill {attribute(skill.key)})."
    without = "No tool here reads a file of it: say so where the result would need one."
    yield f"Paths in these instructions are relative to the skill root. {how if tool else without}"
    yield "<skill_resources>"
    for path in paths[:MAX_LISTED_FILES]:
        yield f"<file>{escaped(path if path.isprintable() else skill.file_uri(path))}</file>"
    yield "</skill_resources>"
    if len(paths) > MAX_LISTED_FILES:
        more = len(paths) - MAX_LISTED_FILES
        yield f"{more} more files are not listed here; the server's resources below {skill.root_uri} are complete."
