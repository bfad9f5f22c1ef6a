"""Scripts that agents cannot use well: they wait for a person, have no `--help`, or do not even parse."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from skills_core.audit.code.code_units import CodeUnit, Language
from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.mentions.markdown import positions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.code.python_code import PythonCode
    from skills_core.audit.skill import SkillUnderAudit

__all__ = ["RULES"]

_ASKS = {
    "input",
    "builtins.input",
    "raw_input",
    "getpass.getpass",
    "click.prompt",
    "click.confirm",
    "typer.prompt",
    "typer.confirm",
}
_ASKING_MODULES = (
    "inquirer.",
    "questionary.",
    "InquirerPy.",
    "PyInquirer.",
    "prompt_toolkit.prompt",
    "rich.prompt.",
    "pick.pick",
    "simple_term_menu.",
)
_TERMINAL = re.compile(r"\bisatty\(\)|\.isTTY\b|\[\[?\s+!?\s*-t\s+[012]")
_TERMINAL_WORDS = ("isatty", "isTTY", "-t")
# One of them is in what `_TERMINAL` matches.

_JS_ASKS = re.compile(
    r"\b(?:inquirer|enquirer)\.prompt\s*\(|\brl\.question\s*\(|\.question\s*\(\s*[\"'`]"
    r"|\bawait prompts\s*\(|@clack/prompts|@inquirer/prompts|\breadlineSync\.|\breadline-sync\b"
)
_OTHER_ASKS = re.compile(
    r"(?i)\bRead-Host\b|\bset\s+/p\b|\bSTDIN\.gets\b|\$stdin\.gets\b|\bgets\.chomp\b|\breadline\(\s*[\"']"
)
_READ_OPTION = re.compile(r"^-[A-Za-z]*p")
_MENUS = frozenset({"select", "whiptail", "dialog", "zenity", "gum", "fzf"})

_PARSERS = (
    "argparse",
    "click",
    "typer",
    "fire",
    "docopt",
    "optparse",
    "absl.flags",
    "tyro",
    "cyclopts",
    "simple_parsing",
    "plac",
    "jsonargparse",
    "defopt",
)
_HELP = re.compile(r"--help|\busage\b|[\"'\s|]-h[\"'\s|)]|getopts\s+[\"':]*\w*h", re.IGNORECASE)
_JS_PARSERS = re.compile(
    r"[\"'](?:commander|yargs(?:/yargs)?|meow|cac|citty|minimist|arg|sade|@oclif/core|@commander-js/[\w-]+|optimist|command-line-usage)[\"']"
)
_ARGUMENTS = {
    Language.SHELL: re.compile(r"\$\{?[1-9@*]|\$#(?!\w)|\bgetopts\b"),
    Language.JAVASCRIPT: re.compile(r"\bprocess\.argv\b|\bDeno\.args\b|\bBun\.argv\b|\bparseArgs\s*\("),
    Language.OTHER: re.compile(
        r"\bARGV\b|\$args\b|\bparam\s*\(|@ARGV|\bos\.Args\b|%~?[1-9]|\$argv\b|\bcommandArgs\s*\("
    ),
}
_COMMENT = re.compile(r"(?m)(?<![\w'\"$\\])#[^\n]*$")
_RUN = re.compile(
    r"\b(?:runs?|execute|call|invoke|launch|start|use|python[\d.]*|bash|sh|zsh|node|deno|bun|ruby|perl|uv|pwsh|npx|tsx|source)\b[^\n]*$"
    r"|(?:^|[\s`\"'])\./$",
    re.IGNORECASE,
)
_LINE = 200
_FUNCTION = re.compile(r"[ \t]*(?:function[ \t]+)?([\w-]+)[ \t]*(?:\(\))?[ \t]*\{")
_PASSES_ON = re.compile(r"^[ \t]*([\w-]+)[ \t]+\"\$@\"", re.MULTILINE)


def run_scripts(skill: SkillUnderAudit) -> Iterator[CodeUnit]:
    """Yield the scripts that Markdown of the skill tells to run, outside of `evals/`."""
    documents = [file.text or "" for file in skill.texts if file.is_markdown and not file.is_eval]
    for file in skill.texts:
        is_program = file.is_script and not file.is_eval and not file.is_markdown and file.code
        if is_program and any(_is_run(text, file.path) for text in documents):
            yield file.code[0]


def _is_run(text: str, path: str) -> bool:
    """Tell whether a text tells to run a script: by its line, or because its folder has nothing else."""
    for place in positions_of(path, text):
        line = text[max(text.rfind("\n", 0, place) + 1, place - _LINE) : place]
        if path.startswith("scripts/") or _RUN.search(line):
            return True
    return False


def _prompts(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if not file.is_script or file.is_eval or file.is_markdown:
            continue
        for unit in file.code:
            if any(word in unit.text for word in _TERMINAL_WORDS) and _TERMINAL.search(unit.text):
                continue  # it asks only at a terminal, which agents do not have
            for start, what in _questions(unit):
                yield Hit(file, f"waits for an answer of a person: {what}", start)


def _questions(unit: CodeUnit) -> Iterator[tuple[int, str]]:
    if unit.python is not None:
        yield from _python_questions(unit, unit.python)
    elif unit.language is Language.SHELL:
        yield from _shell_questions(unit)
    else:
        pattern = _JS_ASKS if unit.language is Language.JAVASCRIPT else _OTHER_ASKS
        for match in pattern.finditer(unit.text):
            yield unit.start + match.start(), match[0].strip("( \"'`")


def _python_questions(unit: CodeUnit, code: PythonCode) -> Iterator[tuple[int, str]]:
    for name, call in code.calls:
        if (name in _ASKS and not _is_defined(code, name)) or name.startswith(_ASKING_MODULES):
            yield unit.position(call), f"{name}()"


def _is_defined(code: PythonCode, name: str) -> bool:
    """Tell whether a program itself gives a name its meaning."""
    functions = (ast.FunctionDef, ast.ClassDef)
    return name in code.values or any(isinstance(node, functions) and node.name == name for node in code.nodes)


def _shell_questions(unit: CodeUnit) -> Iterator[tuple[int, str]]:
    for pipeline in unit.pipelines:
        for command in pipeline.commands:
            options = [word.text for word in command.arguments if word.text.startswith("-")]
            asks = command.name == "read" and any(_READ_OPTION.match(option) for option in options)
            if asks or (command.name in _MENUS and command.arguments and pipeline.commands[0] is command):
                yield command.start, " ".join([command.name, *options[:1]])


def _without_help(skill: SkillUnderAudit) -> Iterator[Hit]:
    for unit in run_scripts(skill):
        if _takes_arguments(unit) and not _has_help(unit):
            yield Hit(skill.files[unit.path], "takes arguments and has no `--help`", evidence="help")


def _takes_arguments(unit: CodeUnit) -> bool:
    if unit.python is not None:
        return (
            any(
                isinstance(node, ast.Attribute) and unit.python.name_of(node) == "sys.argv"
                for node in unit.python.nodes
            )
            or "argv" in unit.python.imports
        )
    pattern = _ARGUMENTS.get(unit.language)
    text = _outside_functions(unit.text) if unit.language is Language.SHELL else unit.text
    return pattern is not None and pattern.search(text) is not None


def _outside_functions(text: str) -> str:
    """Return a shell script without its functions, whose arguments are their own; one that gets all of them stays."""
    bodies: dict[str, list[str]] = {}
    outside: list[str] = []
    current = outside
    for line in text.split("\n"):
        function = _FUNCTION.match(line)
        if function is not None:
            current = bodies[function[1]] = [line]
        else:
            current.append(line)
        if current is not outside and line.rstrip().endswith("}") and (function is not None or line.strip() == "}"):
            current = outside
    names = dict.fromkeys(_PASSES_ON.findall("\n".join(outside)))
    kept = (line for line in outside if not _PASSES_ON.match(line))
    return "\n".join([*kept, *(line for name in names for line in bodies.get(name, [f'{name} "$@"']))])


def _has_help(unit: CodeUnit) -> bool:
    if unit.python is not None and any(
        module.split(".")[0] in _PARSERS or module in _PARSERS for module in unit.python.modules
    ):
        return True
    text = _COMMENT.sub("", unit.text) if unit.language is Language.SHELL else unit.text
    return bool(_HELP.search(text) or _JS_PARSERS.search(unit.text))


def _broken(skill: SkillUnderAudit) -> Iterator[Hit]:
    for unit in run_scripts(skill):
        if unit.language is Language.PYTHON and unit.python is None and not _is_template(unit.text):
            yield Hit(
                skill.files[unit.path],
                "is not valid Python 3, so the audit could not read what it does",
                evidence="syntax",
            )


def _is_template(text: str) -> bool:
    return re.search(r"\{\{[^{}\n]+\}\}|\{%[^%\n]+%\}", text) is not None


RULES = (
    Rule(
        "script-prompts",
        Severity.WARNING,
        "Script that asks a person",
        "An agent has no terminal to answer from; the script waits until it is stopped.",
        "Take all input by options, variables or standard input, and fail with a message if something is missing.",
        _prompts,
    ),
    Rule(
        "script-without-help",
        Severity.NOTE,
        "Script without `--help`",
        "Agents learn from `--help` how to call a script; without it they read the source or guess.",
        "Describe the options with a parser of arguments, or print the usage for `--help`.",
        _without_help,
    ),
    Rule(
        "broken-script",
        Severity.WARNING,
        "Script that does not parse",
        "The script fails when an agent runs it, and the audit cannot check it.",
        "Correct the syntax, or name the file as an example that is not to be run.",
        _broken,
        4.0,
    ),
)
