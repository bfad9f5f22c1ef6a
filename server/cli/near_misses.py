"""What is said about a command or an option that does not exist: which one is meant, also in words of other tools."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from server.config.values import home_path
from skills_core.diagnostics import one_line

_SHOWN: Final = 80
_MAX_NAMED: Final = 3
_MIN_SIMILARITY: Final = 0.7
# Short words are alike too easily.

_MEANT: Final = {
    "add": ("plugin install", "connect"),
    "auth": ("token add",),
    "bench": ("eval",),
    "cat": ("show",),
    "check": ("validate", "config check"),
    "completion": ("--show-completion",),
    "completions": ("--show-completion",),
    "configure": ("connect", "config check"),
    "create": ("init",),
    "debug": ("doctor",),
    "dev": ("serve",),
    "diagnose": ("doctor",),
    "disconnect": ("connect --remove",),
    "download": ("fetch", "plugin install"),
    "find": ("search",),
    "fix": ("validate --fix",),
    "format": ("validate --fix",),
    "generate-shell-completion": ("--show-completion",),
    "get": ("show", "fetch"),
    "help": ("--help",),
    "health": ("doctor",),
    "http": ("serve --transport http",),
    "import": ("eval import", "plugin install"),
    "info": ("show",),
    "inspect": ("show", "catalog"),
    "install": ("plugin install", "connect"),
    "load": ("activate",),
    "log": ("history", "audit-log"),
    "login": ("token add",),
    "logs": ("audit-log", "doctor"),
    "ls": ("list",),
    "mcp": ("serve",),
    "new": ("init",),
    "permissions": ("status --as",),
    "ps": ("runs list",),
    "pull": ("fetch", "plugin update"),
    "remove": ("plugin remove", "connect --remove"),
    "restart": ("reload",),
    "rm": ("plugin remove", "connect --remove"),
    "roles": ("status --as",),
    "run-server": ("serve",),
    "scan": ("audit",),
    "server": ("serve",),
    "settings": ("config check",),
    "setup": ("connect",),
    "skills": ("list",),
    "start": ("serve",),
    "stats": ("analytics",),
    "stdio": ("serve",),
    "sync": ("plugin update", "reload"),
    "test": ("eval", "triggers"),
    "tree": ("list",),
    "undo": ("rollback",),
    "uninstall": ("connect --remove", "plugin remove"),
    "unlink": ("connect --remove",),
    "up": ("serve",),
    "update": ("plugin update",),
    "upgrade": ("plugin update",),
    "usage": ("analytics",),
    "use": ("activate",),
    "version": ("--version",),
    "view": ("show",),
    "why": ("status", "doctor"),
}
"""What words of other tools mean here; a command that a server does not have is left out."""

_SYNONYMS: Final = (
    frozenset({"add", "create", "install", "new"}),
    frozenset({"delete", "remove", "revoke", "rm", "uninstall"}),
    frozenset({"list", "ls"}),
    frozenset({"cat", "get", "info", "inspect", "show", "status", "view"}),
    frozenset({"sync", "update", "upgrade"}),
    frozenset({"exec", "run", "start"}),
    frozenset({"cancel", "disable", "kill", "pause", "stop"}),
    frozenset({"continue", "enable", "restart", "resume", "retry"}),
    frozenset({"check", "lint", "validate", "verify"}),
)
"""Words that mean the same within a group such as `plugin` or `schedule`."""

_MEANT_OPTIONS: Final = {
    "--address": ("--host",),
    "--bind": ("--host",),
    "--debug": ("--log-level debug",),
    "--directory": ("DIR", "--dir"),
    "--dir": ("DIR",),
    "--format": ("--json",),
    "--http": ("--transport http",),
    "--no-watch": ("--watch off",),
    "--output": ("--to", "--json"),
    "--path": ("DIR",),
    "--quiet": ("--log-level error",),
    "--reload": ("--watch",),
    "--role": ("--as",),
    "--silent": ("--log-level error",),
    "--skills": ("DIR",),
    "--stdio": ("--transport stdio",),
    "--verbose": ("--log-level debug",),
    "-d": ("DIR", "--dir"),
    "-f": ("--force", "--format"),
    "-j": ("--json", "--jobs"),
    "-l": ("--limit", "--log-level"),
    "-n": ("--limit", "--name"),
    "-o": ("--output", "--to"),
    "-p": ("--port", "--param"),
    "-q": ("--log-level error",),
    "-t": ("--transport", "--tag", "--to"),
    "-v": ("--log-level debug",),
}
"""What options of other tools mean here, where the command has the option or the argument."""


def unknown_command(group: Any, path: str, words: list[str]) -> str:  # noqa: ANN401 - typer does not export the type
    """Return the message about words that begin with no command of a group, which is called by `path`."""
    word = words[0]
    message = f"No such command {one_line(word)[:_SHOWN]!r}."
    found = [f"{path} {each}" for each in dict.fromkeys(_meant(group, word, is_root=" " not in path))]
    if not found and " " not in path and _is_folder(word):
        return f"{message} To serve this folder: {path} serve {one_line(word)[:_SHOWN]}"
    if found == [f"{path} --help"] and words[1:]:
        found = [f"{path} {one_line(' '.join(words[1:]))[:_SHOWN]} --help"]
    return f"{message} {_did_you_mean(found) or f'`{path} --help` lists all commands.'}"


def unknown_option(command: Any, path: str, option: str) -> str:  # noqa: ANN401
    """Return the message about an option that a command, which is called by `path`, does not have."""
    message = f"No such option: {one_line(option)[:_SHOWN]}."
    names = _options_of(command)
    arguments = {str(each.metavar).strip("[].") for each in command.params if each.param_type_name == "argument"}
    having = [f"`{path} {name}`" for name, each in _commands_of(command) if option in _options_of(each)]
    if having:
        more = f" and {len(having) - _MAX_NAMED} more" if len(having) > _MAX_NAMED else ""
        return f"{message} Options follow the command; this one is of {', '.join(having[:_MAX_NAMED])}{more}."
    found = [each for each in _MEANT_OPTIONS.get(option, ()) if each.split()[0] in names | arguments]
    if not found and option.startswith("--"):
        found = difflib.get_close_matches(option, sorted(names), 2, _MIN_SIMILARITY)
    if not found and (option in {"-V", "-v"} or difflib.get_close_matches(option, ["--version"])):
        found = [f"{path.partition(' ')[0]} --version"]
    return f"{message} {_did_you_mean(found) or f'`{path} --help` lists the options.'}"


def _meant(group: Any, word: str, *, is_root: bool) -> Iterator[str]:  # noqa: ANN401
    """Yield what may be meant in a group by `word`: what it means in other tools, or else what looks alike."""
    if is_root and word.lower() in _MEANT:
        yield from (each for each in _MEANT[word.lower()] if _exists(group, each.split()))
        return
    same = {each for words in _SYNONYMS if word.lower() in words for each in words}
    if not is_root and (having := [name for name in group.commands if name in same]):
        yield from having
        return
    yield from difflib.get_close_matches(word.lower(), group.commands, 2, _MIN_SIMILARITY)
    for name, command in _commands_of(group):
        if word in getattr(command, "commands", ()):
            yield f"{name} {word}"


def _exists(group: Any, words: list[str]) -> bool:  # noqa: ANN401
    """Tell whether the words are a command of a group, or an option of the group or of that command."""
    if words[0].startswith("--"):
        return words[0] in _options_of(group)
    commands = getattr(group, "commands", {})
    if " ".join(words) in commands:
        return True
    command = commands.get(words[0])
    return command is not None and (not words[1:] or _exists(command, words[1:]))


def _commands_of(command: Any) -> Iterable[tuple[str, Any]]:  # noqa: ANN401
    return getattr(command, "commands", {}).items()


def _options_of(command: Any) -> set[str]:  # noqa: ANN401
    return {"--help", *(name for each in command.params if each.param_type_name == "option" for name in each.opts)}


def _is_folder(word: str) -> bool:
    try:
        return home_path(word).is_dir()
    except (OSError, ValueError):
        return False


def _did_you_mean(found: list[str]) -> str:
    return f"Did you mean {' or '.join(f'`{each}`' for each in found)}?" if found else ""
