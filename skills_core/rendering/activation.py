"""Render an activation: the text that hands a skill to a model, and the messages that go with it.

Rendering depends on a snapshot alone, so the same skill, arguments and recipient give the same bytes on every surface.
Tags with unmistakable names of ours are escaped in foreign text; the body is otherwise verbatim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skills_core.diagnostics import shortened
from skills_core.format.frontmatter import COMPATIBILITY_LIMIT
from skills_core.rendering.escaping import escape_content, escape_line, escape_tags, quote_attribute
from skills_core.rendering.filling import (
    FREE_ARGUMENT,
    MAX_FILLED,
    Placeholders,
    fill_body,
    filled_length,
    filled_placeholders,
    value_names,
)
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


MAX_LISTED_FILES = 100


def render_activation(
    skill: Skill,
    arguments: Mapping[str, str] | None = None,
    recipient: Recipient = UNKNOWN_RECIPIENT,
    *,
    replaces: str | None = None,
) -> str:
    """Return the text that hands `skill` to a model.

    `arguments` fill the body's placeholders in one pass: values are not searched for placeholders. If they would add
    more than `MAX_FILLED` characters, they are listed once after the body instead.
    The text around the body depends on the `recipient`: it names the skill's folder if the recipient's own tools read
    it, and explains the tool names of other hosts that the body uses.
    Its receipt is the beginning of the skill's digest. `replaces` is the digest of the older text that it replaces.
    """
    return activation_pieces(skill, arguments, recipient, replaces=replaces).text


class ActivationPieces(NamedTuple):
    """The pieces of an activation: the lines before and after the body, and the values that fill the body."""

    skill: Skill
    before: tuple[str, ...]
    after: tuple[str, ...]
    values: Mapping[str, str]

    @property
    def text(self) -> str:
        """The whole text."""
        return self.with_body(self.skill.body, self.after)

    def with_body(self, body: str, after: Sequence[str]) -> str:
        """Return the text with this body, which is filled and escaped, and with these lines after it."""
        return "\n".join((*self.before, escape_tags(fill_body(self.skill, self.values, body)), "", *after))


def activation_pieces(
    skill: Skill,
    arguments: Mapping[str, str] | None = None,
    recipient: Recipient = UNKNOWN_RECIPIENT,
    *,
    replaces: str | None = None,
) -> ActivationPieces:
    """Return the pieces of the text that `render_activation` returns."""
    given = dict(arguments or {})
    values = given if filled_length(skill, given) <= MAX_FILLED else {}
    lines = [*_parameter_lines(skill, given, values), *_closing_lines(skill, recipient, replaces)]
    return ActivationPieces(skill, _opening_lines(skill, recipient), tuple(lines), values)


def render_linked_activation(
    skill: Skill, arguments: Mapping[str, str], recipient: Recipient, *, replaces: str | None = None
) -> str:
    """Return the text that goes with a link to the skill's instructions: all of an activation but the body.

    The values of parameters are listed.
    """
    main = skill.content.main.path if skill.content.main else ""
    tool = recipient.file_tool
    otherwise = f"; if that fails, read {escape_content(main)} with {_file_call(skill, tool)}" if tool else ""
    lines = [f"The instructions are the resource {skill.uri}: read it with {recipient.link_reader}{otherwise}."]
    if filled := value_list(skill, arguments):
        lines.append(f"Values of the {{{{parameters}}}} in the instructions: {filled}")
    lines += _parameter_lines(skill, arguments, arguments)
    return "\n".join((*_opening_lines(skill, recipient), *lines, *_closing_lines(skill, recipient, replaces)))


def value_list(skill: Skill, values: Mapping[str, str]) -> str:
    """Return what the placeholders in a skill's body stand for, on one line."""
    known = filled_placeholders(skill, values).items()
    return "; ".join(f"{escape_line(name)} = {escape_tags(value)}" for name, value in known if value is not None)


def render_link(skill: Skill, reader: str) -> str:
    """Return the title of a link to the skill's instructions, for clients that show it as "TITLE at URI".

    `reader` is the recipient's tool that reads the link.
    """
    return (
        f"Instructions of the skill {escape_line(skill.key)}. Read them now with {reader}, then follow them. They stand"
    )


def _opening_lines(skill: Skill, recipient: Recipient) -> tuple[str, ...]:
    named = f"name={quote_attribute(skill.name)} uri={quote_attribute(skill.uri)}"
    return (f'<skill_content {named} receipt="{receipt_of(skill)}">', *_adaptation_lines(skill, recipient))


def _closing_lines(skill: Skill, recipient: Recipient, replaces: str | None) -> list[str]:
    lines = [*_compatibility_lines(skill), *_file_lines(skill, recipient)]
    if folder := recipient.folder_of(skill):
        lines.append(f"Skill directory: {escape_line(str(folder))}")
    lines += _requirement_lines(skill)
    if replaces:
        older = escape_line(short_digest(replaces))
        lines.append(f"This text replaces the one of this skill that you were given before ({older}).")
    return [*lines, "</skill_content>"]


def render_activations(
    skills: Sequence[tuple[Skill, Mapping[str, str]]], recipient: Recipient = UNKNOWN_RECIPIENT
) -> tuple[str, ...]:
    """Return the activations of skills with their arguments, in order; after several, a text on which prevails."""
    texts = tuple(render_activation(skill, arguments, recipient) for skill, arguments in skills)
    if len(texts) <= 1:
        return texts
    names = ", ".join(f"/{escape_line(skill.key)}" for skill, _ in skills)
    rule = "Each adds to those before it; where they differ, the later one overrides the earlier ones."
    return (*texts, f"Several skills are active, in this order: {names}. {rule}")


