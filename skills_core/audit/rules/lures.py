"""Programs that a reader is told to fetch and to start: archives with a password, pages that anyone can write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import demoted_in_documentation, describes_attack, first_in_lines, shown
from skills_core.audit.search import SearchedText, find, is_found, plain_prose

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit
    from skills_core.format.yaml12 import JsonValue

_ADDRESS = r"\bhttps?://[^\s)\]<>\"'`\x{ff0c}\x{3002}]{4,400}"
_PASTE_PAGE = (
    r"\b(?:https?://)?(?:[\w-]+\.)?(?:glot\.io|rentry\.(?:co|org)|pastebin\.(?:com|pl|fi)|paste\.(?:ee|rs|sh)|paste2\.org"
    r"|pastes?(?:code)?\.(?:io|dev)|hastebin\.com|ghostbin\.(?:com|co)|dpaste\.(?:com|org)|controlc\.com|justpaste\.it"
    r"|telegra\.ph|bpa\.st|ix\.io|sprunge\.us|termbin\.com|privatebin\.net|zerobin\.net|snippet\.host|0bin\.net|cl1p\.net"
    r"|textbin\.net|write\.as|codeshare\.io|jpst\.it|p\.ip\.fi|rlim\.com|note\.ms|gist\.github(?:usercontent)?\.com"
    r")/[\w./?=&%-]+"
)
_GIST = r"^(?:https?://)?gist\."
_TERMINAL = (
    r"(?:\b(?:terminal|shell|powershell|command (?:prompt|line)|cmd(?:\.exe)?|run (?:dialog|box))\b"
    r"|[终終]端|命令(?:行|提示))"
)
_CODE = r"(?:scripts?|commands?|code|one-?liners?|snippets?|installer)\b"
_START = r"\b(?:run|execute|launch|open|start|install|double-?click)"
_STARTS_PROGRAM = (
    rf"{_START}\s+(?:\S+\s+){{0,3}}(?:executable|exe|app(?:lication)?|utility|tool|agent|program|binary|installer|setup"
    rf"|client|file)\b|{_START}\s+(?:it|them)\b|{_START}\s+\S+\.(?:exe|msi|dmg|pkg|app|scr|bat|cmd|ps1|jar|appimage)\b"
    r"|[运運執执]行|[启啟][动動]|[双雙][击擊]|安[装裝]"
)
_PASSWORD = r"(?:password|passphrase|passcode|pass|pwd)\b"  # noqa: S105 - a pattern
_ARCHIVE_PASSWORD = (
    r"\b(?:extract|unzip|unpack|unarchive|decompress)\w*\s+(?:\S+\s+){0,4}(?:using|with)\s+(?:(?:the|this|archive)\s+)*"
    rf"{_PASSWORD}|\b(?:extract|unzip|unpack)\w*\s+(?:\S+\s+){{0,3}}(?:using|with)\s*:"
    rf"|\b(?:archive|zip|rar|7z|extraction|unzip)(?:\s+file)?(?:'s)?\s+{_PASSWORD}"
    rf"|\b{_PASSWORD}\s+(?:for|of|to)\s+(?:extract|unzip|unpack|open|(?:the\s+)?(?:archive|zip|rar)\b)"
    rf"|\bpassword[- ]protected\s+(?:archive|zip|rar|7z)|\bprotected\s+(?:with|by)\s+(?:(?:the|a)\s+)?{_PASSWORD}"
    rf"|\.(?:zip|rar|7z)\b[^\n]{{0,20}}\b{_PASSWORD}|\bunzip\s+(?:-\w+\s+)*-P\s*\S|\b7z\w*\s+[xe]\s[^\n]{{0,80}}-p\S"
    r"|解[压壓缩縮]{1,2}密[码碼]"
)
_ANY_PASSWORD = rf"\b{_PASSWORD}\s*(?:is\b|[:=])\s*\S"
_ARCHIVE_ADDRESS = r"\bhttps?://\S{1,300}(?:\.(?:zip|rar|7z|exe|msi|dmg)\b|/releases/download/)"
_RUNS_PASTE = (
    rf"\b(?:paste|run|execute|enter|type)\b[^.\n]{{0,80}}{_TERMINAL}"
    rf"|\bcopy\b[^.\n]{{0,60}}\b{_CODE}[^.]{{0,80}}(?:\b(?:run|execute|paste)\b|{_TERMINAL})"
    rf"|\b(?:run|execute)\s+(?:(?:the|this|that|its)\s+)?(?:\w+\s+){{0,2}}{_CODE}"
    rf"|[复複][制製][^\n]{{0,60}}(?:{_TERMINAL}|[运運執执]行)"
    r"|\A[^\n]{0,80}(?:&&|;|\n)\s*(?:sudo\s+)?(?:(?:ba|z)?sh|python3?|node|source|chmod)\s"
)
_TAKES_FROM = rf"\b(?:copy|run|execute|paste|take)\b[^.\n]{{0,60}}\b{_CODE}\s+(?:from|at|on|in)\b[^.\n]{{0,40}}\z"
_COPIES_TO_TERMINAL = (
    rf"\b(?:visit|go to|open|navigate to|head to|browse to|from|see)\s[^\n]{{0,80}}{_ADDRESS}[^\n]{{0,60}}\bcopy\b"
    rf"[^.\n]{{0,40}}\b{_CODE}[^.\n]{{0,40}}\b(?:paste|run|execute|enter)\b[^.\n]{{0,40}}{_TERMINAL}"
    rf"|\bcopy\b[^.\n]{{0,40}}\b{_CODE}\s+(?:from|at|on)\s[^\n]{{0,80}}{_ADDRESS}[^\n]{{0,60}}"
    rf"\b(?:paste|run|execute|enter|into)\b[^.\n]{{0,40}}{_TERMINAL}"
)
_KNOWN_MAKER = (
    r"https://(?:[\w-]+\.)*(?:brew\.sh|rustup\.rs|nodejs\.org|python\.org|docker\.com|kubernetes\.io|git-scm\.com|astral\.sh"
    r"|microsoft\.com|apple\.com|google\.com|amazon\.com|openai\.com|anthropic\.com|claude\.(?:ai|com)|redhat\.com"
    r"|openshift\.com|supabase\.com|vercel\.com|cloudflare\.com|tailscale\.com)(?:[/\s),.;]|$)"
)
_SETS_UP = r"\b(?:scripts?|code|one-?liners?|snippets?|installer|install\w*|set-?up|activat\w+|verif\w+|fix|update)\b"
_FORBIDS = (
    r"\b(?:never|(?:do|must|should|may|will) not|don't|cannot|avoid|refuse to)\s+(?:ever\s+|simply\s+)?"
    r"(?:visit|cop|download|run|open|past|execut|go\b|get|fetch|install|extract|follow)"
)
_TELLS_OF = (
    r"\b(?:asks|tells|asking|telling|asked|told|tricked|tricks|tricking|instruct(?:s|ed|ing)|lur(?:es|ed|ing)|urg(?:es|ed|ing)"
    r"|(?:that|which|who|may|might|could|attackers|they|skills|campaigns|packages|sites)\s+(?:ask|tell|trick|instruct|lure|urge))\s+(?:\w+\s+){0,2}(?:to|into)\b"
)
# Speech about others: what an attack or a hostile skill says.

_WINDOW = 400
_AFTER_PAGE = 300
# Characters around the password of an archive, and behind the address of a page, that belong to the same instruction.


class _Lure(NamedTuple):
    """What a text tells its reader to fetch and to start, at a position in that text."""

    start: int
    message: str
    severity: Severity = Severity.ERROR


def _downloads_to_run(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find programs that a reader is told to fetch and to start, in each text and each value of the frontmatter."""
    for file in skill.texts:
        lures = [*_lures_in(file.prose)]
        yield from first_in_lines(_hit(skill, file, lure) for lure in lures)
        if skill.is_main(file) and not any(lure.start < skill.body_start for lure in lures):
            yield from _lures_of_fields(skill, file)


