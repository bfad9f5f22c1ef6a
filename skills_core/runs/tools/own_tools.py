"""The tools that belong to a run itself: they read, activate and execute skills, and ask the user."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import read_file
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import (
    EvalFileError,
    FileRefusedError,
    SkillsError,
    ToolFailedError,
    UnansweredError,
    did_you_mean,
    similar_paths,
)
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.rendering.activation import activation_inputs, render_activation, render_request
from skills_core.rendering.catalog import ACTIVATION_TOOL, fit_entries
from skills_core.rendering.escaping import quote_attribute
from skills_core.rendering.recipient import Recipient
from skills_core.runs.run_skills import MAX_ACTIVATIONS
from skills_core.runs.tools.workspace import LINE_ARGUMENTS, select_lines
from skills_core.scripts.tools import (
    CONTINUATION_ARGUMENTS,
    MAX_ERROR,
    OFFSET,
    OUTPUT,
    STREAM,
    OutputCache,
    OutputSlice,
    OutputText,
    Stream,
    continuation_hint,
    expired_output,
    script_failure,
)
from skills_core.skills.withheld_files import files_for_models, is_withheld_from_models, refuse_eval_file
from skills_core.toolboxes import Toolbox, ToolPurpose

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.tool import CallContext
    from skills_core.runs.run_skills import RunSkills
    from skills_core.scripts.runner import ScriptResult, ScriptRunner
    from skills_core.skills.skill import Skill, SkillFile

logger = logging.getLogger(__name__)

_PURPOSES = {
    "read_file": ToolPurpose.READ_FILE,
    "write_file": ToolPurpose.WRITE_FILE,
    "list_directory": ToolPurpose.LIST_FOLDER,
    "grep": ToolPurpose.SEARCH_TEXT,
    "run_command": ToolPurpose.RUN_COMMAND,
    "ask_user": ToolPurpose.ASK_USER,
    "activate_skill": ToolPurpose.LOAD_SKILL,
}


def recipient_for(tools: Iterable[Tool]) -> Recipient:
    """Return the recipient that has exactly `tools`."""
    names = {tool.name for tool in tools}
    toolbox = Toolbox(
        key="run",
        title="a run of skillserve",
        source="this product",
        date="2026-11-21",
        tools={purpose: (name,) for name, purpose in _PURPOSES.items() if name in names},
    )
    return Recipient(
        toolbox=toolbox,
        file_tool="read_skill_file" if "read_skill_file" in names else None,
        script_tool="run_skill_script" if "run_skill_script" in names else None,
    )


MAX_QUESTION = 4000

_UNANSWERED: Final = (
    "No user answers. That is not consent: leave out what needs it, and say so. If the question was only about a "
    "detail, continue with what is most likely meant, and say what you assumed."
)


def ask_user_tool() -> Tool:
    """Return the tool, which asks the user of the call's context."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        question, choices = arguments.get("question"), arguments.get("choices")
        offered = [choice for choice in choices if isinstance(choice, str)] if isinstance(choices, list) else []
        try:
            answer = await context.user.ask(str(question), offered)
        except Exception:
            logger.exception("run %s: the user could not be asked", context.run_id)
            answer = None
        if answer is None:
            raise UnansweredError(_UNANSWERED)
        return answer

    return Tool(
        "ask_user",
        "Ask the user one question whose answer you cannot find out yourself, and wait for the answer.",
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION},
                "choices": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                    "maxItems": 20,
                    "uniqueItems": True,
                    "description": "The answers to choose from, where there are only a few.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        Effect.READS,
        "the user",
        perform,
        Role(frozenset({ToolPurpose.ASK_USER})),
        waits_for_user=True,
        built_in=True,
    )


def read_skill_file_tool(skills: RunSkills) -> Tool:
    """Return the tool for one run; skills may always read their own files."""
    performed = skills.performed

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        named = str(arguments.get("path", ""))
        skill = loaded_skill(skills, arguments, named)
        file = _file_of(skill, named.removeprefix(skill.root_uri))
        raw = await anyio.to_thread.run_sync(_verified_bytes, skill, file)
        return select_lines(file.path, raw, arguments)

    return Tool(
        "read_skill_file",
        f"Read a file that belongs to the skill {one_line(performed.key)}, or to another skill whose instructions you "
        "have: a reference, a template, a script.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file's path within the skill, or its URI."},
                **LINE_ARGUMENTS,
                **SKILL_ARGUMENT,
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        Effect.READS,
        f"skill {performed.key}",
        perform,
        Role(own=True),
        built_in=True,
        spelled=partial(spelled_path, skills),
    )


def spelled_path(skills: RunSkills, arguments: JsonObject) -> JsonObject:
    """Return the arguments of a call with the path of the skill's file that `path` names in whatever case."""
    named = str(arguments.get("path", ""))
    try:
        skill = loaded_skill(skills, arguments, named)
    except ToolFailedError:
        return arguments
    file = skill.content.file(named.removeprefix(skill.root_uri))
    return arguments if file is None else {**arguments, "path": file.path}


SKILL_ARGUMENT: Final[JsonObject] = {
    "skill": {"type": "string", "description": "The skill's name; without it, the skill that you perform."}
}
"""The argument that activation texts tell models to pass."""


