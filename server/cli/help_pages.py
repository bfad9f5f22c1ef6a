"""Commands and their groups: the pages of `--help`, in plain text, and what is said about a wrong command line.

A command and an option name the section that lists them as their `rich_help_panel`, the name that typer has for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from server.cli.near_misses import unknown_command, unknown_option

Untyped: TypeAlias = Any
# typer exports no types for contexts, parameters and formatters.

UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]
"""What the command-line library raises for a wrong command line; typer does not export it."""

_HELP_OPTIONS: Final = ["-h", "--help"]
_MAX_WIDTH: Final = 100
_WIDEST_NAMES: Final = 24
# Columns for the names of options; longer ones have their text below.


class CommandGroup(StrEnum):
    """The sections of `skillserve --help`, in their order."""

    SERVE = "Serve skills"
    WRITE = "Write skills"
    MEASURE = "Measure skills"
    RUN = "Run skills"
    OPERATE = "Operate a server"


class OptionGroup(StrEnum):
    """The sections for options that several commands share; all others come first, as `Options`."""

    SKILLS = "Which skills"
    RUNS = "What runs may use"
    CHANGES = "Changes of skills"
    REPORTS = "Limits and reports"


class Command(TyperCommand):
    """A command whose help lists its options in sections."""

    def format_options(self, ctx: Untyped, formatter: Untyped) -> None:
        """Write the arguments and the options."""
        _write_parameters(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Untyped) -> list[str]:
        """Return the words of the line with the usage."""
        del ctx
        return [str(self.options_metavar), *map(usage_of, _of_kind(self, "argument"))]

    def parse_args(self, ctx: Untyped, args: list[str]) -> list[str]:
        """Parse the words; the error of an unknown option says which one may be meant."""
        with _options_explained(self, ctx):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands whose help lists them in sections."""

    def format_options(self, ctx: Untyped, formatter: Untyped) -> None:
        """Write the commands, and then the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        if any(section_of(each) for each in self.commands.values()):
            sections = {group.value: [] for group in CommandGroup}
        for name, command in self.commands.items():
            if not command.hidden:
                sections.setdefault(section_of(command) or "Commands", []).append((name, summary_of(command)))
        _write_sections(sections, formatter)
        _write_parameters(self, ctx, formatter)

    def parse_args(self, ctx: Untyped, args: list[str]) -> list[str]:
        """Parse the words; the error of an unknown option says which one may be meant."""
        with _options_explained(self, ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Untyped, args: list[str]) -> Untyped:
        """Return the command that the words begin with; the error of an unknown one says which may be meant.

        A command may have two words, such as `eval import` beside `eval`.
        """
        if (two := " ".join(args[:2])) in self.commands:
            args = [two, *args[2:]]
        if args and not args[0].startswith("-") and args[0] not in self.commands and not ctx.resilient_parsing:
            ctx.fail(unknown_command(self, ctx.command_path, args))
        return super().resolve_command(ctx, args)


class CommandLine(typer.Typer):
    """A group to which commands are added; they and the group have our pages of help."""

    def __init__(self, *, cls: type[Group] = Group, **settings: Untyped) -> None:
        """Make a group without commands."""
        context = {"help_option_names": _HELP_OPTIONS, "max_content_width": _MAX_WIDTH}
        super().__init__(cls=cls, context_settings=context, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Untyped) -> Callable[[Untyped], Untyped]:
        """Return a decorator that adds a function as a command."""
        return super().command(name, **{"cls": Command, **settings})


def group_with_default(name: str) -> type[Group]:
    """Return a kind of group in which arguments that begin with no command, or are none, are those of `name`."""

    class GroupWithDefault(Group):
        def parse_args(self, ctx: Untyped, args: list[str]) -> list[str]:
            """Insert the default command, unless a command or the help is asked for."""
            if not (args and (args[0] in self.commands or args[0] in _HELP_OPTIONS)):
                args = [name, *args]
            return super().parse_args(ctx, args)

    return GroupWithDefault


def section_of(described: Untyped) -> str:
    """Return the section of a command or an option, empty if it has none."""
    section = getattr(described, "rich_help_panel", None)
    return section if isinstance(section, str) else ""


def summary_of(command: Untyped) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def parameters_in_sections(command: Untyped, ctx: Untyped) -> dict[str, list[tuple[str, str]]]:
    """Return the name and the help of each parameter by section: arguments, other options, and then the sections."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        is_argument = parameter.param_type_name == "argument"
        record = parameter.get_help_record(ctx)
        if record is not None:
            names = _argument_name(parameter) if is_argument else _option_names(record[0])
            section = "Arguments" if is_argument else section_of(parameter) or "Options"
            sections.setdefault(section, []).append((names, _tidy(record[1])))
    return {title: rows for title, rows in sections.items() if rows}


def usage_of(argument: Untyped) -> str:
    """Return an argument as the usage shows it: `NAME`, `[NAME]` or `[NAME]...`."""
    name, dots, _ = _argument_name(argument).partition("...")
    return f"{name}{dots}" if argument.required else f"[{name}]{dots}"


def _argument_name(argument: Untyped) -> str:
    name = (argument.metavar or argument.name).strip("[].").upper()
    return name if argument.nargs == 1 else f"{name}..."


def _option_names(record: str) -> str:
    """Return the names of an option and its value; the help says whether it can be repeated."""
    return re.sub(r"<list\[(.*)\]>", r"<\1>", record)


def _tidy(text: str) -> str:
    """Return a help text whose remark in brackets, about the default and the range, is in words."""
    words, bracket, remark = text.rpartition("[")
    if not (bracket and remark.endswith("]")):
        return text
    notes = [_note(each) for each in remark[:-1].split("; ") if each != "required"]
    return f"{words}[{'; '.join(notes)}]" if notes else words.rstrip()


def _note(note: str) -> str:
    note = re.sub(r"(?<![\d.])(\d+)\.0(?![\d.])", r"\1", note)
    note = re.sub(r"^default: \((.*)\)$", r"default: \1", note)
    note = re.sub(r"^(.+)<=x<=(.+)$", r"\1 to \2", note)
    return re.sub(r"^x>=(.+)$", r"at least \1", note)


def _of_kind(command: Untyped, kind: str) -> Iterator[Untyped]:
    return (each for each in command.params if each.param_type_name == kind)


def _write_parameters(command: Untyped, ctx: Untyped, formatter: Untyped) -> None:
    _write_sections(parameters_in_sections(command, ctx), formatter)


def _write_sections(sections: dict[str, list[tuple[str, str]]], formatter: Untyped) -> None:
    """Write sections whose texts begin in the same column, names that are too long on a line of their own."""
    lengths = [len(name) for rows in sections.values() for name, _ in rows]
    widest = min(_WIDEST_NAMES, formatter.width // 3)
    column = max((length for length in lengths if length <= widest), default=0)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(column), text) for name, text in rows], col_max=column)


@contextmanager
def _options_explained(command: Untyped, ctx: Untyped) -> Iterator[None]:
    """Complete the error of an option that a command does not have."""
    try:
        yield
    except UsageError as error:
        option: Untyped = getattr(error, "option_name", None)
        if option is not None and hasattr(error, "possibilities"):
            explained: Untyped = error
            explained.message = unknown_option(command, ctx.command_path, option)
            explained.possibilities = None
        raise
