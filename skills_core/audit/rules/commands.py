"""Commands that harm: fetched or decoded code that runs, and deletion of what cannot be restored."""

from __future__ import annotations

from skills_core.audit.finding import Severity
from skills_core.audit.patterns import Pattern, commands_of, prose_of, search_for
from skills_core.audit.rule import Rule

__all__ = ["RULES"]

_SHELL = (
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:env\s+)?(?:/usr)?(?:/bin/)?(?:sh|bash|zsh|dash|ksh|fish|python[\d.]*"
    r"|node|perl|ruby|php|deno run)\b"
)
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
        rf"|]{{0,120}}){{0,3}}\|\s*{_SHELL}(?:\s*$|\s+-(?:s|\s|$|e\b)|\s*[;&\"'`)]|\s+/dev/stdin|\s+-\w)",
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
        rf"|-r\b)[^\n|]{{0,80}}(?:\|\s*(?:gunzip|zcat|gzip)\b[^\n|]{{0,40}})?\|\s*{_SHELL}",
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
