"""The profile of a client: the facts that can be known about it, each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

DEFAULT_WINDOW = 200_000
"""The context window in tokens that is assumed for budgets given as a share of it."""

CHARACTERS_A_TOKEN = 4
"""Characters per token, as clients convert budgets and as we estimate token counts."""

_Value = TypeVar("_Value")

_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")

# Named tuples, because every start of a server loads this module, and dataclasses take three times as long to define.


class Evidence(NamedTuple):
    """Where a fact was found, and the day on which it was true (ISO 8601)."""

    source: str
    date: str


class Unit(StrEnum):
    """What a client counts in a result."""

    CHARACTERS = "characters"
    """UTF-16 code units, as JavaScript counts."""

    BYTES = "bytes"
    """The bytes of the text in UTF-8."""

    JSON = "characters of JSON"
    """The whole result as JSON, which escapes line ends and quotes."""

    JSON_BYTES = "bytes of JSON"
    """The bytes of the same."""


class Limit(NamedTuple):
    """The maximum length of a text that reaches the model, or of a name; 0 if the model sees none of it.

    `lines` is the maximum number of lines; None is unlimited.
    """

    characters: int
    evidence: Evidence
    unit: Unit = Unit.CHARACTERS
    lines: int | None = None


class Fact(NamedTuple, Generic[_Value]):
    """A known property of a client."""

    value: _Value
    evidence: Evidence


class StructureUse(StrEnum):
    """What reaches the model of a result that has `structuredContent` beside its text."""

    ALONE = "replaces text"
    """Only the structure; the text is dropped."""

    BOTH = "beside text"
    """Both, so that the same content counts twice."""

    IGNORED = "ignored"
    """Only the text."""

    PROGRAM = "read by a program"
    """There is no model: a program reads the structure."""


class PromptWords(StrEnum):
    """What a client makes of the words that a user types after the command of a prompt."""

    FIRST = "one for each argument"
    """Each argument gets one word, and further words are dropped; all are in `<command-args>`."""

    REQUIRED = "all, for the only required argument"
    """An optional argument gets none."""

    ALONE = "all, for the only argument"
    """Of several arguments each gets one word, and further words are dropped."""

    FILLED = "into the text"
    """Arguments are `$1`, `$2`, …, which the client replaces in the text by the words, and `$ARGUMENTS` by all."""


class Overflow(StrEnum):
    """What a client does with skills that it reads itself and that exceed its budget."""

    NAMES = "names"
    """The first skills keep their descriptions, the others are listed only by name."""

    SHORTENED = "shortened"
    """All descriptions are cut to an equal length, then dropped; only then are skills omitted."""

    OMITTED = "omitted"
    """All skills after the last one that fits are omitted."""


class NativeListing(NamedTuple):
    """How a client lists the skills that it finds in folders itself.

    The budget is a number of `characters`, or `percent` of the model's context window; with neither, all skills are
    listed. `entry` is the maximum length of a description, `frame` the length of an entry besides name and description.
    """

    evidence: Evidence
    characters: int | None = None
    percent: int | None = None
    entry: int | None = None
    frame: int = 4
    overflow: Overflow = Overflow.OMITTED

    def budget(self, window: int = DEFAULT_WINDOW) -> int | None:
        """Return the maximum length of the list for a context of `window` tokens; None if no limit is known."""
        if self.percent is not None:
            return window * CHARACTERS_A_TOKEN * self.percent // 100
        return self.characters


class Raises(StrEnum):
    """What a user's option makes a client show more of."""

    DESCRIPTION = "tool descriptions"
    INSTRUCTIONS = "instructions"
    TOOLS = "tools without a search"
    RESULTS = "results"
    START = "servers that start slowly"


class UserOption(NamedTuple):
    """What a user can set in a client so that the model sees more of a server."""

    option: str
    raises: Raises
    evidence: Evidence
    remark: str = ""


class Commands(NamedTuple):
    """The built-in slash commands of a client: names without the slash, separated by spaces."""

    listed: str
    evidence: Evidence

    @property
    def names(self) -> frozenset[str]:
        """The names as a set."""
        return frozenset(self.listed.split())


class Earlier(NamedTuple):
    """What was different in versions of a client before version `before`: fields of the profile with their facts."""

    before: str
    facts: Mapping[str, Any]


