"""What the body of a skill asks of an agent: its size, menus of equal options, files that it names, scripts.

Agents cannot use scripts well that wait for a person, have no `--help`, or do not even parse.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from skills_core.audit.code_units import CodeUnit, Language
from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import shown
from skills_core.audit.search import find, is_found
from skills_core.diagnostics import counted
from skills_core.errors import did_you_mean, similar_paths
from skills_core.mentions.markdown import positions_of, without_fences
from skills_core.mentions.paths import mentioned_paths, missing_scripts

if TYPE_CHECKING:
    from skills_core.audit.code_parsers import PythonCode
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


MAX_LINES = 500
MAX_TOKENS = 5000

_ASCII_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has: one for four ASCII characters, one for each other character."""
    others = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (len(text) - others + _ASCII_PER_TOKEN - 1) // _ASCII_PER_TOKEN + others


def _too_long(skill: SkillUnderAudit) -> Iterator[Hit]:
    lines, tokens = skill.body.count("\n") + 1, estimated_tokens(skill.body)
    if skill.main is None or (lines <= MAX_LINES and tokens <= MAX_TOKENS):
        return
    size = f"{counted(lines, 'line')} and about {counted(tokens, 'token')}; at most {MAX_LINES} and {MAX_TOKENS:,}"
    yield Hit(skill.main, f"the body has {size}", skill.body_start, evidence="")


_ITEM = r"`?[\w.+#/@-]+(?: [\w.+#/@-]+)?`?"
_MENU = (
    r"\b(?:you (?:can|could|may|might)|can|could|either|choose|pick|options?(?: are|:)?|feel free to|use"
    rf"|using|with|try)\b[^.\n,]{{0,30}}?\s(?:{_ITEM},\s+){{2,8}}(?:or\s+){_ITEM}"
)
_CHOICE = (
    r"\b(?:you (?:can|could|may|might)|can (?:use|be)|could|either|choose|pick|options?|feel free|use|using|try)\b"
)
_DEFAULT = (
    r"\b(?:default\w*|prefer\w*|recommend\w*|first choice|unless|start with|best|depending on|based on"
    r"|according to|whichever|matching|if|when|for (?:most|the|scanned|simple|each))\b"
    r"|^\s*use\s+\S+\s+for\b|\.\s+use\s+`?[\w.-]+`?\s+(?:for|unless|by)\b"
)
_NEAR = 300


def _menus(skill: SkillUnderAudit) -> Iterator[Hit]:
    main = skill.main
    if main is None:
        return
    body = without_fences(skill.body)
    for found in find(_MENU, body):
        around = body[max(0, found.start - 80) : found.end + _NEAR].replace("\n", " ")
        if is_found(_CHOICE, found.text) and not is_found(_DEFAULT, around):
            message = f"offers equal options without a default: {shown(found.text)}"
            yield Hit(main, message, skill.body_start + found.start)


_LINK = re.compile(r"\]\(\s*(?:<([^<>\n]{1,255})>|([^()\s<>]{1,255}))(?:\s+[\"'][^\"'\n]{0,200}[\"'])?\s*\)")
_SPAN = re.compile(r"`((?:\./)?(?:scripts|references?|assets|templates|resources)/[\w./-]{1,200}\.\w{1,8})`")
MAX_LINKS = 2000
"""Links of each kind in one file that are looked at."""

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|//|#|/|~|\.\.\./")
_PLACEHOLDER = re.compile(
    r"[{}<>*$]|\.\.\.|^(?:url|link|path|file|image|todo|example)\b|/path/to/|your[-_]|xxx", re.IGNORECASE
)


class Link(NamedTuple):
    """A relative path that a file names at a position, without its fragment; `in_code` if it is a code span."""

    start: int
    target: str
    in_code: bool = False


def links_of(file: AuditedFile) -> Iterator[Link]:
    """Yield the relative links of a Markdown file, and paths below the usual folders in code spans."""
    if not file.is_markdown:
        return
    text = file.unfenced
    line, marks, counted = 0, 0, 0
    for match in islice(_LINK.finditer(text), MAX_LINKS):
        begin = text.rfind("\n", counted, match.start()) + 1
        if begin > line:
            line = counted = begin
            marks = 0
        marks += text.count("`", counted, match.start())
        counted = match.start()
        target = unquote((match[1] or match[2]).partition("#")[0].partition("?")[0])
        in_code = marks % 2 == 1
        if target and not in_code and not _SCHEME.match(target) and not _PLACEHOLDER.search(target):
            yield Link(match.start(), target)
    for match in islice(_SPAN.finditer(text), MAX_LINKS):
        if not _PLACEHOLDER.search(match[1]):
            yield Link(match.start(1), match[1], in_code=True)


def resolve(skill: SkillUnderAudit, file: AuditedFile, target: str) -> str | None:
    """Return the path that a link leads to, from the file's folder or the skill's; None if nothing is there."""
    folder = posixpath.dirname(file.path)
    for base in (folder, ""):
        path = posixpath.normpath(posixpath.join(base, target))
        if path == "." or path in skill.files or any(each.startswith(f"{path}/") for each in skill.files):
            return path
    return None


