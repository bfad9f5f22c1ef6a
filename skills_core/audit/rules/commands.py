"""What harms when it runs: fetched or decoded code, programs that a reader is told to fetch, and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.context import demoted_in_documentation, describes_attack
from skills_core.audit.finding import Severity
from skills_core.audit.patterns import Pattern, commands_of, prose_of, search_for, shown
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import SearchedText, find, is_found, plain_prose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit
    from skills_core.format.yaml12 import JsonValue

__all__ = ["RULES"]

_BEFORE = r"(?:sudo\s+(?:-\w+\s+)*)?(?:env\s+)?(?:/usr)?(?:/local)?(?:/bin/)?"
_SHELL = rf"{_BEFORE}(?:sh|bash|zsh|dash|ksh|fish|python[\d.]*|node|perl|ruby|php|deno run)\b"

_ENDS = r"(?:\s*$|\s*\d?[;&|\"'`)<>])"
_READS_CODE = (
    # A shell runs its standard input, and with -c, what a substitution reads from it.
    rf"(?:{_BEFORE}(?:sh|bash|zsh|dash|ksh|fish)\b(?:{_ENDS}|\s+-(?:s|\s|$|e\b)|\s+/dev/stdin|\s+-\w)"
    # An interpreter does so without a program; with one, as in `python3 -m json.tool`, the input is data,
    rf"|{_BEFORE}(?:python[\d.]*(?:\s+-[bBdEiIOPqsSuvx]+)*|node(?:\s+--[\w-]+(?:=\S+)?)*|(?:perl|ruby)(?:\s+-[wTW]+)*"
    rf"|php|deno run)(?:{_ENDS}|\s+-{_ENDS}|\s+/dev/stdin\b)"
    # unless the program runs it.
    rf"|{_BEFORE}python[\d.]*\s+(?:-\w+\s+)*-m\s*(?:code|asyncio|ipython|ptpython|bpython)\b"
    rf"|{_BEFORE}(?:python[\d.]*|node|perl|ruby|php)\s+(?:-\w+\s+)*-(?:\w*c|\w*e|p|r|-eval|-print)\b"
    r"(?:\s*[\"']?\$\(\s*(?:cat\b|<)|[^\n|]{0,200}\b(?:exec|eval|os\.system|popen|subprocess|runpy|vm\.run\w+"
    r"|new Function|instance_eval|passthru|shell_exec|child_process)\b))"
)
"""What runs the code that it reads from a pipe."""

_FETCH = r"(?:curl|wget|fetch|http|iwr|irm|invoke-webrequest|invoke-restmethod|aria2c)"

_INSTALLERS = (
    r"https://(?:astral\.sh/uv|sh\.rustup\.rs|raw\.githubusercontent\.com/(?:Homebrew/install"
    r"|nvm-sh/nvm)/|deno\.land/(?:x/)?install"
    r"|bun\.(?:sh|com)/install|get\.docker\.com|install\.python-poetry\.org|get\.pnpm\.io"
    r"|claude\.ai/install|opencode\.ai/install"
    r"|ollama\.com/install|foundry\.paradigm\.xyz|deb\.nodesource\.com|fnm\.vercel\.app/install"
    r"|cli\.github\.com|get\.helm\.sh)"
)

_FETCH_AND_RUN = (
    Pattern(
        rf"\b{_FETCH}\b[^\n|;&]*{_INSTALLERS}[^\n|]*\|\s*{_SHELL}|\b{_SHELL}\s+-c\s+[\"']?(?:\$\("
        rf"|`)\s*{_FETCH}\b[^\n|;&]*{_INSTALLERS}",
        "runs the installer of a well-known tool, unpinned and unverified",
        Severity.WARNING,
    ),
    Pattern(
        rf"\b{_FETCH}\b[^\n|;]*{_INSTALLERS}[^\n|]*\|\s*(?:iex|invoke-expression)\b",
        "runs the installer of a well-known tool, unpinned and unverified",
        Severity.WARNING,
    ),
    Pattern(
        rf"\b{_FETCH}\b[^\n|]{{0,400}}(?:\|\s*(?:tee|gunzip|tar|base64|xargs|cat)\b[^\n"
        rf"|]{{0,120}}){{0,3}}\|\s*{_READS_CODE}",
        "downloads a program and runs it at once",
    ),
    Pattern(
        rf"\b(?:{_SHELL}|source|\.)\s+(?:-c\s+)?(?:<\(\s*|[\"']?\$\(\s*|[\"']?`\s*){_FETCH}\b",
        "downloads a program and runs it at once",
    ),
    Pattern(rf"\beval\s+[\"']?(?:\$\(|`)\s*{_FETCH}\b", "downloads a program and runs it at once"),
    Pattern(
        r"\b(?:iex|invoke-expression)\b[^\n]{0,80}\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b"
        r"|\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b[^\n]{0,200}\|\s*(?:iex"
        r"|invoke-expression)\b",
        "downloads a program and runs it at once",
    ),
    Pattern(
        rf"\b{_FETCH}\b[^\n]{{0,300}}(?:&&|;)\s*(?:sudo\s+)?(?:chmod\s+(?:\+x|[0-7]*7[0-7]*|a\+x"
        rf"|u\+x)\s+\S+\s*(?:&&|;)\s*(?:sudo\s+)?(?:\./|/tmp/|/var/tmp/|/dev/shm/)\S+|{_SHELL}\s+(?:\./|/tmp/"
        r"|/var/tmp/|/dev/shm/)\S+)",
        "downloads a program and runs it at once",
    ),
    Pattern(
        r"\b(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?(?:\w+\.)*(?:urlopen|get|request|urlretrieve"
        r"|fetch)\s*\([^\n]{0,200}\)\s*\.?\s*(?:read|text|content|decode)",
        "downloads code and evaluates it",
    ),
    Pattern(
        r"\bimport\s*\(\s*[\"']https?://(?:esm\.sh|deno\.land|cdn\.jsdelivr\.net|unpkg\.com)?[^\"'\n]*[\"']\s*\)",
        "loads code from an address",
        Severity.NOTE,
    ),
)

_DECODE_AND_RUN = (
    Pattern(
        rf"\b(?:base64|base32|openssl\s+(?:base64|enc)|xxd|uudecode)\s+[^\n|]{{0,60}}(?:-d\b|--decode\b|-D\b"
        rf"|-r\b)[^\n|]{{0,80}}(?:\|\s*(?:gunzip|zcat|gzip)\b[^\n|]{{0,40}})?\|\s*{_READS_CODE}",
        "decodes a program and runs it",
    ),
    Pattern(
        rf"\b(?:eval|{_SHELL}\s+-c|source)\s+(?:<\()?[\"']?(?:\$\(|`)?[^\n]{{0,200}}\b(?:base64|base32|xxd"
        rf"|openssl)\s+[^\n]{{0,60}}(?:-d\b|--decode\b|-D\b|-r\b)",
        "decodes a program and runs it",
    ),
    Pattern(
        r"(?:^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?`?|`)\$\([^\n`]{0,200}\b(?:base64|base32|xxd"
        r"|openssl)\s+[^\n]{0,60}(?:-d\b|--decode\b|-D\b|-r\b)",
        "decodes a command and runs it",
    ),
    Pattern(
        r"\b(?:exec|eval|execfile)\s*\(\s*(?:compile\s*\(\s*)?(?:\w+\s*\(\s*['\"]\w+['\"]\s*\)\s*\.)?(?:\w+\.)"
        r"{0,3}(?:b64decode|b32decode|b16decode|a85decode|b85decode|decodebytes|unhexlify|fromhex|decompress"
        r"|decode|loads)\s*\(",
        "decodes a program and runs it",
    ),
    Pattern(
        r"\b(?:eval|Function|setTimeout|vm\.runIn\w+)\s*\(\s*(?:new\s+\w+\s*\()?\s*(?:atob|Buffer\.from"
        r"|unescape|decodeURIComponent|String\.fromCharCode)\s*\(",
        "decodes a program and runs it",
    ),
    Pattern(
        r"\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{20,}",
        "runs an encoded command",
    ),
    Pattern(
        r"\bfrombase64string\b[^\n]{0,200}(?:\|\s*(?:iex|invoke-expression)|&\s*\$)|\b(?:iex"
        r"|invoke-expression)\b[^\n]{0,200}frombase64string",
        "decodes a program and runs it",
    ),
)

_DECODE_PROSE = (
    Pattern(
        r"\b(?:decode|decrypt|deobfuscate|unpack)\b[^.\n]{0,80}\b(?:base64|hex|rot13|string|text|block"
        r"|payload|blob)\b[^.\n]{0,80}\b(?:and|then)\s+(?:\w+\s+){0,2}(?:run|execute|eval\w*|follow|obey"
        r"|apply|perform)\b",
        "tells the model to decode instructions and to follow them",
    ),
)

_HOME_OR_ROOT = (
    r"(?:[\"']?(?:/|~/?|\$\{?HOME\}?/?|/\*|~/\*|\$\{?HOME\}?/\*|/(?:etc|usr|var|bin|boot|home|root|opt"
    r"|lib)/?\*?)[\"']?)"
)
_DESTRUCTIVE = (
    Pattern(
        rf"\brm\s\s*(?:-{{1,2}}[\w-]+\s+)*-(?:[a-z]*r[a-z]*"
        rf"|-recursive)\s+(?:-{{1,2}}[\w-]+\s+)*{_HOME_OR_ROOT}(?:\s|$|[;&|`)])",
        "deletes the home folder or the whole system",
    ),
    Pattern(r"--no-preserve-root\b", "deletes the whole system"),
    Pattern(
        r"\bmkfs(?:\.\w+)?\s+(?:-\S+\s+)*/dev/\w+|\bdd\s+[^\n]{0,100}\bof=/dev/(?:sd|nvme|hd|disk|vd|mmcblk)",
        "overwrites a disk",
    ),
    Pattern(r">\s*/dev/(?:sd[a-z]|nvme\d|hd[a-z]|disk\d)", "overwrites a disk"),
    Pattern(r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:", "starts processes without end"),
    Pattern(
        r"\b(?:remove-item|ri|rd|del|rmdir)\b[^\n]{0,60}(?:-recurse|/s)\b[^\n]{0,60}(?:[a-z]:\\(?:\s|$|\*|\""
        r"|users|windows)|\$home\b|\$env:userprofile|~)",
        "deletes the home folder or the whole system",
    ),
    Pattern(r"\bformat\s\s*[a-z]:\s*/", "formats a disk"),
    Pattern(r"\bchmod\s+-R\s+(?:0?777|a\+rwx)\s+/(?:\s|$)", "opens the whole system to every user"),
    Pattern(
        r"\bfind\s+(?:/|~/?|\$HOME)\s[^\n]{0,100}(?:-delete\b|-exec\s+rm\b)",
        "deletes files all over the system",
        Severity.WARNING,
    ),
    Pattern(
        r"\brm\s\s*(?:-{1,2}[\w-]+\s+)*-(?:[a-z]*r[a-z]*f|[a-z]*f[a-z]*r)[a-z]*\s+(?:\*|\.\s*$|\.\*|\./\*"
        r"|[\"']?\$\{?\w+\}?[\"']?/\*?(?:\s|$|[;&|]))",
        "deletes what a variable or the working folder happens to be",
        Severity.WARNING,
    ),
    Pattern(
        r"\bgit\s+push\s+[^\n]{0,80}(?:--force\b(?:[^-]|$)|\s-f\b)|\bgit\s+(?:reset\s+--hard"
        r"|clean\s+-[a-z]*f[a-z]*[dx])|\bgit\s+checkout\s+--\s+\.(?:\s|$)",
        "discards work in a repository",
        Severity.NOTE,
    ),
    Pattern(
        r"\bterraform\s+destroy\b[^\n]{0,60}-auto-approve|\bkubectl\s+delete\s+[^\n]{0,60}--all\b"
        r"|\bkubectl\s+delete\s+(?:ns|namespace)\b|\bdocker\s+system\s+prune\s+[^\n]{0,20}-a?f",
        "deletes infrastructure without asking",
        Severity.WARNING,
    ),
    Pattern(
        r"\bDROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?\w+|\bTRUNCATE\s+TABLE\s+\w+",
        "deletes a database",
        Severity.NOTE,
    ),
)

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
        lines: set[int] = set()
        for lure in _lures_in(file.prose):
            line = file.place_of(lure.start)[0]
            if line not in lines:
                lines.add(line)
                severity = demoted_in_documentation(skill, file, lure.start, lure.severity)
                if severity is lure.severity and not skill.is_main(file) and describes_attack(file, lure.start):
                    severity = severity.demoted
                yield Hit(file, lure.message, lure.start, severity)
        if skill.is_main(file) and not any(file.start_of(line) < skill.body_start for line in lines):
            yield from _lures_of_fields(skill, file)


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
        "fetch-and-run",
        Severity.ERROR,
        "Download that runs at once",
        "The owner of the address decides what runs, now and later; a review of the skill cannot see it.",
        "Bundle the script, or install a pinned version from a package registry and verify it.",
        search_for(_FETCH_AND_RUN, commands_of),
        9.5,
    ),
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
    Rule(
        "decode-and-run",
        Severity.ERROR,
        "Encoded code that runs",
        "Encoding hides from a reviewer what runs.",
        "Write the code in plain text.",
        lambda skill: (*search_for(_DECODE_AND_RUN, commands_of)(skill), *search_for(_DECODE_PROSE, prose_of)(skill)),
        9.5,
    ),
    Rule(
        "destructive-command",
        Severity.ERROR,
        "Destructive command",
        "An agent may run the command as it stands, without the check that a person makes.",
        "Name the exact files, ask the user first, or use a command that can be undone.",
        search_for(_DESTRUCTIVE, commands_of),
        7.0,
    ),
)