class ClientProfile(NamedTuple):
    """What is known of one client; None stands for unknown.

    `docs/reference/clients.md` says what each fact means. Besides facts there are:
    - `names`: prefixes of the name that the client sends, in lower case, or with `exact` the whole name; `named` is
      their evidence. A client that shares its name with others has none and is found by its key alone, or is told from
      them by `declares`: exactly these capabilities, in alphabetical order.
    - `earlier`: what was different in earlier versions, latest first.
    - `toolbox`: the key of the preset with the client's own tools.
    - `whole`: the names of the texts that the client is known not to cut.
    - `options`: what users can set so that the model sees more; `notes`: other facts, as sentences.
    """

    key: str
    title: str
    names: tuple[str, ...] = ()
    named: Evidence | None = None
    exact: bool = False
    declares: tuple[str, ...] | None = None
    earlier: tuple[Earlier, ...] = ()
    toolbox: str | None = None
    whole: Fact[tuple[str, ...]] | None = None
    options: tuple[UserOption, ...] = ()
    notes: tuple[Fact[str], ...] = ()
    called: Fact[str] | None = None
    tool_name: Limit | None = None
    max_tools: Fact[int] | None = None
    own_activation: Fact[bool] | None = None
    protocol: Fact[str] | None = None
    capabilities: Fact[str] | None = None
    description: Limit | None = None
    instructions: Limit | None = None
    framed: Fact[str] | None = None
    schema: Fact[int] | None = None
    checks_enum: Fact[bool] | None = None
    drops_enum: Fact[bool] | None = None
    lazy_tools: Fact[bool] | None = None
    always_load: Fact[bool] | None = None
    deferred: Limit | None = None
    loaded: Limit | None = None
    searched: Fact[str] | None = None
    search_hint: Fact[bool] | None = None
    search_answer: Limit | None = None
    result: Limit | None = None
    model_results: tuple[tuple[str, Limit], ...] = ()
    raised_result: Limit | None = None
    cut_result: Fact[str] | None = None
    structure: Fact[StructureUse] | None = None
    embedded: Fact[str] | None = None
    links: Fact[str] | None = None
    untrusted: Fact[bool] | None = None
    compaction: Fact[bool] | None = None
    list_changed: Fact[bool] | None = None
    stalls: Fact[bool] | None = None
    redefines: Fact[bool] | None = None
    new_tools: Fact[bool] | None = None
    model_reads: Fact[bool] | None = None
    reads_disk: Fact[bool] | None = None
    starts_in_workspace: Fact[bool] | None = None
    prompts: Fact[bool] | None = None
    tools_of: Fact[tuple[str, ...]] | None = None
    prompt_called: Fact[str] | None = None
    prompt_words: Fact[PromptWords] | None = None
    native: NativeListing | None = None
    commands: Commands | None = None

    @property
    def defers(self) -> bool:
        """Whether tools are known to be out of the model's sight until it searches for them."""
        return holds(self.lazy_tools) and not holds(self.always_load)

    def makes_tools_of(self, what: str) -> bool:
        """Tell whether the client makes a tool of each entry of `prompts/list` or `resources/list`, as `what` says."""
        return self.tools_of is not None and what in self.tools_of.value

    @property
    def refreshes(self) -> bool:
        """Whether the model is known to see a changed tool in the same conversation."""
        return holds(self.redefines)

    @property
    def announces_tools(self) -> bool:
        """Whether the model sees a tool of a new name in the same conversation, but no changed tool."""
        return holds(self.new_tools) and not self.refreshes and not self.defers

    def result_limit(self, model: str | None = None) -> Limit | None:
        """Return the limit of a tool's result in a conversation with `model`; None if none is known."""
        fitting = [(len(name), limit) for name, limit in self.model_results if (model or "").lower().startswith(name)]
        return max(fitting, key=lambda pair: pair[0], default=(0, self.result))[1]

    def of_version(self, version: str | None) -> ClientProfile:
        """Return the profile of one version of the client; None stands for the latest.

        A version that cannot be read counts as the earliest, as limits have mostly grown.
        """
        if version is None:
            return self
        number = _number(version)
        profile = self
        for earlier in self.earlier:
            if number is None or number < (_number(earlier.before) or ()):
                profile = profile._replace(**earlier.facts)
        return profile


FACTS = ClientProfile._fields[ClientProfile._fields.index("called") :]
"""The fields that are facts."""


def holds(fact: Fact[bool] | None) -> bool:
    """Tell whether a property is known and true."""
    return fact is not None and fact.value


def _number(version: str) -> tuple[int, ...] | None:
    """Return the leading numbers of a version, None if it begins with none."""
    found = _VERSION.match(version)
    return tuple(map(int, found[0].split("."))) if found else None


UNKNOWN = ClientProfile("unknown", "an unknown client")
