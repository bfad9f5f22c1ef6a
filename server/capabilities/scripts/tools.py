"""The tool `run_skill_script`: run a script, or return a further part of an earlier output."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.guard.guards import ServerGuard
from server.capabilities.scripts.factory import described_setup, offers_scripts, script_runner, variables_of
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT
from server.listing.envelope import text_block, tool_result
from server.listing.schemas import TEXT, hints, object_of, or_null
from server.protocol.tool_call import Tool, has_active
from server.requests import RequestReason, Use, note_denied, note_skill
from server.wire.params import InvalidRequestError, string
from skills_core.diagnostics import one_line
from skills_core.errors import SkillChangedError, UnknownFileError, UnknownSkillError
from skills_core.guard.guard import Verdict
from skills_core.guard.tool import Secrets
from skills_core.guard.tool_gate import confirmation_question
from skills_core.scripts.environment import WorkingDirectory
from skills_core.scripts.isolation import IsolationKind
from skills_core.scripts.process import ProcessEnding
from skills_core.scripts.tools import (
    CONTINUATION_ARGUMENTS,
    OFFSET,
    OUTPUT,
    STREAM,
    OutputCache,
    OutputSlice,
    Stream,
    continuation_hint,
    expired_output,
    report_of,
)
from skills_core.skills.withheld_files import refuse_eval_file

if TYPE_CHECKING:
    from server.conversation.client_exchange import ClientExchange
    from server.listing.tools import ToolListing
    from server.protocol.tool_call import ResultRoom, ToolCall, ToolServices
    from skills_core.interaction import User
    from skills_core.scripts.runner import ScriptSetup
    from skills_core.scripts.tools import ScriptReport

logger = logging.getLogger(__name__)

_ATTEMPTS = 3
# Files that change at each attempt are being written continuously.

_LEAST_PIECE = 500
# Characters of a stream that every client is sent.

_MAX_ARGS = 1000
_MAX_TEXT = 100_000
_MAX_STDIN = 1_000_000


_RUN = RUN_SKILL_SCRIPT
_SKILL = "skill"
_PATH = "path"
_ARGS = "args"
_STDIN = "stdin"

PIECE = 16_000
"""Most characters of a stream in one result."""

_COUNT = {"type": "integer", "minimum": 0}

_SLICE = object_of(text=TEXT, offset=_COUNT, total=_COUNT, next_offset=or_null({"type": "integer"}))

_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        _SKILL: {"type": "string", "description": "The skill's name."},
        _PATH: {"type": "string", "description": "The script's path, relative to the skill root."},
        _ARGS: {
            "type": "array",
            "items": TEXT,
            "description": "Its arguments, one an item. No shell reads them, so quote nothing.",
        },
        _STDIN: {"type": "string", "description": "What it reads from its standard input; nothing if not given."},
        **CONTINUATION_ARGUMENTS,
    },
    "additionalProperties": False,
}

_OUTPUT = object_of(
    skill=TEXT,
    path=TEXT,
    digest=TEXT,
    ending={"type": "string", "enum": [ending.value for ending in ProcessEnding]},
    exit_code=or_null({"type": "integer"}, "Null where it did not end by itself."),
    isolation={"type": "string", "enum": [kind.value for kind in IsolationKind]},
    note=or_null(TEXT),
    output=or_null(TEXT, "The id by which the rest can be read, for a while; null where there is none."),
    stdout=_SLICE,
    stderr=_SLICE,
)


def _entry(listing: ToolListing) -> dict[str, Any]:
    """Return the entry; its description and annotations depend on how scripts are run."""
    setup = described_setup(listing.settings)
    return {
        "name": _RUN,
        "title": "Run a script of a skill",
        "description": (
            "Run a script of a skill, where its instructions say so, and return what it writes. "
            f"{_folders(setup)} It may take {setup.limits.seconds:g} seconds. {setup.statement}"
        ),
        "inputSchema": _INPUT,
        "outputSchema": _OUTPUT,
        "annotations": {
            **hints("Run a script of a skill", read_only=False),
            "destructiveHint": not setup.contained,
            "idempotentHint": False,
            "openWorldHint": setup.network or setup.isolation.sandbox is None,
        },
    }


def _folders(setup: ScriptSetup) -> str:
    """Say where a script starts, and which variables name its other folders."""
    scratch = "an empty folder, which is removed afterwards"
    skill = "the environment variable SKILL_DIR names the skill's folder"
    if setup.directory is WorkingDirectory.WORKSPACE:
        return f"It is started in {setup.workspace}; {skill}."
    workspace = f" It may also write to {setup.workspace} (WORKSPACE_DIR)." if setup.workspace else ""
    if setup.directory is WorkingDirectory.SCRATCH:
        return f"It is started in {scratch}; {skill}.{workspace}"
    return (
        "It is started in the skill's folder, which is read-only; the environment variable SCRATCH_DIR names "
        f"{scratch}.{workspace}"
    )


class _ScriptHandler:
    """The handler of the tool."""

    def __init__(self, services: ToolServices) -> None:
        """Run scripts of the host of `services`; if the guard requires consent, its exchanges ask the user."""
        self._host, self._exchanges = services.host, services.exchanges
        self._runner = script_runner(self._host.settings)
        self._outputs: OutputCache[ScriptReport] = OutputCache()

    async def call(self, call: ToolCall) -> dict[str, Any]:
        """Handle a call."""
        # Imported here, as it needs the SDK, which the list of tools does not wait for.
        from server.conversation.elicitation import ClientUser

        arguments = call.arguments
        if arguments.get(OUTPUT) is not None:
            return self._further(call)
        name, path = string(arguments, _SKILL), string(arguments, _PATH)
        args, stdin = _args(arguments), string(arguments, _STDIN, default="")
        if len(stdin) > _MAX_STDIN:
            raise InvalidRequestError(f"{_STDIN} may have at most {_MAX_STDIN} characters")
        run = partial(self._reported, call, name, path, args, stdin.encode("utf-8", errors="replace"))
        decision = await self._host.service(ServerGuard).decide(_RUN, _spelled(call, name, path), call.view)
        if decision.verdict is Verdict.DENY:
            note_denied(RequestReason.GUARD)
            raise InvalidRequestError(decision.reason)

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            if decision.verdict is Verdict.CONFIRM:
                await _ask(ClientUser(exchange, name, in_run=False), decision.reason, dict(arguments))
            return await run()

        return await self._exchanges.handle_call(call.ctx, {}, work)

    async def _reported(self, call: ToolCall, name: str, path: str, args: list[str], stdin: bytes) -> dict[str, Any]:
        report = await self._run(call, name, path, args, stdin)
        logger.info("script: %s; %s %s", report.summary, report.digest, report.isolation)
        if warning := self._runner.setup.isolation.warning:
            logger.warning("script: %s of %s: %s", one_line(report.path), one_line(report.skill), warning)
        kept: str | None = None

        def result(size: int) -> dict[str, Any]:
            nonlocal kept
            out, err = OutputSlice.of(report.stdout, 0, size), OutputSlice.of(report.stderr, 0, size)
            if kept is None and (out.next_offset is not None or err.next_offset is not None):
                kept = self._outputs.keep(report)
            return _result(report, out, err, kept)

        return _fitting(call.room, result)

    async def _run(self, call: ToolCall, name: str, path: str, args: list[str], stdin: bytes) -> ScriptReport:
        for _ in range(_ATTEMPTS):
            catalog = self._host.view(call.ctx).catalog
            skill = catalog.skill(name, catalog.offered)
            file = catalog.file_of(skill, path)
            refuse_eval_file(skill, file)
            note_skill(skill, Use.RAN)
            variables = await anyio.to_thread.run_sync(variables_of, skill)
            logger.info("script: %s %s of %s %s", one_line(file.path), file.digest, one_line(skill.key), skill.digest)
            try:
                result = await self._runner.run(skill, file.path, args, stdin=stdin, variables=variables)
            except SkillChangedError as error:
                await self._host.reload(error.paths)
                continue
            hide = Secrets(variables).redact
            return report_of(skill, file.path, self._runner.setup.isolation.kind, result, hide)
        raise InvalidRequestError(f"The files of the skill {name[:200]!r} keep changing; try again later.")

    def _further(self, call: ToolCall) -> dict[str, Any]:
        arguments = call.arguments
        name, stream = string(arguments, OUTPUT), string(arguments, STREAM, default=Stream.STDOUT)
        offset = arguments.get(OFFSET, 0)
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise InvalidRequestError(f"{OFFSET} must be a whole number, from 0 on")
        if stream not in list(Stream):
            raise InvalidRequestError(f"{STREAM} must be one of {', '.join(Stream)}")
        report = self._outputs.find(name)
        if report is None:
            raise InvalidRequestError(expired_output(name))

        def result(size: int) -> dict[str, Any]:
            sizes = {each: size if each == stream else 0 for each in Stream}
            out = OutputSlice.of(report.stdout, offset if sizes[Stream.STDOUT] else 0, sizes[Stream.STDOUT])
            err = OutputSlice.of(report.stderr, offset if sizes[Stream.STDERR] else 0, sizes[Stream.STDERR])
            return _result(report, out, err, name)

        return _fitting(call.room, result)


def _spelled(call: ToolCall, name: str, path: str) -> Mapping[str, Any]:
    """Return the arguments with the script's path as patterns of the guard name it: in its right case."""
    try:
        file = call.view.catalog.file_of(call.view.catalog.skill(name, ()), path)
    except (UnknownSkillError, UnknownFileError):
        # Running the script reports it.
        return call.arguments
    return {**call.arguments, _PATH: file.path}