def _hit(skill: SkillUnderAudit, file: AuditedFile, lure: _Lure) -> Hit:
    severity = demoted_in_documentation(skill, file, lure.start, lure.severity)
    if severity is lure.severity and not skill.is_main(file) and describes_attack(file, lure.start):
        severity = severity.demoted
    return Hit(file, lure.message, lure.start, severity)


def _lures_of_fields(skill: SkillUnderAudit, main: AuditedFile) -> Iterator[Hit]:
    """Search what YAML makes of the fields: escapes and folded lines hide a text from a search in the file."""
    for name, value in skill.frontmatter.raw.items() if skill.instructions.fault is None else ():
        for lure in _lures_in(SearchedText(plain_prose("\n".join(_texts_of(value))))):
            line = next((number for number, line in enumerate(main.lines, 1) if line.strip("\"'").startswith(name)), 1)
            yield Hit(main, lure.message, main.start_of(line), lure.severity)


def _texts_of(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts_of(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _texts_of(each)


def _lures_in(text: SearchedText) -> Iterator[_Lure]:
    for lure in (*_archives_in(text), *_pages_in(text)):
        before = text[max(0, lure.start - _WINDOW // 2) : lure.start + len("download")]
        sentence = before[max(before.rfind(end) + 1 for end in ("\n\n", ". ", "! ", "? ")) :]
        if is_found(_FORBIDS, sentence):
            yield lure._replace(severity=Severity.NOTE)
        elif is_found(_TELLS_OF, sentence):
            yield lure._replace(severity=lure.severity.demoted)
        else:
            yield lure


def _archives_in(text: SearchedText) -> Iterator[_Lure]:
    certain, possible = find(_ARCHIVE_PASSWORD, text), find(_ANY_PASSWORD, text)
    for found, address, after in (
        *((each, _ADDRESS, _WINDOW // 2) for each in certain),
        *((each, _ARCHIVE_ADDRESS, 0) for each in possible),
    ):
        around = text[max(0, found.start - _WINDOW) : found.end + after]
        if is_found(address, around) and is_found(_STARTS_PROGRAM, text[found.start : found.end + _WINDOW]):
            yield _Lure(found.start, f"tells to run a program from an archive with a password: {shown(found.text)}")


def _pages_in(text: SearchedText) -> Iterator[_Lure]:
    for page in find(_PASTE_PAGE, text):
        before, after = text[max(0, page.start - _WINDOW // 2) : page.start], text[page.end : page.end + _AFTER_PAGE]
        if is_found(_RUNS_PASTE, after) or is_found(_TAKES_FROM, before):
            severity = Severity.WARNING if is_found(_GIST, page.text) else Severity.ERROR
            yield _Lure(
                page.start, f"tells to run code from a page that anyone can write: {shown(page.text)}", severity
            )
    for found in find(_COPIES_TO_TERMINAL, text):
        is_harmless = is_found(_KNOWN_MAKER, found.text) or not is_found(_SETS_UP, found.text)
        severity = Severity.WARNING if is_harmless else Severity.ERROR
        yield _Lure(found.start, f"tells to paste code from a page into a terminal: {shown(found.text)}", severity)


RULES = (
    Rule(
        "download-to-run",
        Severity.ERROR,
        "Program that the reader is told to fetch and to start",
        (
            "No scanner sees into an archive with a password, and a page that anyone can write has other code later; "
            "hostile skills bring their programs onto a machine in this way, as a prerequisite."
        ),
        "Bundle the program's source, or install a pinned version from a package registry.",
        _downloads_to_run,
        9.5,
    ),
)