def respelled_in(skill: SkillUnderAudit, file: AuditedFile) -> Iterator[tuple[int, str, str]]:
    """Yield where a Markdown file names another in a different case: the position, the path there, and the file's."""
    if not file.is_markdown or file.text is None:
        return
    folder = posixpath.dirname(file.path)
    # A path is relative to the folder of the file or to that of the skill.
    for base in dict.fromkeys((f"{folder}/" if folder else "", "")):
        paths = [path.removeprefix(base) for path in skill.files if path.startswith(base) and path != file.path]
        for mention in mentioned_paths(file.text, paths, skill.names).respelled:
            if resolve(skill, file, mention.written) is None:
                yield mention.position, mention.written, f"{base}{mention.path}"


def named_files(skill: SkillUnderAudit, file: AuditedFile) -> frozenset[str]:
    """Return the paths of the files of the skill that a text file names."""
    text = file.text or ""
    found = set(mentioned_paths(text, skill.files.keys(), skill.names).paths)
    folder = posixpath.dirname(file.path)
    if folder:
        beside = {path.removeprefix(f"{folder}/"): path for path in skill.files if path.startswith(f"{folder}/")}
        found |= {beside[path] for path in mentioned_paths(text, beside.keys(), skill.names).paths}
    for link in links_of(file):
        target = resolve(skill, file, link.target)
        if target is not None:
            found |= {target} if target in skill.files else {p for p in skill.files if p.startswith(f"{target}/")}
    return frozenset(found - {file.path})


_KNOWN_NAME_TEXT = (
    "license licence notice copying readme changelog contributing authors security skill codeowners __init__ package"
    " package-lock requirements pyproject uv setup tsconfig makefile dockerfile third_party_notices"
)
_KNOWN_NAMES = frozenset(_KNOWN_NAME_TEXT.split())
# Files that people and programs find by their names.

_OF_HOSTS = frozenset({"agents/openai.yaml"})
# Files that hosts find by their paths. What they name, hosts read.

_FOLDER_END = r"(?![\w.<{$-])"
# After the name of a folder that is meant as a whole, and not as the beginning of a path.

_GLOB = re.compile(r"(?<![\w.*/-])(?:[\w.-]{1,100}/){1,10}[\w.-]{0,100}\*[\w.*-]{0,100}")
_MAX_GLOBS = 50
# A pattern for files in a folder: `references/api-*.md`.

_MAX_FILES = 500
# Above this number, a comparison of every file with every text would take too long; such a skill cannot be published.


