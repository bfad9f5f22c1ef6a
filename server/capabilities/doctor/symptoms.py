"""What can be wrong: each kind of symptom with what it means and what to do, for `doctor` and for the page about it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from skills_core.diagnostics import shortened

PAGE: Final = "docs/troubleshooting.md"

_MAX_MESSAGE: Final = 600


class Health(StrEnum):
    """How something is."""

    GOOD = "good"
    NOTE = "note"
    """It works, and something is worth knowing."""
    BAD = "bad"
    """It does not work."""


class Part(StrEnum):
    """What is examined, in the order in which things have to work."""

    INSTALLATION = "Installation"
    RUNS = "Runs and scripts"
    SETTINGS = "Settings"
    SKILLS = "Skills"
    ADDRESS = "Address"
    CLIENTS = "Clients"
    SERVER = "Server"
    """A running server, by its address."""


class Known(NamedTuple):
    """What is known of a kind of symptom; `advice` names what a symptom fills in, as in `{client}`."""

    part: Part
    health: Health
    meaning: str
    advice: str


class Kind(Enum):
    """The kinds of symptoms that are not good."""

    PYTHON_TOO_OLD = Known(
        Part.INSTALLATION,
        Health.BAD,
        "A client starts skillserve with a Python before 3.11.",
        "install Python 3.11 or later and skillserve with it, then run: skillserve connect {client}",
    )
    EXTRA_MISSING = Known(
        Part.INSTALLATION,
        Health.NOTE,
        "Packages of an extra are not installed: `run` for runs with a model, `history` for histories, `team` for "
        "metrics and Redis, `embeddings` for search by meaning. All else works without them.",
        "install skillserve again with that extra",
    )
    NOT_ON_PATH = Known(
        Part.INSTALLATION,
        Health.NOTE,
        "A terminal does not find the command `skillserve`. Clients that `skillserve connect` has set up do not "
        "need it.",
        "call {program}, or add its folder to PATH",
    )
    OTHER_INSTALLATION = Known(
        Part.INSTALLATION,
        Health.NOTE,
        "The command `skillserve` of a terminal belongs to another installation than the one that was examined, "
        "so the two may differ in version, extras and behaviour.",
        "remove one of them, or call the one that you mean by its path",
    )
    NOT_EXAMINED = Known(
        Part.INSTALLATION,
        Health.NOTE,
        "The system refused what an examination needs, such as to read a folder. All else was examined.",
        "correct what the message names, and run doctor again",
    )
    NO_SANDBOX = Known(
        Part.RUNS,
        Health.NOTE,
        "Scripts of skills would run without a complete sandbox on this machine.",
        "on Linux, install bubblewrap and allow user namespaces; or forbid such scripts with --require-sandbox",
    )
    SANDBOX_REQUIRED = Known(
        Part.RUNS,
        Health.BAD,
        "The settings require a complete sandbox for scripts, and there is none, so no script runs.",
        "on Linux, install bubblewrap and allow user namespaces; or unset scripts.require_sandbox",
    )
    SETTING_INVALID = Known(
        Part.SETTINGS,
        Health.BAD,
        "A settings file or an environment variable cannot be used, so commands and servers do not start. "
        "`skillserve config check` shows the same.",
        "correct the file or variable that the message names",
    )
    SETTING_WARNING = Known(
        Part.SETTINGS,
        Health.NOTE,
        "A setting has no effect, is misspelt, or is risky.",
        "correct or remove what the message names",
    )
    NO_SUCH_FOLDER = Known(
        Part.SKILLS,
        Health.BAD,
        "A folder of skills that you named is missing, is a file, or cannot be read. A server over HTTP does not "
        "start then; over stdio it tells the client and waits for the folder.",
        "create the folder, correct its path where it is named, or correct its permissions",
    )
    NO_SKILL = Known(
        Part.SKILLS,
        Health.BAD,
        "No skill is served, because no folder that was looked in has one that can be used.",
        "run: skillserve init NAME",
    )
    SKILL_BROKEN = Known(
        Part.SKILLS,
        Health.BAD,
        "A skill breaks a rule of the format, so that it is not served.",
        "run: skillserve validate --fix {path}",
    )
    SKILL_NOT_SERVED = Known(
        Part.SKILLS,
        Health.NOTE,
        "A skill is in order and not served: a condition of it is not met, the settings leave it out, or a skill "
        "of the same name stands before it.",
        "run: skillserve status",
    )
    PLACE_NOT_READ = Known(
        Part.SKILLS,
        Health.NOTE,
        "A file or folder in a folder of skills was left out: it is a link, lies too deep, or cannot be read.",
        "correct what the message names",
    )
    PROJECT_NOT_TRUSTED = Known(
        Part.SKILLS,
        Health.NOTE,
        "The project in the working directory has skills, which are not served until you trust it.",
        "run: skillserve trust",
    )
    PORT_TAKEN = Known(
        Part.ADDRESS,
        Health.NOTE,
        "A server over HTTP cannot listen at the address of the settings, because something else does, or because "
        "the address is not this machine's. A server over stdio needs no address.",
        "if a server of yours runs there, connect clients to it; else choose another port with --port",
    )
    NO_CLIENT = Known(
        Part.CLIENTS,
        Health.NOTE,
        "No client whose configuration skillserve knows is installed for this user.",
        "install one, such as Claude Code, Claude Desktop, Codex or Cursor",
    )
    CLIENT_FILE_BROKEN = Known(
        Part.CLIENTS,
        Health.BAD,
        "The configuration file of a client cannot be read or parsed. The client then knows no server, or does "
        "not start.",
        "correct the file; its client's documentation describes it",
    )
    CLIENT_NOT_CONNECTED = Known(
        Part.CLIENTS,
        Health.NOTE,
        "A client is installed, and its configuration does not have this server.",
        "run: skillserve connect {client}",
    )
    CLIENT_SWITCHED_OFF = Known(
        Part.CLIENTS,
        Health.NOTE,
        "A client has this server in its configuration, and does not start it, because somebody switched it off.",
        "switch it on in the client, or set `disabled` or `enabled` of the entry in its file",
    )
    CLIENT_COMMAND_MISSING = Known(
        Part.CLIENTS,
        Health.BAD,
        "The program that a client's configuration names does not exist: it was moved, removed, or installed "
        "elsewhere.",
        "run: skillserve connect {client}",
    )
    CLIENT_COMMAND_RELATIVE = Known(
        Part.CLIENTS,
        Health.NOTE,
        "A client's configuration names the program without its folder. Clients with windows do not have the PATH "
        "of your terminal, and may not find it. A program that is looked for in the working directory, such as "
        "`./skillserve`, is another one in each, and `doctor` does not start it.",
        "run: skillserve connect {client}",
    )
    CLIENT_FOLDER_MISSING = Known(
        Part.CLIENTS,
        Health.BAD,
        "A client starts the server with a folder that cannot be used. The server tells the client so, and waits "
        "for it.",
        "create the folder, or run: skillserve connect {client} DIR",
    )
    CLIENT_FOLDER_RELATIVE = Known(
        Part.CLIENTS,
        Health.NOTE,
        "A client starts the server with a folder that is named without the folders above it. Clients start servers"
        " wherever they like, and the folder is looked for there.",
        "write the whole path, or run: skillserve connect {client} DIR",
    )
    CLIENT_NO_ANSWER = Known(
        Part.CLIENTS,
        Health.BAD,
        "The server does not answer when it is started as the client starts it: the message is the last that it said.",
        "do what the message says, then restart the client; or run: skillserve connect {client}",
    )
    CLIENT_LOGGED_ERROR = Known(
        Part.CLIENTS,
        Health.NOTE,
        "The client has logged an error of this server. It may be older than what has been corrected since.",
        "restart the client and see whether it comes again in {log}",
    )
    CLIENT_LOG_UNREADABLE = Known(
        Part.CLIENTS,
        Health.NOTE,
        "The log of a client cannot be read.",
        "correct the permissions of {log}",
    )
    URL_UNKNOWN_HOST = Known(
        Part.SERVER,
        Health.BAD,
        "The host name of the address has no address in the network.",
        "correct the name, or ask who runs the network for it",
    )
    URL_REFUSED = Known(
        Part.SERVER,
        Health.BAD,
        "Nothing listens at this host and port.",
        "start the server with --transport http, and compare the address with the one that it prints",
    )
    URL_TIMEOUT = Known(
        Part.SERVER,
        Health.BAD,
        "There is no answer in time: a firewall drops the connection, or the server is stuck.",
        "try it from the server's own machine; see the server's log, and the firewall between",
    )
    URL_CERTIFICATE = Known(
        Part.SERVER,
        Health.BAD,
        "The certificate of the server is not trusted: it is self-signed, expired, or for another name. Clients "
        "refuse it.",
        "use the name in the certificate; or trust its authority: SSL_CERT_FILE for Python, NODE_EXTRA_CA_CERTS "
        "for Node",
    )
    URL_NO_TLS = Known(
        Part.SERVER,
        Health.BAD,
        "The address begins with https, and what listens there does not speak TLS. skillserve itself serves plain "
        "HTTP.",
        "use http:// on the same machine, or the address of the proxy that ends TLS",
    )
    URL_NOT_HTTP = Known(
        Part.SERVER,
        Health.BAD,
        "What listens there does not answer in HTTP: it is another program, or expects TLS.",
        "try https://, and correct the port",
    )
    URL_PLAIN_TOKEN = Known(
        Part.SERVER,
        Health.NOTE,
        "A header with a token goes to another machine without TLS, so everybody between can read it.",
        "put a proxy that ends TLS in front of the server, and use https://",
    )
    URL_PROXY = Known(
        Part.SERVER,
        Health.NOTE,
        "Requests go through the proxy that the environment names; clients with the same environment use it too.",
        "if the server should be reached directly, add its host to NO_PROXY",
    )
    URL_REDIRECT = Known(
        Part.SERVER,
        Health.BAD,
        "The server sends clients elsewhere. Many clients do not follow, and none should send a token there.",
        "give clients the address that it names, if that is yours: {location}",
    )
    URL_WRONG_PATH = Known(
        Part.SERVER,
        Health.BAD,
        "A server answers, and has no MCP endpoint at this path. That of skillserve is /mcp unless http.path is set.",
        "use {better}",
    )
    URL_NOT_MCP = Known(
        Part.SERVER,
        Health.BAD,
        "Something answers, and not in MCP: a web page, the login page of a proxy, or another program.",
        "open the address in a browser to see what it is; correct host, port and path",
    )
    URL_LOGIN = Known(
        Part.SERVER,
        Health.NOTE,
        "Clients have to log in. Without a token, nothing more can be examined.",
        "run doctor with --header 'Authorization: Bearer TOKEN'; `skillserve token add NAME` makes a token",
    )
    URL_TOKEN_REFUSED = Known(
        Part.SERVER,
        Health.BAD,
        "The server refuses the token that was sent.",
        "see the server's log, which names the token and the reason; make a new one with `skillserve token add NAME`",
    )
    URL_HOST_NOT_ALLOWED = Known(
        Part.SERVER,
        Health.BAD,
        "The server does not accept the host name in the address (421). It accepts names of its own alone, so "
        "that web pages cannot reach it under another.",
        "start the server with --allowed-host {host}",
    )
    URL_FORBIDDEN = Known(
        Part.SERVER,
        Health.BAD,
        "The server, or a proxy in front of it, refuses the request (403): its Origin header, the role of the "
        "user, or a scope of the token.",
        "for an Origin, see http.allowed_origins; for a role or scope, ask who gives them",
    )
    URL_OVERLOADED = Known(
        Part.SERVER,
        Health.BAD,
        "A proxy cannot reach the server, or the server has too much to do (429, 502, 503, 504).",
        "see whether the server runs, and its log; try again",
    )
    URL_NOT_READY = Known(
        Part.SERVER,
        Health.BAD,
        "The server runs, and says at /ready that it should get no requests: it is stopping, still loads "
        "skills, or a folder of skills is gone.",
        "see the server's log; if its skills are on a share, see whether that is mounted",
    )
    URL_ERROR = Known(
        Part.SERVER,
        Health.BAD,
        "The server answers with an error.",
        "see the server's log for the time of the request",
    )
    URL_ONE_ERA = Known(
        Part.SERVER,
        Health.NOTE,
        "The server speaks MCP in one of its two eras alone: with a handshake (up to 2025-11-25), or without "
        "(2026-07-28). skillserve speaks both, so this is another server, or a proxy changes requests.",
        "let proxies pass the headers MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Session-Id on",
    )
    URL_NO_TOOL = Known(
        Part.SERVER,
        Health.BAD,
        "The server answers, and offers no tool: it serves no skill, or none that the role of this user may see.",
        "run `skillserve status` where the server runs; for roles, see [access] in its settings",
    )

    @property
    def key(self) -> str:
        """The key in `doctor --json`, which is the anchor on the page as well."""
        return self.name.lower().replace("_", "-")

    @property
    def advice(self) -> str:
        """The advice with what it fills in as words in capitals."""
        return self.value.advice.format_map(_Capitals())


class _Capitals(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


@dataclass(frozen=True, slots=True)
class Symptom:
    """What was found; nothing has to be done where it is good, and only then it has no kind."""

    health: Health
    message: str
    kind: Kind | None = None
    advice: str = ""


def good(message: str) -> Symptom:
    """Return that something is as it should be."""
    return Symptom(Health.GOOD, shortened(message, _MAX_MESSAGE))


def found(kind: Kind, message: str, advice: str = "", *, health: Health | None = None, **names: object) -> Symptom:
    """Return a symptom of a kind.

    The `advice` of the kind, in which `names` are filled in, may be replaced by a better one, and its health by that of
    this case.
    """
    known = kind.value
    filled = defaultdict(str, {name: str(value) for name, value in names.items()})
    chosen = advice or known.advice.format_map(filled)
    return Symptom(health or known.health, shortened(message, _MAX_MESSAGE), kind, shortened(chosen, _MAX_MESSAGE))