def _fitting(room: ResultRoom | None, result: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Return the result with the longest parts of the streams that the client passes on; `result` takes their size."""
    size = PIECE
    while room is not None and size > _LEAST_PIECE and not room.fits_with_news(result(size)):
        size = size * 3 // 4
    return result(size)


async def _ask(user: User, reason: str, arguments: dict[str, Any]) -> None:
    """Ask the user for consent.

    Raises:
        InvalidRequestError: the user declines, or cannot be asked.
    """
    question = confirmation_question(_RUN, "a script", arguments, reason)
    agreed = None if question is None else await user.confirm(question)
    if not agreed:
        note_denied(RequestReason.DECLINED)
        why = "This client cannot ask the user, so the script was not run." if agreed is None else "The user declined."
        raise InvalidRequestError(f"{reason} {why}")


def _args(arguments: Mapping[str, Any]) -> list[str]:
    args = arguments.get(_ARGS) or []
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise InvalidRequestError(f'{_ARGS} must be a list of strings, such as ["--format", "csv", "sales.csv"]')
    if len(args) > _MAX_ARGS or sum(map(len, args)) > _MAX_TEXT:
        message = f"{_ARGS} may have at most {_MAX_ARGS} items and {_MAX_TEXT} characters; use {_STDIN} for more"
        raise InvalidRequestError(message)
    return args


def _result(report: ScriptReport, out: OutputSlice, err: OutputSlice, kept: str | None) -> dict[str, Any]:
    """Return the result: how the script ended, and a part of each stream in a block of its own."""
    head = [f"{report.summary}."]
    blocks: list[dict[str, Any]] = []
    for stream, piece in ((Stream.STDOUT, out), (Stream.STDERR, err)):
        if piece.text:
            end = piece.offset + len(piece.text)
            part = "" if len(piece.text) == piece.total else f", characters {piece.offset} to {end} of {piece.total}"
            head.append(f"Block {len(blocks) + 2} is its {stream}{part}.")
            blocks.append(text_block(piece.text))
        if kept and piece.next_offset is not None:
            head.append(continuation_hint(_RUN, kept, stream, piece.next_offset))
    if not blocks:
        head.append("It wrote nothing.")
    structured = {**report.facts, "output": kept, "stdout": _object(out), "stderr": _object(err)}
    result = tool_result([text_block(" ".join(head)), *blocks], is_error=not report.succeeded)
    return {**result, "structuredContent": structured}


def _object(piece: OutputSlice) -> dict[str, Any]:
    return {"text": piece.text, "offset": piece.offset, "total": piece.total, "next_offset": piece.next_offset}


TOOLS = (
    Tool(
        RUN_SKILL_SCRIPT,
        _entry,
        lambda services: _ScriptHandler(services).call,
        is_offered=offers_scripts,
        is_listed=has_active,
        is_callable=has_active,
        verbatim=True,
    ),
)