def loaded_skill(skills: RunSkills, arguments: JsonObject, path: str = "") -> Skill:
    """Return the loaded skill that a call names: by the argument `skill`, or by a `path` that is a URI.

    Raises:
        ToolFailedError: the model does not have the instructions of the skill that the call names.
    """
    named = arguments.get("skill")
    if named is None:
        by_uri = [skill for skill in skills.loaded if path.startswith(skill.root_uri)]
        return max(by_uri, key=lambda skill: len(skill.root_uri), default=skills.performed)
    skill = skills.find(str(named))
    if skill is None:
        hint = " Call activate_skill for it first." if skills.key_of(str(named)) in skills.offers else ""
        loaded = ", ".join(one_line(each.key) for each in skills.loaded)
        raise ToolFailedError(
            f"You do not have the instructions of a skill {one_line(str(named))[:200]!r} in this run, only those of "
            f"{loaded}.{hint}"
        )
    return skill


def _file_of(skill: Skill, path: str) -> SkillFile:
    file = skill.content.file(path)
    if file is None:
        hint = did_you_mean(similar_paths(path, files_for_models(skill.content)))
        raise ToolFailedError(f"The skill has no file {one_line(path.removeprefix('./'))[:200]!r}.{hint}")
    return file


def _verified_bytes(skill: Skill, file: SkillFile) -> bytes:
    path = file.path
    try:
        refuse_eval_file(skill, file)
    except EvalFileError as error:
        raise ToolFailedError(str(error)) from None
    try:
        raw, _ = read_file(skill.location(file))
    except FileRefusedError as error:
        raise ToolFailedError(f"{one_line(path)}: {error.message}") from None
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != file.digest:
        raise ToolFailedError(f"{one_line(path)}: the file has changed since the run began, so it is not read")
    # The call of this skill was authorized; a skill enclosed in it was not called.
    if not skill.content.is_main(file) and is_withheld_from_models(skill, file, raw):
        raise ToolFailedError(
            f"{one_line(path)}: only the user may call the skill that has these instructions; a model may not read them"
        )
    return raw


ACTIVATE: Final = ACTIVATION_TOOL

MAX_LISTED: Final = 8_000
"""Most characters of the entries of skills in the tool's description."""

_RULE: Final = (
    "Load the instructions of another skill when a part of your task matches it, or when a skill names it. They add to "
    "those that you have; where they differ, the later ones override the earlier ones. They bring no further tools."
)


def activate_skill_tool(skills: RunSkills, recipient: Callable[[], Recipient]) -> Tool:
    """Return the tool for one run; texts are rendered for `recipient`.

    A call changes nothing: the run notes an activation once the call is recorded.
    """

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        name, given = activation_of_call(arguments)
        key = skills.key_of(name)
        if skills.has_text(key, given):
            return f"The skill {one_line(key)} is part of this run already; its text stands above."
        if skills.exhausted:
            raise ToolFailedError(
                f"A run activates skills at most {MAX_ACTIVATIONS} times. Go on with those that you have, or say in "
                "the result what could not be done."
            )
        offer = skills.offers.get(key)
        skill = skills.find(key) or (offer.skill if offer is not None else None)
        if skill is None:
            raise ToolFailedError(
                f"The skill {one_line(key)} has changed or is no longer there since the run began, so it cannot be "
                "activated. Go on without it, or say in the result what could not be done."
            )
        values, message = activation_inputs(skill, given)
        text = render_activation(skill, values, recipient())
        request = f"\n\n{render_request(skill, message)}" if message else ""
        return _within(context.characters, skill, context.redact(text), context.redact(request))

    return Tool(
        ACTIVATE,
        _description(skills),
        _schema(skills),
        Effect.READS,
        "the catalog",
        perform,
        # The name is matched like a path, so that `Skill(pdf-*)` permits some skills.
        Role(frozenset({ToolPurpose.LOAD_SKILL}), path="name"),
        built_in=True,
    )


def _schema(skills: RunSkills) -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [*skills.names], "description": "The skill's name."},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the skill's {{parameters}}, by name.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def activation_of_call(arguments: Mapping[str, JsonValue]) -> tuple[str, dict[str, str]]:
    """Return the skill's name and the values of its parameters in a call that fits the schema."""
    given = arguments.get("arguments")
    values = given if isinstance(given, dict) else {}
    return str(arguments.get("name", "")), {name: str(value) for name, value in values.items()}


def _within(limit: int, skill: Skill, text: str, request: str) -> str:
    """Return an activation and the user's message; if they are too long, with the rest of the text left to be read."""
    if len(text) + len(request) <= limit:
        return f"{text}{request}"
    main = skill.content.main
    path = main.path if main is not None else MAIN_FILE
    note = (
        "\n[The instructions do not end here. Read the rest before you follow them: call read_skill_file (skill "
        f"{quote_attribute(skill.key)}, path {quote_attribute(path)}) with first_line.]\n</skill_content>"
    )
    return f"{text[: max(limit - len(note) - len(request), 0)]}{note}{request}"


