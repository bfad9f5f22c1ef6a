"""Data that leaves: to outside addresses, to known drop services, with secrets."""

from __future__ import annotations

from skills_core.audit.finding import Severity
from skills_core.audit.patterns import Pattern, commands_of, prose_of, search_for
from skills_core.audit.rule import Rule

__all__ = ["RULES"]

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
_ADDRESS = (
    r"(?:https?://[^\s)\]>]+|[\w.+-]+@[\w-]+\.[a-z]{2,}|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|io|dev|app|site|xyz|sh|ru|cn|top)\b)"
)

_OUTSIDE = (
    Pattern(
        rf"\b{_SEND}\b[^.\n]{{0,60}}\b{_DATA}\b[^\n]{{0,80}}?\b(?:to|at|via"
        rf"|into)\b\s+(?:\w+\s+){{0,4}}\W{{0,3}}{_ADDRESS}",
        "sends data of the user to an outside address",
    ),
    Pattern(
        rf"\b{_SEND}\s+(?:a\s+)?(?:copy|summary|log|record)\s+of\s+[^.\n]{{0,60}}\s+to\s+\W{{0,3}}{_ADDRESS}",
        "sends data of the user to an outside address",
    ),
    Pattern(
        r"!\[[^\]\n]{0,200}\]\(\s*https?://[^)\s]{1,300}[?&/=](?:[^)\s]{0,100})(?:\{\{?[^}\n]{1,60}\}"
        r"|\$\{?\w+|<[A-Za-z_ -]{2,40}>|\[[A-Z_ ]{3,40}\]|%s)",
        "puts data into the address of an image, which a host fetches without asking",
    ),
)
_OUTSIDE_COMMANDS = (
    Pattern(rf"\bhttps?://{_DROPS}[/\w.?=&%-]*", "names a service that collects whatever is sent to it"),
    Pattern(
        r"\bhttps?://(?:\w+\.)?(?:discord(?:app)?\.com/api/webhooks/\d{6,}|api\.telegram\.org/bot\d{6,})[^\s\"']*",
        "names a fixed chat channel",
    ),
    Pattern(
        r"\b(?:curl|wget|http|httpie|invoke-restmethod|irm)\b[^\n]{0,300}(?:--data(?:-binary|-raw"
        r"|-urlencode)?|-d|-F|--form|-T|--upload-file|--post-file|-infile)[ =]?[\"']?(?:\w+=)?[@<](?:~|\$HOME"
        r"|/etc|/home|/root|/Users|\.\.?(?:[ \"'/]|$)|\*|\.env)[^\n]{0,200}",
        "uploads files from outside the skill",
    ),
    Pattern(
        r"\b(?:tar|zip)\b[^\n|;]{0,160}\|\s*(?:curl|nc|ncat|socat|ssh)\b[^\n]{0,160}",
        "packs files and sends them",
        Severity.WARNING,
    ),
    Pattern(
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
    Pattern(
        rf"{_CREDENTIAL_FILE}[^\n]{{0,200}}(?:\||&&|;|,|\)|>)[^\n]{{0,200}}{_SINK}", "reads credentials and sends them"
    ),
    Pattern(
        rf"{_SINK}[^\n]{{0,200}}(?:@|<\s*|\$\(\s*(?:cat|<|base64)\b[^\n]{{0,60}}|open\s*\(\s*[^\n]{{0,40}}"
        rf"|-T\s*|read(?:File)?(?:Sync)?\s*\(?[^\n]{{0,60}}|--data\S*\s+\S{{0,20}})[\"']?{_CREDENTIAL_FILE}",
        "reads credentials and sends them",
    ),
    Pattern(rf"{_SWEEP}[^\n]{{0,200}}{_SINK}", "sends all environment variables"),
    Pattern(rf"{_SINK}[^\n]{{0,200}}{_SWEEP}", "sends all environment variables"),
)
_SECRET_PROSE = (
    Pattern(
        rf"\b{_SEND}\b[^.\n]{{0,60}}{_SECRETS}[^\n]{{0,80}}?\b(?:to|at|into)\b\s+(?:\w+\s+){{0,4}}\W{{0,3}}{_ADDRESS}",
        "tells the model to send secrets to an outside address",
    ),
    Pattern(
        r"\b(?:read|cat|collect|gather|find|get|load|extract|harvest"
        rf"|grab)\b[^.\n]{{0,60}}{_SECRETS}[^\n]{{0,80}}\b(?:and"
        rf"|then)\s+(?:\w+\s+){{0,2}}{_SEND}\b[^\n]{{0,60}}{_ADDRESS}",
        "tells the model to send secrets to an outside address",
    ),
)

RULES = (
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
)
