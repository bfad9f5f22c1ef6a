"""Commands and requests in text that harm: fetched or decoded code, deletion, data and secrets that are sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import (
    TextPattern,
    commands_of,
    prose_of,
    search_for,
    shown,
)
from skills_core.audit.search import find, is_found

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


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
    TextPattern(
        rf"\b{_FETCH}\b[^\n|;&]*{_INSTALLERS}[^\n|]*\|\s*{_SHELL}|\b{_SHELL}\s+-c\s+[\"']?(?:\$\("
        rf"|`)\s*{_FETCH}\b[^\n|;&]*{_INSTALLERS}",
        "runs the installer of a well-known tool, unpinned and unverified",
        Severity.WARNING,
    ),
    TextPattern(
        rf"\b{_FETCH}\b[^\n|;]*{_INSTALLERS}[^\n|]*\|\s*(?:iex|invoke-expression)\b",
        "runs the installer of a well-known tool, unpinned and unverified",
        Severity.WARNING,
    ),
    TextPattern(
        rf"\b{_FETCH}\b[^\n|]{{0,400}}(?:\|\s*(?:tee|gunzip|tar|base64|xargs|cat)\b[^\n"
        rf"|]{{0,120}}){{0,3}}\|\s*{_READS_CODE}",
        "downloads a program and runs it at once",
    ),
    TextPattern(
        rf"\b(?:{_SHELL}|source|\.)\s+(?:-c\s+)?(?:<\(\s*|[\"']?\$\(\s*|[\"']?`\s*){_FETCH}\b",
        "downloads a program and runs it at once",
    ),
    TextPattern(rf"\beval\s+[\"']?(?:\$\(|`)\s*{_FETCH}\b", "downloads a program and runs it at once"),
    TextPattern(
        r"\b(?:iex|invoke-expression)\b[^\n]{0,80}\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b"
        r"|\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring)\b[^\n]{0,200}\|\s*(?:iex"
        r"|invoke-expression)\b",
        "downloads a program and runs it at once",
    ),
    TextPattern(
        rf"\b{_FETCH}\b[^\n]{{0,300}}(?:&&|;)\s*(?:sudo\s+)?(?:chmod\s+(?:\+x|[0-7]*7[0-7]*|a\+x"
        rf"|u\+x)\s+\S+\s*(?:&&|;)\s*(?:sudo\s+)?(?:\./|/tmp/|/var/tmp/|/dev/shm/)\S+|{_SHELL}\s+(?:\./|/tmp/"
        r"|/var/tmp/|/dev/shm/)\S+)",
        "downloads a program and runs it at once",
    ),
    TextPattern(
        r"\b(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?(?:\w+\.)*(?:urlopen|get|request|urlretrieve"
        r"|fetch)\s*\([^\n]{0,200}\)\s*\.?\s*(?:read|text|content|decode)",
        "downloads code and evaluates it",
    ),
    TextPattern(
        r"\bimport\s*\(\s*[\"']https?://(?:esm\.sh|deno\.land|cdn\.jsdelivr\.net|unpkg\.com)?[^\"'\n]*[\"']\s*\)",
        "loads code from an address",
        Severity.NOTE,
    ),
)

_DECODE_AND_RUN = (
    TextPattern(
        rf"\b(?:base64|base32|openssl\s+(?:base64|enc)|xxd|uudecode)\s+[^\n|]{{0,60}}(?:-d\b|--decode\b|-D\b"
        rf"|-r\b)[^\n|]{{0,80}}(?:\|\s*(?:gunzip|zcat|gzip)\b[^\n|]{{0,40}})?\|\s*{_READS_CODE}",
        "decodes a program and runs it",
    ),
    TextPattern(
        rf"\b(?:eval|{_SHELL}\s+-c|source)\s+(?:<\()?[\"']?(?:\$\(|`)?[^\n]{{0,200}}\b(?:base64|base32|xxd"
        rf"|openssl)\s+[^\n]{{0,60}}(?:-d\b|--decode\b|-D\b|-r\b)",
        "decodes a program and runs it",
    ),
    TextPattern(
        r"(?:^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?`?|`)\$\([^\n`]{0,200}\b(?:base64|base32|xxd"
        r"|openssl)\s+[^\n]{0,60}(?:-d\b|--decode\b|-D\b|-r\b)",
        "decodes a command and runs it",
    ),
    TextPattern(
        r"\b(?:exec|eval|execfile)\s*\(\s*(?:compile\s*\(\s*)?(?:\w+\s*\(\s*['\"]\w+['\"]\s*\)\s*\.)?(?:\w+\.)"
        r"{0,3}(?:b64decode|b32decode|b16decode|a85decode|b85decode|decodebytes|unhexlify|fromhex|decompress"
        r"|decode|loads)\s*\(",
        "decodes a program and runs it",
    ),
    TextPattern(
        r"\b(?:eval|Function|setTimeout|vm\.runIn\w+)\s*\(\s*(?:new\s+\w+\s*\()?\s*(?:atob|Buffer\.from"
        r"|unescape|decodeURIComponent|String\.fromCharCode)\s*\(",
        "decodes a program and runs it",
    ),
    TextPattern(
        r"\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,120}\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{20,}",
        "runs an encoded command",
    ),
    TextPattern(
        r"\bfrombase64string\b[^\n]{0,200}(?:\|\s*(?:iex|invoke-expression)|&\s*\$)|\b(?:iex"
        r"|invoke-expression)\b[^\n]{0,200}frombase64string",
        "decodes a program and runs it",
    ),
)

_DECODE_PROSE = (
    TextPattern(
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
    TextPattern(
        rf"\brm\s\s*(?:-{{1,2}}[\w-]+\s+)*-(?:[a-z]*r[a-z]*"
        rf"|-recursive)\s+(?:-{{1,2}}[\w-]+\s+)*{_HOME_OR_ROOT}(?:\s|$|[;&|`)])",
        "deletes the home folder or the whole system",
    ),
    TextPattern(r"--no-preserve-root\b", "deletes the whole system"),
    TextPattern(
        r"\bmkfs(?:\.\w+)?\s+(?:-\S+\s+)*/dev/\w+|\bdd\s+[^\n]{0,100}\bof=/dev/(?:sd|nvme|hd|disk|vd|mmcblk)",
        "overwrites a disk",
    ),
    TextPattern(r">\s*/dev/(?:sd[a-z]|nvme\d|hd[a-z]|disk\d)", "overwrites a disk"),
    TextPattern(r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:", "starts processes without end"),
    TextPattern(
        r"\b(?:remove-item|ri|rd|del|rmdir)\b[^\n]{0,60}(?:-recurse|/s)\b[^\n]{0,60}(?:[a-z]:\\(?:\s|$|\*|\""
        r"|users|windows)|\$home\b|\$env:userprofile|~)",
        "deletes the home folder or the whole system",
    ),
    TextPattern(r"\bformat\s\s*[a-z]:\s*/", "formats a disk"),
    TextPattern(r"\bchmod\s+-R\s+(?:0?777|a\+rwx)\s+/(?:\s|$)", "opens the whole system to every user"),
    TextPattern(
        r"\bfind\s+(?:/|~/?|\$HOME)\s[^\n]{0,100}(?:-delete\b|-exec\s+rm\b)",
        "deletes files all over the system",
        Severity.WARNING,
    ),
    TextPattern(
        r"\brm\s\s*(?:-{1,2}[\w-]+\s+)*-(?:[a-z]*r[a-z]*f|[a-z]*f[a-z]*r)[a-z]*\s+(?:\*|\.\s*$|\.\*|\./\*"
        r"|[\"']?\$\{?\w+\}?[\"']?/\*?(?:\s|$|[;&|]))",
        "deletes what a variable or the working folder happens to be",
        Severity.WARNING,
    ),
    TextPattern(
        r"\bgit\s+push\s+[^\n]{0,80}(?:--force\b(?:[^-]|$)|\s-f\b)|\bgit\s+(?:reset\s+--hard"
        r"|clean\s+-[a-z]*f[a-z]*[dx])|\bgit\s+checkout\s+--\s+\.(?:\s|$)",
        "discards work in a repository",
        Severity.NOTE,
    ),
    TextPattern(
        r"\bterraform\s+destroy\b[^\n]{0,60}-auto-approve|\bkubectl\s+delete\s+[^\n]{0,60}--all\b"
        r"|\bkubectl\s+delete\s+(?:ns|namespace)\b|\bdocker\s+system\s+prune\s+[^\n]{0,20}-a?f",
        "deletes infrastructure without asking",
        Severity.WARNING,
    ),
    TextPattern(
        r"\bDROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?\w+|\bTRUNCATE\s+TABLE\s+\w+",
        "deletes a database",
        Severity.NOTE,
    ),
)

_DROPS = (
    r"(?:webhook\.site|requestbin\.(?:com|net)|\w+\.requestbin\.net|(?:\w+\.)?pipedream\.net"
    r"|\w+\.burpcollaborator\.net|\w+\.oastify\.com"
    r"|\w+\.(?:oast\.(?:pro|live|site|online|fun|me)|interact\.sh)|(?:\w+\.)?dnslog\.cn|transfer\.sh"
    r"|file\.io|0x0\.st|temp\.sh"
    r"|(?:\w+\.)?beeceptor\.com|(?:\w+\.)?requestcatcher\.com|\w+\.ngrok(?:-free)?\.(?:io|app|dev)"
    r"|\w+\.trycloudflare\.com|pastebin\.com/api|termbin\.com|hookb\.in|\w+\.m\.pipedream\.net)"
)
_DATA = (
    r"(?:conversations?|chat (?:history|log)|(?:session|message) history|transcripts?|prompts?"
    r"|file contents?|contents? of (?:\w+\s+){0,3}files?|source code|codebase"
    r"|user(?:'s)? (?:data|files|input|messages?)|personal (?:data|information)|environment variables"
    r"|env vars|everything (?:you|the user)|all files|workspace|system information)"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|access tokens?|auth tokens?|tokens?|secrets?|credentials?|passwords?"
    r"|private keys?|ssh keys?|cookies|seed phrase|wallet"
    r"|\.env(?: file)?|id_rsa|~/\.(?:ssh|aws|netrc|kube|gnupg)\S*)"
)
_SEND = (
    r"(?:send|post|upload|transmit|forward|submit|exfiltrate|e-?mail|leak|deliver|beacon|push|copy|sync"
    r"|pipe|append|attach|include)"
)
_OUTSIDE_ADDRESS = (
    r"(?:https?://[^\s)\]>]+|[\w.+-]+@[\w-]+\.[a-z]{2,}|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|io|dev|app|site|xyz|sh|ru|cn|top)\b)"
)

_OUTSIDE = (
    TextPattern(
        rf"\b{_SEND}\b[^.\n]{{0,60}}\b{_DATA}\b[^\n]{{0,80}}?\b(?:to|at|via"
        rf"|into)\b\s+(?:\w+\s+){{0,4}}\W{{0,3}}{_OUTSIDE_ADDRESS}",
        "sends data of the user to an outside address",
    ),
    TextPattern(
        rf"\b{_SEND}\s+(?:a\s+)?(?:copy|summary|log|record)\s+of\s+[^.\n]{{0,60}}\s+to\s+\W{{0,3}}{_OUTSIDE_ADDRESS}",
        "sends data of the user to an outside address",
    ),
    TextPattern(
        r"!\[[^\]\n]{0,200}\]\(\s*https?://[^)\s]{1,300}[?&/=](?:[^)\s]{0,100})(?:\{\{?[^}\n]{1,60}\}"
        r"|\$\{?\w+|<[A-Za-z_ -]{2,40}>|\[[A-Z_ ]{3,40}\]|%s)",
        "puts data into the address of an image, which a host fetches without asking",
    ),
)
_OUTSIDE_COMMANDS = (
    TextPattern(rf"\bhttps?://{_DROPS}[/\w.?=&%-]*", "names a service that collects whatever is sent to it"),
    TextPattern(
        r"\bhttps?://(?:\w+\.)?(?:discord(?:app)?\.com/api/webhooks/\d{6,}|api\.telegram\.org/bot\d{6,})[^\s\"']*",
        "names a fixed chat channel",
    ),
    TextPattern(
        r"\b(?:curl|wget|http|httpie|invoke-restmethod|irm)\b[^\n]{0,300}(?:--data(?:-binary|-raw"
        r"|-urlencode)?|-d|-F|--form|-T|--upload-file|--post-file|-infile)[ =]?[\"']?(?:\w+=)?[@<](?:~|\$HOME"
        r"|/etc|/home|/root|/Users|\.\.?(?:[ \"'/]|$)|\*|\.env)[^\n]{0,200}",
        "uploads files from outside the skill",
    ),
    TextPattern(
        r"\b(?:tar|zip)\b[^\n|;]{0,160}\|\s*(?:curl|nc|ncat|socat|ssh)\b[^\n]{0,160}",
        "packs files and sends them",
        Severity.WARNING,
    ),
    TextPattern(
        r"\b(?:bash|sh)\s\s*-i\s+[>&<\d\s]{0,10}/dev/tcp/|\b(?:nc|ncat)\s\s*(?:[^\n]{0,60}\s)?-(?:e|c)\s+/?\S*sh\b",
        "opens a shell to an outside address",
    ),
)

_CREDENTIAL_FILE = (
    r"(?:(?:~|\$\{?HOME\}?|/root|/home/\w+|/Users/\w+|%USERPROFILE%|\$env:USERPROFILE)[/\\]\.(?:ssh|aws"
    r"|gnupg|kube|azure|docker/config|netrc|npmrc|pypirc|git-credentials|config/(?:gcloud|gh))\b"
    r"|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|/etc/shadow|(?:^|[\s/\"'=@<])\.env\b"
    r"|\blogin\.keychain|\bwallet\.dat\b|\bsecurity\s+find-(?:generic|internet)-password)"
)
_SINK = (
    r"(?:\b(?:curl|wget|nc|ncat|socat|scp|rsync|sftp|ftp|invoke-webrequest|invoke-restmethod|iwr|irm)\b"
    r"|\brequests\.(?:post|put|get)\b|\burlopen\b|\bhttpx?\.(?:post|put)\b|\bfetch\s*\(|\baxios\b"
    r"|/dev/tcp/|\bnslookup\b|\bdig\s)"
)
_SWEEP = (
    r"(?:\$\(\s*(?:env|printenv|export|set)\b|`(?:env|printenv)`|\b(?:env|printenv)\s*(?:\||>)|\b(?:dict"
    r"|str|json\.dumps|dumps|repr)\s*\(\s*(?:dict\s*\(\s*)?os\.environ\b|os\.environ\.(?:items|copy)\(\)"
    r"|JSON\.stringify\s*\(\s*process\.env\b|get-childitem\s+env:|\bgci\s+env:)"
)

_SECRET_COMMANDS = (
    TextPattern(
        rf"{_CREDENTIAL_FILE}[^\n]{{0,200}}(?:\||&&|;|,|\)|>)[^\n]{{0,200}}{_SINK}", "reads credentials and sends them"
    ),
    TextPattern(
        rf"{_SINK}[^\n]{{0,200}}(?:@|<\s*|\$\(\s*(?:cat|<|base64)\b[^\n]{{0,60}}|open\s*\(\s*[^\n]{{0,40}}"
        rf"|-T\s*|read(?:File)?(?:Sync)?\s*\(?[^\n]{{0,60}}|--data\S*\s+\S{{0,20}})[\"']?{_CREDENTIAL_FILE}",
        "reads credentials and sends them",
    ),
    TextPattern(rf"{_SWEEP}[^\n]{{0,200}}{_SINK}", "sends all environment variables"),
    TextPattern(rf"{_SINK}[^\n]{{0,200}}{_SWEEP}", "sends all environment variables"),
)
_SECRET_PROSE = (
    TextPattern(
        rf"\b{_SEND}\b[^.\n]{{0,60}}{_SECRETS}[^\n]{{0,80}}?\b(?:to|at|into)\b\s+(?:\w+\s+){{0,4}}\W{{0,3}}{_OUTSIDE_ADDRESS}",
        "tells the model to send secrets to an outside address",
    ),
    TextPattern(
        r"\b(?:read|cat|collect|gather|find|get|load|extract|harvest"
        rf"|grab)\b[^.\n]{{0,60}}{_SECRETS}[^\n]{{0,80}}\b(?:and"
        rf"|then)\s+(?:\w+\s+){{0,2}}{_SEND}\b[^\n]{{0,60}}{_OUTSIDE_ADDRESS}",
        "tells the model to send secrets to an outside address",
    ),
)


_COMMAND = r"(?:^|[^\w!`\\])!`[^`\n]{1,400}`"
_FENCE = r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?:```+|~~~+)!"

_HARMLESS = (
    r"^(?:git\s+(?:status|diff|log|branch|rev-parse|show|remote|config\s+--get|ls-files|describe|tag"
    r"|blame|shortlog)|gh\s+(?:pr|issue|repo|run)\s+(?:view|diff|list|status|checks)"
    r"|pwd|ls|date|cat\s+[\w./-]+|head\s+[\w./ -]+|wc\s|which\s|uname|echo\s|basename\s|dirname\s|(?:node"
    r"|npm|python3?|go|cargo|uv)\s+(?:--version|version|-V)|tree|command\s+-v)\b|^(?:find\s+\.|jq|test)\s"
)
_RISKY = (
    r"https?://|[;&`]|\$\(|\|\s*(?:sh|bash|zsh|python|node|perl|curl|wget|nc|xargs)\b|-exec\b|-delete\b"
    r"|>\s*[^&\s]|\.ssh|\.aws|\.env\b|/etc/|~/"
)


def _pre_executed(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find commands in Markdown; those in SKILL.md that only look at the working folder are warnings.

    A host runs those of other files only where it loads the file as a command: one note tells how many there are.
    """
    for file in skill.texts:
        if not file.is_markdown or file.is_eval:
            continue
        hits = list(_in_file(file))
        if skill.is_main(file):
            yield from hits
        elif hits:
            first = min(hits, key=lambda hit: hit.start or 0)
            message = f"a host that loads this file as a command runs commands in it: {len(hits)}"
            yield replace(first, message=message, severity=Severity.NOTE)