def render_unchanged(skill: Skill, recipient: Recipient = UNKNOWN_RECIPIENT) -> str:
    """Return the line for a model that asks again for an unchanged skill."""
    return (
        f"The skill {escape_line(skill.key)} has not changed since you loaded it (receipt {receipt_of(skill)}). "
        f"If its text is no longer before you, call {recipient.activation_tool} for it once more, without have."
    )


def receipt_of(skill: Skill) -> str:
    """Return the beginning of the skill's digest, by which a model names the text that it has."""
    return short_digest(skill.digest or "")


def short_digest(digest: str) -> str:
    """Return the first 12 hexadecimal digits of a digest: a whole one takes as many tokens as three sentences."""
    return digest.removeprefix("sha256:")[:12]


def activation_inputs(
    skill: Skill, arguments: Mapping[str, str], message: str | None = None
) -> tuple[dict[str, str], str | None]:
    """Split a caller's input into parameter values and the user's message, the same way for every surface.

    Empty values are dropped, because clients send them for fields that were left empty. `arguments` is the free text of
    a slash command; unless the body has a parameter or placeholders for it, it is only the message.
    """
    values = {name: value for name, value in arguments.items() if value}
    message = message or values.get(FREE_ARGUMENT)
    if FREE_ARGUMENT in values and FREE_ARGUMENT not in value_names(skill):
        values.pop(FREE_ARGUMENT, None)
    return values, message


def render_request(skill: Skill, message: str | None) -> str:
    """Return the user's message that goes with an activation: binding context, or `/name` if there is no message."""
    if not message or not message.strip():
        return f"/{escape_line(skill.key)}"
    return render_words(message, "skill")


def render_words(message: str, what: str) -> str:
    """Return what a user typed as binding context for a skill, or for another thing to do."""
    return (
        f"The user's message is binding context for the {what}: where it says otherwise, it overrides the {what}.\n"
        f"<user_request>\n{escape_tags(message.strip())}\n</user_request>"
    )


def _adaptation_lines(skill: Skill, recipient: Recipient) -> list[str]:
    # Imported here because its tables of host tools would slow down every start.
    from skills_core.rendering.adaptation import render_adaptation  # noqa: PLC0415

    return render_adaptation(skill, recipient)


def _paths_explained(skill: Skill, recipient: Recipient) -> frozenset[str]:
    from skills_core.rendering.adaptation import paths_explained  # noqa: PLC0415 - as above

    return paths_explained(skill, recipient)


def _parameter_lines(skill: Skill, given: Mapping[str, str], filled: Mapping[str, str]) -> Iterable[str]:
    used = value_names(skill)
    further = [
        f"{escape_line(name)} = {escape_tags(value)}"
        for name, value in given.items()
        if name not in used or name not in filled
    ]
    if further:
        yield "Further arguments: " + "; ".join(further)
    named = skill.parameters
    # In a skill that takes no arguments, `$5` is more likely a price.
    are_words = Placeholders.of(skill).declared
    values = filled_placeholders(skill, given)
    missing = [name for name, value in values.items() if value is None and (are_words or name in named)]
    if missing:
        yield f"Parameters without a value: {', '.join(missing)}. Take them from the conversation, or ask."


def _compatibility_lines(skill: Skill) -> Iterable[str]:
    """Yield what the skill needs of its surroundings, on one line even if the field has several."""
    if words := (skill.frontmatter.compatibility or "").split():
        yield f"Compatibility: {escape_tags(shortened(' '.join(words), COMPATIBILITY_LIMIT))}"


def _file_call(skill: Skill, tool: str) -> str:
    return f"{tool} (skill {quote_attribute(skill.key)})"


def _requirement_lines(skill: Skill) -> Iterable[str]:
    if skill.frontmatter.requires:
        names = ", ".join(escape_line(name) for name in skill.frontmatter.requires)
        yield f"This skill builds on others; activate them too if you have not: {names}."


def _file_lines(skill: Skill, recipient: Recipient) -> Iterable[str]:
    main = skill.content.main
    files = files_for_models(skill.content)
    found = (skill.content.file(reference) for reference in skill.frontmatter.references)
    named = [file.path for file in found if file is not None and file.path in files]
    explained = _paths_explained(skill, recipient) if len(files) > 1 else frozenset()
    own = explained if main is None else {main.path, *explained}
    paths = [path for path in dict.fromkeys([*named, *files]) if path not in own]
    if not paths:
        return
    most, ways = min(MAX_LISTED_FILES, recipient.listed), []
    if recipient.link_reader:
        # What other tools return of a reference would be ignored like any instructions.
        ways.append(f"{recipient.link_reader} (the skill root and its path)")
    if recipient.file_tool:
        ways.append(_file_call(skill, recipient.file_tool))
    how = f"Read a file with {', or '.join(ways)}."
    without = "No tool here reads a file of it: say so where the result would need one."
    yield f"Paths in these instructions are relative to {skill.root_uri} (the skill root). {how if ways else without}"
    yield "<skill_resources>"
    for path in paths[:most]:
        yield f"<file>{escape_content(path if path.isprintable() else skill.file_uri(path))}</file>"
    yield "</skill_resources>"
    if more := max(0, len(paths) - most):
        yield f"{more} more files are not listed here; the server's resources below {skill.root_uri} are complete."