def _description(skills: RunSkills) -> str:
    offered = [offer.skill for offer in skills.offers.values() if offer.skill is not None]
    (entries,) = fit_entries([MAX_LISTED], offered)
    lines = [_RULE, "<available_skills>", *entries, "</available_skills>"]
    if more := len(skills.offers) - len(entries):
        lines.append(f"{more} more are not described here; their names are those that `name` accepts.")
    return "\n".join(lines)


RUN_SKILL_SCRIPT = "run_skill_script"


_HINT_CHARACTERS = 250
# Characters reserved for the note below a part: its offsets, and how to read on.


def run_skill_script_tool(skills: RunSkills, runner: ScriptRunner, variables: Mapping[str, Mapping[str, str]]) -> Tool:
    """Return the tool for one run; `variables` are the user's environments for the scripts of skills, by key."""
    performed = skills.performed
    outputs: OutputCache[OutputText] = OutputCache()

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        if arguments.get(OUTPUT) is not None:
            return _continuation(outputs, arguments, context.characters)
        skill = loaded_skill(skills, arguments)
        result = await _run_script(skill, runner, variables.get(skill.key, {}), arguments, context)
        texts = OutputText.of(result.finished, context.redact)
        if fault := script_failure(result, texts):
            raise ToolFailedError("\n".join([fault, *_continuation_hints(outputs, texts)]))
        if len(texts.stdout) <= context.characters:
            return texts.stdout
        return _slice_text(outputs.keep(texts), Stream.STDOUT, texts.stdout, 0, context.characters)

    return Tool(
        RUN_SKILL_SCRIPT,
        f"Run a script of the skill {one_line(performed.key)}, or of another skill whose instructions you have. "
        f"{runner.setup.statement}",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The script's path, relative to the skill root."},
                "args": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Its arguments, one an item. No shell reads them, so quote nothing.",
                },
                "stdin": {"type": "string", "description": "What it reads from its standard input."},
                **CONTINUATION_ARGUMENTS,
                **SKILL_ARGUMENT,
            },
            "additionalProperties": False,
        },
        Effect.READS if runner.setup.contained else Effect.WRITES,
        f"skill {performed.key}",
        perform,
        # An entry that permits all commands permits scripts too; a pattern for commands does not.
        Role(purposes=frozenset({ToolPurpose.RUN_COMMAND})),
        spelled=partial(spelled_path, skills),
    )


async def _run_script(
    skill: Skill, runner: ScriptRunner, variables: Mapping[str, str], arguments: JsonObject, context: CallContext
) -> ScriptResult:
    path, stdin, args = arguments.get("path"), arguments.get("stdin", ""), arguments.get("args", [])
    assert isinstance(args, list)  # noqa: S101 - by the schema
    if not path:
        raise ToolFailedError(f"path: name the script to run, or pass {OUTPUT} to read the output of an earlier call.")
    script = str(path).removeprefix("./")
    try:
        if file := skill.content.file(script):
            refuse_eval_file(skill, file)
        return await runner.run(
            skill,
            script,
            [str(each) for each in args],
            stdin=str(stdin).encode("utf-8", "replace"),
            variables={**variables, IDEMPOTENCY_KEY: context.key},
        )
    except SkillsError as error:
        raise ToolFailedError(str(error)) from None


def _continuation(outputs: OutputCache[OutputText], arguments: JsonObject, characters: int) -> str:
    kept, stream, offset = (
        str(arguments[OUTPUT]),
        Stream(str(arguments.get(STREAM, Stream.STDOUT))),
        arguments.get(OFFSET),
    )
    texts = outputs.find(kept)
    if texts is None:
        raise ToolFailedError(expired_output(kept))
    text = texts.stdout if stream is Stream.STDOUT else texts.stderr
    return _slice_text(kept, stream, text, offset if isinstance(offset, int) else 0, characters)


def _slice_text(kept: str, stream: Stream, text: str, offset: int, characters: int) -> str:
    """Return the part of a stream from `offset` on, with a note about the rest."""
    if not offset and len(text) <= characters:
        return text
    piece = OutputSlice.of(text, offset, max(characters - _HINT_CHARACTERS, 1))
    if not piece.text:
        return f"[{stream} has {piece.total} characters, none from {offset} on]"
    end = offset + len(piece.text)
    more = (
        "" if piece.next_offset is None else f" {continuation_hint(RUN_SKILL_SCRIPT, kept, stream, piece.next_offset)}"
    )
    return f"{piece.text}\n[characters {offset} to {end} of {piece.total}.{more}]"


def _continuation_hints(outputs: OutputCache[OutputText], texts: OutputText) -> list[str]:
    """Return hints for the streams of a failed script that the model has not received whole."""
    reported = Stream.STDERR if texts.stderr else Stream.STDOUT
    sizes = {Stream.STDOUT: len(texts.stdout), Stream.STDERR: len(texts.stderr)}
    left = [stream for stream, size in sizes.items() if size > (MAX_ERROR if stream is reported else 0)]
    if not left:
        return []
    kept = outputs.keep(texts)
    return [continuation_hint(RUN_SKILL_SCRIPT, kept, stream, 0) for stream in left]
