"""The command line.

Each command imports what it needs when it runs: `status` has no use for an MCP server.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.config import ConfigurationError, LogLevel, Settings, Transport, load_settings
from server.console import NO, WRONG_USE, fail, print_json, print_text
from server.environment import Machine, current_places
from server.lean_sdk import defer_packages
from server.remote.commands import fetch, verify
from server.report import folder_of, print_skill, skill_object, status_object, validation_object
from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, printable
from skills_core.errors import SkillsError, UnknownSkillError, similar_to
from skills_core.library import Library
from skills_core.locations import default_sources, project_of
from skills_core.rendering import activation_inputs, render_activation, render_request
from skills_core.skill import Skill, State
from skills_core.sources import Strictness, explicit_sources
from skills_core.watcher import WatchMode  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.gates import Environment

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="The reference server for Agent Skills over MCP.",
)

Directories = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DIR", help="Folders of skills, highest precedence first; by default the usual ones."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FollowSymlinks = Annotated[
    bool, typer.Option("--follow-symlinks", help="Follow links to skill folders, and links that stay where they are.")
]
TrustWorkspace = Annotated[
    bool, typer.Option("--trust-workspace", help="Serve the skills of the project in the working directory.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Let every breach of a rule make a skill invalid.")]


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # Programs read UTF-8; a terminal that lacks a letter must not end a command.
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    try:
        app(prog_name="skillserve")
    except (SkillsError, ConfigurationError) as error:
        fail(str(error), WRONG_USE)


@app.command()
def serve(  # noqa: PLR0913 - one parameter for each flag
    directories: Directories = None,
    *,
    transport: Annotated[Transport | None, typer.Option(help="stdio by default.")] = None,
    host: Annotated[str | None, typer.Option(help="Address for HTTP; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for HTTP; 8000 by default.")] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="A Host header to accept over HTTP beside loopback; may be repeated."),
    ] = None,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
    watch: Annotated[WatchMode | None, typer.Option(help="How changes are noticed; auto by default.")] = None,
    watch_debounce_ms: Annotated[int | None, typer.Option(help="Quiet time that ends a burst; 250.")] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="How much goes to stderr; info by default.")] = None,
) -> None:
    """Serve folders of skills to MCP clients, and follow every change in them."""
    machine = Machine(current_places())
    settings = _settings(
        machine,
        transport=transport,
        host=host,
        port=port,
        allowed_hosts=tuple(allowed_host or ()),
        strictness=Strictness.STRICT if strict else None,
        follow_symlinks=follow_symlinks or None,
        trust_workspace=trust_workspace or None,
        watch=watch,
        watch_debounce_ms=watch_debounce_ms,
        log_level=log_level,
    )
    if settings.transport is Transport.STDIO and (sys.stdin is None or sys.stdout is None):
        fail("stdin or stdout is closed; a client speaks over both, or use --transport http", WRONG_USE)
    library = _open(directories, settings, machine)
    defer_packages()
    from server.serving import serve as run

    gc.freeze()
    gc.enable()
    for skill in library.catalog.skills:
        if skill.reason is not None:
            why = one_line(f"{skill.key}: {skill.reason}: {skill.detail}")
            logging.getLogger("server").info("%s: %s", skill.state, why)
    try:
        run(library, settings, machine.files)
    except KeyboardInterrupt:
        return


@app.command()
def status(
    directories: Directories = None,
    *,
    as_json: AsJson = False,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    trust_workspace: TrustWorkspace = False,
) -> None:
    """Show every skill that was found, its state, and why."""
    catalog = _open_quietly(
        directories, strict=strict, follow_symlinks=follow_symlinks, trust_workspace=trust_workspace
    ).catalog
    if as_json:
        print_json(status_object(catalog))
        return
    from server.tables import print_status

    print_status(catalog)


@app.command()
def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Skill folders, SKILL.md files, or folders of skills."),
    ],
    *,
    strict: Strict = False,
    follow_symlinks: FollowSymlinks = False,
    as_json: AsJson = False,
) -> None:
    """Check skills against the rules of their format."""
    results = [result for path in paths for result in _validate(path, strict=strict, follow_symlinks=follow_symlinks)]
    if as_json:
        print_json(validation_object(results))
    else:
        for _, _, diagnostics in results:
            for diagnostic in diagnostics:
                print_text(str(diagnostic))
        valid = sum(1 for _, is_valid, _ in results if is_valid)
        print_text(f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid")
    if not all(is_valid for _, is_valid, _ in results):
        raise typer.Exit(NO)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    as_json: AsJson = False,
    follow_symlinks: FollowSymlinks = False,
) -> None:
    """Show one skill: its fields, files and diagnostics."""
    catalog = _open_quietly(directories, follow_symlinks=follow_symlinks).catalog
    found = [skill for skill in catalog.skills if name in {skill.key, skill.name, skill.path}]
    if not found:
        close = similar_to(name, (skill.key for skill in catalog.skills))
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        fail(f"there is no skill {name[:200]!r}{hint}", NO)
    if as_json:
        print_json({"skills": [_with_files(skill_object(skill), skill) for skill in found]})
        return
    for skill in found:
        print_skill(skill)


@app.command()
def activate(
    name: Annotated[str, typer.Argument(help="The skill's name.")],
    directories: Directories = None,
    *,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter's value; may be repeated.")
    ] = None,
    follow_symlinks: FollowSymlinks = False,
) -> None:
    """Print the text that activating a skill hands to a model."""
    values: dict[str, str] = {}
    for pair in param or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            fail(f"--param {pair!r}: expected NAME=VALUE", WRONG_USE)
        values[key] = value
    try:
        skill = _open_quietly(directories, follow_symlinks=follow_symlinks).catalog.skill(name)
    except UnknownSkillError as error:
        fail(str(error), NO)
    values, message = activation_inputs(skill, values)
    print_text(render_activation(skill, values, directory=True))
    if message:
        print_text(render_request(skill, message))


app.command()(verify)
app.command()(fetch)


def _settings(machine: Machine, **flags: object) -> Settings:
    settings = load_settings(flags, os.environ, jdai=machine.jdai.read())
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if settings.log_level is LogLevel.INFO:
        # What the libraries find worth telling at this level is about themselves.
        for library in ("uvicorn", "mcp"):
            logging.getLogger(library).setLevel(logging.WARNING)
    return settings


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The skill's name: lower-case letters, digits and hyphens.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the skill's folder goes.")] = Path(),
    description: Annotated[str | None, typer.Option(help="What it does, and when to use it.")] = None,
) -> None:
    """Write a new skill to begin with."""
    from server.scaffold import write_skill

    print_text(str(write_skill(to, name, description)))


@app.command()
def trust(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The project; by default the one here.")] = Path(),
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no more.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="Show what is trusted.")] = False,
) -> None:
    """Trust a project: its own skills are served when the server runs in it."""
    machine = Machine(current_places())
    file = machine.trust
    if as_list:
        for folder in file.folders():
            print_text(str(folder))
        return
    if not path.is_dir() and not remove:
        fail(f"{path}: there is no such directory", WRONG_USE)
    folder = project_of(path.resolve(), machine.places.home)
    if not remove:
        file.add(folder)
        print_text(f"trusted: {folder}")
    elif file.remove(folder):
        print_text(f"no longer trusted: {folder}")
    else:
        fail(f"{folder} is not in the list; see skillserve trust --list", NO)


def _open(directories: Sequence[Path] | None, settings: Settings, machine: Machine) -> Library:
    if directories:
        sources = explicit_sources(directories, settings.strictness, follow_symlinks=settings.follow_symlinks)
    else:
        sources = default_sources(machine.places, follow_symlinks=settings.follow_symlinks)
        if settings.strictness is Strictness.STRICT:
            sources = tuple(replace(source, strictness=settings.strictness) for source in sources)
        if settings.trust_workspace:
            sources = tuple(replace(source, project=None) for source in sources)

    def environment() -> Environment:
        return replace(machine.environment(), enabled=settings.enabled, disabled=settings.disabled)

    return Library(sources, environment)


def _open_quietly(directories: Sequence[Path] | None, **flags: bool) -> Library:
    given: dict[str, object] = {name: flag or None for name, flag in flags.items()}
    given["strictness"] = Strictness.STRICT if given.pop("strict", None) else None
    machine = Machine(current_places())
    return _open(directories, load_settings(given, os.environ, jdai=machine.jdai.read()), machine)


def _validate(path: Path, *, strict: bool, follow_symlinks: bool) -> list[tuple[str, bool, tuple[Diagnostic, ...]]]:
    """Return (path, valid, diagnostics) for each skill at or below `path`."""
    single = path.is_file()
    if single and path.name.lower() != "skill.md":
        fail(f"{path}: this is no SKILL.md; name the skill's folder", WRONG_USE)
    library = _open_quietly([path.parent if single else path], strict=strict, follow_symlinks=follow_symlinks)
    skills = [skill for skill in library.catalog.skills if not (single and skill.content.folder)]
    if not skills:
        where = printable(str(path))
        message = "there is no SKILL.md here or in any folder below"
        return [(where, False, (Diagnostic(Severity.ERROR, Reason.MISSING_SKILL_FILE, message, where),))]
    # Gates and names taken elsewhere say nothing about the skill itself.
    return [(folder_of(skill), skill.state is not State.INVALID, skill.diagnostics) for skill in skills]


def _with_files(described: dict[str, Any], skill: Skill) -> dict[str, Any]:
    files = [
        {
            "path": printable(file.path),
            "uri": skill.file_uri(file.path),
            "size": file.size,
            "digest": file.digest,
        }
        for file in skill.content.files.values()
    ]
    return {**described, "frontmatter": skill.frontmatter.raw, "files": files}