def _in_file(file: AuditedFile) -> Iterator[Hit]:
    text = (file.text or "").replace("\r", " ")
    for found in find(_COMMAND, text):
        start = found.start + found.text.index("!`")
        command = found.text[found.text.index("!`") + 2 : -1].strip()
        harmless = is_found(_HARMLESS, command) and not is_found(_RISKY, command)
        severity = Severity.WARNING if harmless else Severity.ERROR
        yield Hit(file, f"a host runs this command when it loads the skill: {shown(command)}", start, severity)
    for found in find(_FENCE, text):
        yield Hit(file, "a host runs this block when it loads the skill", found.start, Severity.ERROR)


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
    Rule(
        "data-to-outside",
        Severity.ERROR,
        "Data sent to an outside address",
        "What the user works on leaves the machine for an address that the skill's author chose.",
        "Remove the address, or let the user configure it and confirm each transfer.",
        lambda skill: (*search_for(_OUTSIDE, prose_of)(skill), *search_for(_OUTSIDE_COMMANDS, commands_of)(skill)),
        8.5,
    ),
    Rule(
        "secret-to-network",
        Severity.ERROR,
        "Secret sent over the network",
        "Credentials or environment variables that leave the machine give their owner's accounts away.",
        "Remove the transfer; a program that needs a credential reads the one variable that it needs.",
        lambda skill: (*search_for(_SECRET_COMMANDS, commands_of)(skill), *search_for(_SECRET_PROSE, prose_of)(skill)),
        9.5,
    ),
    Rule(
        "pre-execution",
        Severity.ERROR,
        "Command that runs on load",
        "Some hosts run `` !`command` `` while they load a skill, even inside a fence, before anyone can refuse it.",
        "Tell the model to run the command as a step, where the host asks for permission.",
        _pre_executed,
        7.5,
    ),
)
