"""Packages that a skill installs: without a version, under a name that imitates another, from elsewhere."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import hit_at

if TYPE_CHECKING:
    from skills_core.audit.code_parsers import ShellCommand, Word
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


class Ecosystem(StrEnum):
    """Where a package comes from."""

    PYTHON = "PyPI"
    NODE = "npm"
    GO = "Go"


@dataclass(frozen=True, slots=True)
class Package:
    """One package: its name, whether its version is fixed, and its place.

    `command` is what installs it, empty in a manifest. `is_address` tells that the name is an address, `is_recorded`
    that the command writes the version that it takes into the lock file of a project.
    """

    ecosystem: Ecosystem
    name: str
    pinned: bool
    file: AuditedFile
    start: int
    command: str = ""
    is_address: bool = False
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class _Installer:
    """A program that installs packages: its first words, and its options that take a value or name a package."""

    words: tuple[str, ...]
    ecosystem: Ecosystem
    runs: bool
    valued: frozenset[str]
    sources: frozenset[str] = frozenset()
    records: bool = False


_PIP_VALUED_TEXT = """
-r --requirement -c --constraint -e --editable -i --index-url --extra-index-url --index --default-index -f
--find-links -t --target --python -p --prefix --root --platform --trusted-host --proxy --group --extra
--optional --cache-dir --config-settings --python-version
"""
_PIP_VALUED = frozenset(_PIP_VALUED_TEXT.split())
_NODE_VALUED_TEXT = """
--registry --prefix -w --workspace -c --call --cwd --cache --tag --filter --userconfig --dir -C
"""
_NODE_VALUED = frozenset(_NODE_VALUED_TEXT.split())
_RUNNER_SOURCES = {Ecosystem.PYTHON: frozenset({"--from", "--spec"}), Ecosystem.NODE: frozenset({"-p", "--package"})}


def _pip(words: str, *, records: bool = False) -> _Installer:
    return _Installer(tuple(words.split()), Ecosystem.PYTHON, runs=False, valued=_PIP_VALUED, records=records)


def _npm(words: str, *, records: bool = True) -> _Installer:
    return _Installer(tuple(words.split()), Ecosystem.NODE, runs=False, valued=_NODE_VALUED, records=records)


def _runner(words: str, ecosystem: Ecosystem, valued: frozenset[str]) -> _Installer:
    sources = _RUNNER_SOURCES[ecosystem]
    return _Installer(tuple(words.split()), ecosystem, runs=True, valued=valued | sources, sources=sources)


_PIPS = ("pip", "pip3", "python -m pip", "python3 -m pip", "uv pip", "uv tool", "pipx", "uv pip3")
_NODE_VERBS = {"npm": "install i add", "yarn": "add", "pnpm": "add install i", "bun": "add install i"}
_NODE_RUNNERS = ("npx", "bunx", "pnpm dlx", "yarn dlx", "pnpx", "npm exec", "bun x")
_INSTALL_COMMANDS = (
    *(_pip(f"{words} install") for words in _PIPS),
    *(_pip(words, records=True) for words in ("uv add", "poetry add", "pdm add")),
    *(_runner(words, Ecosystem.PYTHON, _PIP_VALUED | {"--with"}) for words in ("uvx", "uv tool run", "pipx run")),
    *(_npm(f"{tool} {verb}") for tool, verbs in _NODE_VERBS.items() for verb in verbs.split()),
    _npm("yarn global add", records=False),
    *(_runner(words, Ecosystem.NODE, _NODE_VALUED) for words in _NODE_RUNNERS),
    *(
        _Installer(("go", verb), Ecosystem.GO, runs=True, valued=frozenset({"-C", "-mod", "-tags"}))
        for verb in ("run", "install")
    ),
    _Installer(("deno", "run"), Ecosystem.NODE, runs=True, valued=frozenset({"--config", "-c"})),
)
_BY_FIRST: dict[str, list[_Installer]] = {}
for _each in sorted(_INSTALL_COMMANDS, key=lambda installer: -len(installer.words)):
    _BY_FIRST.setdefault(_each.words[0], []).append(_each)

_GLOBAL = frozenset({"-g", "--global"})

_LOCAL = re.compile(r"^(?:\.|/|~|\$|-|<|\{|\*|[A-Za-z]:\\)|\.(?:whl|tgz|txt|toml|zip|js|mjs|ts|py|go)$")
_ADDRESS = re.compile(r"^(?:git\+)?(?:https?|ssh|git|ftp)://|^git@|^(?:github|gitlab):")
_PYTHON_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?P<version>[=<>~!@].*)?$")
_NODE_NAME = re.compile(r"^(?:npm:)?((?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*)(?:@(?P<version>.+))?$")
_GO_NAME = re.compile(r"^([\w-]+(?:\.[\w-]+)+/[^@\s]+)(?:@(?P<version>.+))?$")
_NAMES = {Ecosystem.PYTHON: _PYTHON_NAME, Ecosystem.NODE: _NODE_NAME, Ecosystem.GO: _GO_NAME}
_FLOATING = frozenset({"latest", "next", "beta", "alpha", "canary", "*", "x", "main", "master"})
_OFFLINE = frozenset({"--no-install", "--no", "--offline"})
# Options with which a program only runs what is installed.

_INLINE_METADATA = re.compile(r"^# /// script[ \t]*\n((?:#[^\n]*\n)+?)# ///", re.MULTILINE)
_REQUIREMENT = re.compile(r"^[ \t]*([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]\n]*\])?[^\n#;]*)", re.MULTILINE)
_NODE_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


def _packages_of_command(file: AuditedFile, command: ShellCommand) -> Iterator[Package]:
    texts = tuple(word.text for word in command.words)
    names = (command.name, *texts[1:])
    for installer in _BY_FIRST.get(command.name, ()):
        if names[: len(installer.words)] == installer.words:
            recorded = installer.records and not _GLOBAL & set(texts)
            if not _OFFLINE & set(texts):
                for package in _installed(file, installer, command.words[len(installer.words) :]):
                    yield replace(package, is_recorded=recorded)
            return


def _installed(file: AuditedFile, installer: _Installer, words: tuple[Word, ...]) -> Iterator[Package]:
    named: list[Word] = []
    free: list[Word] = []
    option = ""
    for word in words:
        text = word.text
        if text == "--":
            continue
        if option in installer.valued:
            if option in installer.sources:
                named.append(word)
            option = ""
        elif text.startswith("-"):
            option, equals, value = text.partition("=")
            if equals and option in installer.sources:
                named.append(type(word)(value, value, word.start))
            option = "" if equals else option
        else:
            free.append(word)
            option = ""
            if installer.runs:
                break
    yield from _named_packages(file, installer, named or free)


def _named_packages(file: AuditedFile, installer: _Installer, words: Iterable[Word]) -> Iterator[Package]:
    command = " ".join(installer.words)
    for word in words:
        if _ADDRESS.match(word.text):
            yield Package(
                installer.ecosystem,
                word.text,
                pinned=False,
                file=file,
                start=word.start,
                command=command,
                is_address=True,
            )
        elif not _LOCAL.search(word.text) and (match := _NAMES[installer.ecosystem].match(word.text)):
            yield Package(installer.ecosystem, match[1], _is_pinned(match["version"]), file, word.start, command)


def _is_pinned(version: str | None) -> bool:
    return version is not None and version.strip() not in _FLOATING


def _packages_of_manifests(skill: SkillUnderAudit) -> Iterator[Package]:
    """Yield the packages of requirement files, package.json, pyproject.toml and the inline metadata of scripts."""
    for file in skill.texts:
        text = file.text or ""
        if file.suffix == ".txt" and "requirements" in file.name:
            for match in _REQUIREMENT.finditer(text):
                yield from _python(file, match[1], match.start(1))
        elif file.name == "package.json":
            yield from _of_package(file, text)
        elif file.name == "pyproject.toml":
            yield from _of_table(file, _toml(text).get("project"), text)
        elif file.is_script and (block := _INLINE_METADATA.search(text)):
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in block[1].split("\n"))
            yield from _of_table(file, _toml(source), text)


def _toml(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _of_table(file: AuditedFile, table: object, text: str) -> Iterator[Package]:
    dependencies = table.get("dependencies") if isinstance(table, dict) else None
    for each in dependencies if isinstance(dependencies, list) else ():
        if isinstance(each, str):
            yield from _python(file, each, max(text.find(each), 0))


def _python(file: AuditedFile, requirement: str, start: int) -> Iterator[Package]:
    match = _PYTHON_NAME.match(requirement.strip())
    if match:
        yield Package(Ecosystem.PYTHON, match[1], _is_pinned(match["version"]), file, start)


def _of_package(file: AuditedFile, text: str) -> Iterator[Package]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return
    for table in _NODE_TABLES if isinstance(manifest, dict) else ():
        entries = manifest.get(table)
        for name, version in entries.items() if isinstance(entries, dict) else ():
            start = max(text.find(f'"{name}"'), 0)
            is_address = isinstance(version, str) and bool(_ADDRESS.match(version))
            yield Package(Ecosystem.NODE, name, _is_pinned(str(version)), file, start, is_address=is_address)


_PYTHON_TEXT = """
requests numpy pandas scipy matplotlib pillow urllib3 certifi setuptools boto3 botocore pyyaml cryptography
jinja2 click flask django fastapi pydantic sqlalchemy beautifulsoup4 lxml openpyxl selenium playwright pytest
tensorflow torch torchvision transformers scikit-learn openai anthropic langchain aiohttp httpx colorama tqdm
rich typer psutil paramiko pycryptodome opencv-python pdfplumber pypdf pypdf2 reportlab python-docx
python-pptx python-dateutil python-dotenv pyinstaller websocket-client websockets redis celery pymongo
psycopg2 psycopg2-binary protobuf grpcio google-cloud-storage azure-core jsonschema markdown tabulate networkx
sympy nltk spacy gensim huggingface-hub tokenizers streamlit gradio markitdown feedparser tweepy discord.py
virtualenv poetry black pylint mypy jupyter notebook ipython moviepy imageio pytesseract pdf2image playwright
docx2txt xlsxwriter tiktoken sentence-transformers duckdb polars pyarrow
"""
_PYTHON = frozenset(_PYTHON_TEXT.split())
_NODE_TEXT = """
react react-dom lodash express axios chalk commander typescript webpack eslint prettier next vue angular
jquery moment dayjs uuid debug dotenv request async bluebird inquirer yargs glob rimraf mkdirp semver
cross-env body-parser mongoose mongodb socket.io puppeteer playwright cheerio node-fetch electron babel-core
jest mocha chai sinon nodemon pm2 tailwindcss postcss autoprefixer vite rollup esbuild parcel redux rxjs zod
underscore classnames styled-components discord.js ethers web3 bcrypt jsonwebtoken passport cors helmet morgan
winston sharp multer pdf-lib docx pptxgenjs exceljs marked highlight.js three d3 chart.js svelte prisma
typeorm sequelize graphql ts-node turbo nx lerna husky create-react-app create-vite create-next-app
http-server serve concurrently shelljs execa ora minimist colors
"""
_NODE = frozenset(_NODE_TEXT.split())
_POPULAR = {Ecosystem.PYTHON: _PYTHON, Ecosystem.NODE: _NODE, Ecosystem.GO: frozenset[str]()}

_GENUINE_TEXT = """
preact flash vuex nuxt nest koa jsdom pytz six attrs nose httpcore httplib2 lodash-es typed-ast pypdf3 pypdfium2
pymupdf docxtpl texts vitest got ky pino jimp dask blue flasgger tensorboard torchaudio colorlog coloredlogs
color colour click-log express-session markdown2 markdown-it marker pyaml ruamel.yaml psycopg pymysql pygments
httpie aiofiles uuidv4 nuid hiredis ioredis mypyc puppeteer-core playwright-core socket.io-client serve-static
server opn nodemailer prism newt rich-cli celery-types pandoc d3-array nextra pipx flake
"""
_GENUINE = frozenset(_GENUINE_TEXT.split())
# Other packages with names that are near a popular one.

_MIN_LENGTH = 4
_LONG = 7
_MEDIUM = 5
_SEPARATORS = re.compile(r"[-_.]+")


@lru_cache(maxsize=4096)
def imitated(ecosystem: Ecosystem, name: str) -> str | None:
    """Return the popular package whose name `name` imitates by a typo, None if there is none."""
    lowered = name.lower()
    popular = _POPULAR[ecosystem]
    plain = _SEPARATORS.sub("-", lowered)
    if plain in popular or lowered in popular or lowered in _GENUINE or name.startswith("@"):
        return None
    for each in sorted(popular):
        if (
            len(each) >= _MIN_LENGTH
            and abs(len(each) - len(plain)) <= 1
            and _is_typo(plain, _SEPARATORS.sub("-", each))
        ):
            return each
    return None


def _is_typo(name: str, other: str) -> bool:
    """Tell whether one edit makes one name of the other: a letter more, less or other, or two neighbours exchanged.

    In a short name, another letter often makes another word, so only a doubled letter and an exchange count there.
    """
    start = 0
    while start < min(len(name), len(other)) and name[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(name), len(other)) - start and name[-1 - end] == other[-1 - end]:
        end += 1
    left, right = name[start : len(name) - end], other[start : len(other) - end]
    if left == right[::-1] and len(left) == len("ab"):
        return True
    if len(left) + len(right) == 1:
        letter = left or right
        doubled = start > 0 and (name if left else other)[start - 1] == letter
        return doubled or letter == "-" or min(len(name), len(other)) >= _LONG
    return (
        len(left) == len(right) == 1
        and start > 0
        and (len(name) >= _MEDIUM or not left.isalpha())
        and not (left + right).isdigit()
    )


_INDEX_OPTIONS = frozenset(
    {"-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links", "--registry"}
)
_INSTALLERS_TEXT = "pip pip3 uv uvx pipx poetry pdm npm npx pnpm yarn bun bunx python python3"
_INSTALLERS = frozenset(_INSTALLERS_TEXT.split())
_KNOWN_HOSTS_TEXT = """
pypi.org pythonhosted.org pytorch.org npmjs.org npmjs.com yarnpkg.com jsr.io pypi.nvidia.com data.pyg.org
"""
_KNOWN_HOSTS = frozenset(tuple(host.split(".")) for host in _KNOWN_HOSTS_TEXT.split())
# By their labels; hosts below them count too.

_INDEX_LINES = re.compile(
    r"^[ \t]*(?:--?(?:index-url|extra-index-url|find-links|i)[ =]+|(?:@[\w-]+:)?registry[ \t]*=[ \t]*"
    r"|(?:extra-)?index-url[ \t]*=[ \t]*)[\"']?((?:https?|ftp)://[^\s\"']+)",
    re.MULTILINE,
)
_INDEX_FILES = re.compile(
    r"(?:^|/)(?:[^/]*requirements[^/]*\.(?:txt|in)|\.npmrc|\.yarnrc(?:\.yml)?|pip\.(?:conf|ini)|\.pypirc)$"
)
_CODE_HOSTS = re.compile(
    r"^(?:git\+)?(?:https|ssh|git)://(?:git@)?(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/|^(?:github|gitlab):"
)
_SHOWN = 4
# Names of packages in one message.

_COMMIT = re.compile(r"[@#][0-9a-f]{7,40}(?:#|$)|[@#]v?\d+\.\d")


def _commands(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, ShellCommand]]:
    return ((file, command) for file, unit in skill.code for command in unit.commands)


def _packages(skill: SkillUnderAudit) -> tuple[Package, ...]:
    installed = (package for file, command in _commands(skill) for package in _packages_of_command(file, command))
    return (*installed, *_packages_of_manifests(skill))


def _unpinned(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, command in _commands(skill):
        found = [
            each
            for each in _packages_of_command(file, command)
            if not (each.pinned or each.is_address or each.is_recorded)
        ]
        if found:
            names = " ".join(package.name for package in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
            yield Hit(file, f"`{found[0].command} {names}` takes whatever version is the newest", found[0].start)


def _typosquats(skill: SkillUnderAudit) -> Iterator[Hit]:
    for package in skill.once(_packages):
        rival = None if package.is_address else imitated(package.ecosystem, package.name)
        if rival is not None:
            message = f"the package {package.name!r} has almost the name of {rival!r}"
            yield hit_at(skill, package.file, package.start, message, Severity.ERROR)


def _foreign(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file, start, address in (*_option_addresses(skill), *_manifest_addresses(skill)):
        yield hit_at(skill, file, start, f"takes packages from {address}", Severity.ERROR)
    for package in skill.once(_packages):
        if package.is_address and not (_CODE_HOSTS.match(package.name) and _COMMIT.search(package.name)):
            severity = Severity.WARNING if _CODE_HOSTS.match(package.name) or not package.command else Severity.ERROR
            message = f"takes a package from {package.name}"
            yield hit_at(skill, package.file, package.start, message, severity)


def _is_known(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    labels = tuple(parts.netloc.lower().split("."))
    return parts.scheme == "https" and bool({labels[-2:], labels[-3:]} & _KNOWN_HOSTS)


def _option_addresses(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, int, str]]:
    for file, command in _commands(skill):
        if command.name not in _INSTALLERS:
            continue
        option = ""
        for word in command.arguments:
            name, _, value = word.text.partition("=")
            address = word.text if option in _INDEX_OPTIONS else value if name in _INDEX_OPTIONS else ""
            if "://" in address and not _is_known(address):
                yield file, word.start, address
            option = word.text


def _manifest_addresses(skill: SkillUnderAudit) -> Iterator[tuple[AuditedFile, int, str]]:
    for file in skill.texts:
        if _INDEX_FILES.search(file.path):
            for match in _INDEX_LINES.finditer(file.text or ""):
                if not _is_known(match[1]):
                    yield file, match.start(1), match[1]


RULES = (
    Rule(
        "unpinned-command",
        Severity.NOTE,
        "Package without a version",
        "The command does something else when the package changes, or when its account is stolen.",
        "Name the version: `uvx ruff@0.8.0`, `npx eslint@9`, `pip install pypdf==5.1.0`.",
        _unpinned,
        3.0,
    ),
    Rule(
        "typosquat",
        Severity.ERROR,
        "Package with almost the name of a popular one",
        "Attackers publish packages under misspelt names and wait for somebody to install them.",
        "Correct the name, or suppress the finding with the reason why this package is meant.",
        _typosquats,
        8.0,
    ),
    Rule(
        "foreign-index",
        Severity.ERROR,
        "Packages from an unknown source",
        "The owner of the address decides what is installed, even under the names of other packages.",
        "Use the public registry; for a source of your own, suppress the finding and say whose it is.",
        _foreign,
        7.5,
    ),
)