def _missing(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_eval:
            continue
        respelled = {written for _, written, _ in respelled_in(skill, file)}
        for link in links_of(file):
            if resolve(skill, file, link.target) is None and link.target.removeprefix("./") not in respelled:
                outside = posixpath.normpath(link.target).startswith("..") and not posixpath.dirname(file.path)
                what = "leads out of the skill" if outside else "leads to no file of the skill"
                # A path in a code span may be an example, or a file that the skill writes.
                severity = Severity.NOTE if link.in_code else Severity.WARNING
                hint = "" if outside else did_you_mean(similar_paths(link.target, skill.files), "; did")
                yield Hit(file, f"the link to {link.target[:200]!r} {what}{hint}", link.start, severity)
        yield from _missing_scripts(skill, file)


def _missing_scripts(skill: SkillUnderAudit, file: AuditedFile) -> Iterator[Hit]:
    if not file.is_markdown or file.text is None:
        return
    linked = {posixpath.normpath(link.target) for link in links_of(file)}
    for script in missing_scripts(file.text, skill.files, skill.names):
        if script.path in linked:
            continue
        message = f"this runs {script.path[:200]!r}, which is not a file of the skill"
        if script.certain:
            yield Hit(file, message, script.position, Severity.WARNING)
        elif skill.is_folder:
            hint = "if it is one of the user's project, say so"
            yield Hit(file, f"{message}; {hint}", script.position, Severity.NOTE)


def _respelled(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        if file.is_eval:
            continue
        for start, written, path in respelled_in(skill, file):
            yield Hit(file, f"{written[:200]!r} is spelled {path[:200]!r} on disk", start)


def _reached(skill: SkillUnderAudit) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that SKILL.md names, and those that these name, at any distance."""
    main = skill.main
    if main is None or len(skill.files) > _MAX_FILES:
        return frozenset(skill.files), frozenset(skill.files)
    direct = named_files(skill, main) | frozenset(
        path for path in skill.files if any(path == each.removeprefix("./") for each in skill.frontmatter.references)
    )
    reached = {*direct, *(_OF_HOSTS & skill.files.keys())}
    waiting = sorted(reached)
    while waiting:
        file = skill.files[waiting.pop()]
        new = named_files(skill, file) - reached if file.text is not None else frozenset()
        reached |= new
        waiting += sorted(new)
    return direct, frozenset(reached - {main.path})


def _deep(skill: SkillUnderAudit) -> Iterator[Hit]:
    direct, reached = skill.once(_reached)
    for path in sorted(reached - direct):
        file = skill.files[path]
        if file.is_markdown and not file.is_eval and not _is_listed_folder(skill, file):
            by = next(
                (each for each in sorted(direct) if path in named_files(skill, skill.files[each])), "another file"
            )
            message = f"SKILL.md does not name this file, only {by} does"
            yield Hit(file, message)


def _unnamed(skill: SkillUnderAudit) -> Iterator[Hit]:
    _, reached = skill.once(_reached)
    for file in skill.files.values():
        stem = file.name.partition(".")[0].casefold()
        known = skill.is_main(file) or file.path in reached or stem in _KNOWN_NAMES or file.name.startswith(".")
        known = known or file.is_eval or file.link is not None or _is_listed_folder(skill, file)
        if not known and not _is_imported(skill, file, reached):
            yield Hit(file, "no file that the model reads names this file")


def _is_listed_folder(skill: SkillUnderAudit, file: AuditedFile) -> bool:
    """Tell whether SKILL.md names a folder above a file, as `assets/`, or a pattern for it: the model lists it."""
    parts = file.path.split("/")[:-1]
    above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    if any(
        re.search(rf"{re.escape(folder)}/{_FOLDER_END}|`(?:\./)?{re.escape(folder)}`", skill.body) for folder in above
    ):
        return True
    return any(fnmatchcase(file.path, pattern.removeprefix("./")) for pattern in _GLOB.findall(skill.body)[:_MAX_GLOBS])


def _is_imported(skill: SkillUnderAudit, file: AuditedFile, reached: frozenset[str]) -> bool:
    """Tell whether a program that the skill names, or its SKILL.md, may import or read a file.

    A program may if it has the file's stem, or its folder in quotes; SKILL.md has the full name of the module.
    """
    stem = file.name.rpartition(".")[0] or file.name
    words = {stem, *(f'"{folder}"' for folder in file.path.split("/")[:-1])}
    module = file.path.removesuffix(".py").replace("/", ".")
    if file.suffix == ".py" and "." in module and re.search(rf"\b{re.escape(module)}\b", skill.body):
        return True
    return any(
        any(word in (skill.files[path].text or "") for word in words)
        for path in skill.files
        if path != file.path and skill.files[path].is_script and (path in reached or file.is_script)
    )


_ASKS_TEXT = """
input builtins.input raw_input getpass.getpass click.prompt click.confirm typer.prompt typer.confirm
"""
_ASKS = frozenset(_ASKS_TEXT.split())
_ASKING_MODULES_TEXT = """
inquirer. questionary. InquirerPy. PyInquirer. prompt_toolkit.prompt rich.prompt. pick.pick simple_term_menu.
"""
_ASKING_MODULES = tuple(_ASKING_MODULES_TEXT.split())
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

_PARSERS_TEXT = """
argparse click typer fire docopt optparse absl.flags tyro cyclopts simple_parsing plac jsonargparse defopt
"""
_PARSERS = frozenset(_PARSERS_TEXT.split())
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
    """Tell whether a document tells the model to run a script: each in `scripts/`, others if its line says so."""
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
    """Return a shell script without its functions, whose arguments are their own; one called with `$@` stays."""
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
        "long-body",
        Severity.WARNING,
        "Long body",
        "The body fills the context of every task that loads the skill, and the important parts lose weight in it.",
        "Move details into files that the model reads when it needs them, and say in SKILL.md when that is.",
        _too_long,
    ),
    Rule(
        "option-menu",
        Severity.NOTE,
        "Menu without a default",
        "Given equal options, a model chooses differently each time, or spends its effort on choosing.",
        "Name one default, and say briefly when another option is better.",
        _menus,
    ),
    Rule(
        "missing-file",
        Severity.WARNING,
        "Missing file",
        "The model tries to read or run the file, fails, and goes on without it or writes one of its own.",
        "Correct the path (it is relative to the skill's folder), add the file, or remove the mention.",
        _missing,
    ),
    Rule(
        "path-case",
        Severity.WARNING,
        "Path in another case",
        "A host that reads the folder itself finds the file only where the file system ignores case.",
        "Write the path as the file is spelled, or rename the file.",
        _respelled,
    ),
    Rule(
        "unnamed-file",
        Severity.NOTE,
        "File that nothing names",
        "A model opens only files that it knows of; other files are dead weight, and a place to hide things.",
        "Name the file in SKILL.md and say when to read or run it, or remove it.",
        _unnamed,
    ),
    Rule(
        "deep-reference",
        Severity.WARNING,
        "Reference of a reference",
        "Models often read nested references in part or not at all.",
        "Name the file in SKILL.md itself: keep references one level deep.",
        _deep,
    ),
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
