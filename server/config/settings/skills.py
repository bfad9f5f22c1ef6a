"""Which skills are served, and how they are offered: discovery, catalog, clients and search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from server.config.values import Depth, Folders, InvalidValueError, NonEmpty, PositiveInt
from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.disk.sources import DEFAULT_BOUNDS, Scope, Strictness

_TOOL_NAME = r"[A-Za-z0-9_./:#@-]{1,64}"
_CLIENT_NAME = r"[^<>\x00-\x1f\x7f]{1,64}"
# These names become part of texts for models; the patterns keep instructions out of them.

_MAX_TOOL_NAMES = 200
# Maximum number of clients, and of names for each.


class Conventions(StrEnum):
    """Where convention files such as `AGENTS.md` are skills: nowhere, in named directories, or also in the project."""

    OFF = "off"
    NAMED = "named"
    PROJECT = "project"


class SkillFolder(StrEnum):
    """Whether texts over stdio name the folder of a skill on disk: where the client reads it, always, or never."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SourceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory of skills that the user adds to the default ones; None inherits the setting of all sources."""

    path: NonEmpty
    """The directory, absolute or relative to the file. A default directory can be named to change its settings."""
    scope: Scope = Scope.MANAGED
    """The scope, which determines precedence; configured sources precede the other sources of their scope."""
    strictness: Strictness | None = None
    """Strictness for this source."""
    follow_symlinks: bool | None = None
    """Whether symbolic links are followed in this source."""
    conventions: bool | None = None
    """Whether convention files in this source are skills; by default they are unless `conventions` is `off`."""
    gitignore: bool | None = None
    """Whether files that git ignores are left out of this source."""
    scan_depth: Depth | None = None
    """Levels of folders that are scanned in this source."""
    scan_folders: Folders | None = None
    """Number of folders that are scanned in this source."""


class DiscoverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where skills are searched, and how strictly they are read."""

    strictness: Strictness = Strictness.LENIENT
    """How violations of the format's rules are handled: `lenient` warns, `required` also rejects a skill without a name
    or description, `strict` rejects every skill with a violation. Use `strict` for skills that you publish."""
    follow_symlinks: bool = False
    """Whether symbolic links to skill folders, and links that stay within their source, are followed. Switch it on if
    you link skills from a checkout."""
    trust_workspace: bool = False
    """Whether the project in the working directory is trusted without `skillserve trust`. Switch it on only where you
    know every project that the server is started in."""
    gitignore: bool = False
    """Whether files that git ignores are left out of skills. Switch it on if builds write into skill folders."""
    scan_depth: Depth = DEFAULT_BOUNDS.depth
    """Levels of folders that are scanned below the default directories and configured sources; directories on the
    command line have much higher bounds. Raise it if `status` reports that a folder lies too deep."""
    scan_folders: Folders = DEFAULT_BOUNDS.folders
    """Number of folders that are scanned in each of these sources. Raise it if `status` reports that a scan stopped."""
    conventions: Conventions = Conventions.NAMED
    """Where convention files such as `AGENTS.md` are skills: `off` nowhere, `named` in directories on the command line
    and in configured sources, `project` also everywhere in the project."""
    index: bool = True
    """Whether what was read of directories with hundreds of skills is kept in a file, so that the next start reads only
    what changed since. Switch it off where nothing may be written."""
    index_path: NonEmpty | None = None
    """The file of the index, in a folder that only this user can write; by default `skillserve/index.db` in the user's
    cache folder. It may be deleted at any time. Set it where the cache folder does not outlive a container."""
    sources: tuple[SourceSettings, ...] = ()
    """Directories of skills to add to the default ones, as paths or as tables `[[discovery.sources]]`. They apply only
    if the command line names no directory."""
    precedence: tuple[Scope, ...] = ()
    """Scopes in order of precedence, highest first; scopes that are left out follow in their default order. It applies
    only if the command line names no directory. Set it if skills of another scope should win when names clash."""

    def __post_init__(self) -> None:
        for number, source in enumerate(self.sources):
            if "\0" in source.path:
                raise InvalidValueError(
                    f"{source.path[:80]!r}: expected the path of a directory", ("sources", str(number))
                )


class CatalogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which skills are offered to models, in which order and at what length."""

    enabled: tuple[str, ...] = ()
    """Skills to serve, by name, in which `*` stands for any characters, `tag:NAME` or `source:SCOPE` or `source:PATH`;
    if it is empty, all."""
    disabled: tuple[str, ...] = ()
    """Skills to exclude, named as in `enabled`, which it overrides."""
    pinned: tuple[str, ...] = ()
    """Names of skills that stand first in the catalog, in this order. Pin the skills that a model must always see."""
    usage: bool = True
    """Whether the server counts in a file how often each skill is used, and lists frequently used skills first. Switch
    it off for an order that never changes, or where nothing may be written."""
    budget: Annotated[int, Meta(ge=500)] = 16_000
    """Longest catalog in the description of `activate_skill`, in characters; four are about one token. Clients that
    are known to truncate it get a shorter catalog. Reduce it to save context."""
    entry_limit: Annotated[int, Meta(ge=20, le=MAX_ENTRY)] = MAX_ENTRY
    """Longest entry of one skill in the catalog, in characters. A smaller limit shows more skills to clients that
    truncate the catalog."""
    serve_evals: bool = False
    """Whether clients see the eval files of skills: in `resources/list`, completions and `read_skill_file`. Switch it
    on for a client that works on evals. A model that performs a skill for skillserve never gets them."""
    enum_limit: PositiveInt = 400
    """Number of names in the enum of `activate_skill`; further active skills can be activated too. Reduce it
    for clients that reject large schemas."""


class ClientSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How texts are adapted to individual clients."""

    budgets: dict[str, PositiveInt] = field(default_factory=dict)
    """Longest catalog for individual clients, in characters, by the client's key. It overrides `[catalog] budget` and
    the known limit of the client. Set it if a client shows more, or less, than `visibility` reports."""
    server_name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    """The name under which clients have configured this server. Set it so that texts for Gemini CLI, which has a tool
    `activate_skill` of its own, can name ours exactly."""
    adapt: bool = True
    """Whether an activation lists the client's own names for the tools and files that the skill mentions, and is a link
    for clients that would ignore its text."""
    structured_results: bool = False
    """Whether results of tools have `structuredContent` beside their text for every client. Switch it on for a program
    of your own that reads it: models of many clients then see the structure instead of the text, or both. Clients that
    are known to be programs get it in any case."""
    skill_folder: SkillFolder = SkillFolder.AUTO
    """Whether an activation over stdio names the folder of the skill on this disk, where the client's own tools can run
    its scripts: `auto` names it to clients that read there as far as is known, and to clients of which nothing is known
    unless they tell roots elsewhere. Set `never` if the server has another disk than the client, as in a container, and
    `always` if a client reads more than `auto` assumes. Over HTTP the folder is never named."""
    tool_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """A client's own names for the tools that skills mention: one table for each client, by the beginning of its name,
    by its key or by `*` for all. Set it for unknown clients, or for tools of your own."""

    def __post_init__(self) -> None:
        if max(len(self.tool_names), *map(len, self.tool_names.values()), 0) > _MAX_TOOL_NAMES:
            message = f"expected at most {_MAX_TOOL_NAMES} clients, and as many names for each"
            raise InvalidValueError(message, ("tool_names",))
        for client in self.tool_names:
            if not (re.fullmatch(_CLIENT_NAME, client) and client.isprintable()):
                message = f"{client[:80]!r}: expected a client's name, up to 64 characters without < and >"
                raise InvalidValueError(message, ("tool_names",))
        for name in (name for table in self.tool_names.values() for pair in table.items() for name in pair):
            if not re.fullmatch(_TOOL_NAME, name):
                message = f"{name[:80]!r}: expected a tool's name, from 1 to 64 of A-Z a-z 0-9 _ . / : # @ -"
                raise InvalidValueError(message, ("tool_names",))

    def __hash__(self) -> int:
        # Tables are not hashable.
        return hash(self.adapt)


class SearchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Search for skills, and skills that are inserted before a message."""

    reranker: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    """A function that returns skills in its order or their similarities to a query, as `package.module:name`. Its code
    runs in the server. Set it to add a ranking of your own. It cannot be combined with `embeddings`."""
    embeddings: bool = False
    """Search by meaning too, with a small model that runs in the server. It needs the extra `embeddings`, and is
    fetched at its first use. Switch it on if users and skills have other words for the same thing."""
    embeddings_model: Annotated[str, Meta(min_length=1, max_length=1000)] = "sentence-transformers/all-MiniLM-L6-v2"
    """The model for `embeddings`: a name that the library fastembed knows, or the path of a folder with `model.onnx`
    and the files of its tokenizer, whose vectors for the words of a text are averaged. Set it for skills in other
    languages than English, or where no model can be fetched."""
    max_injected_chars: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    """Longest part of a skill's body that `with_skills` and `skill_context` insert before a message, in Unicode
    code points. Raise it if skills are truncated."""

    def __post_init__(self) -> None:
        if self.embeddings and self.reranker is not None:
            raise InvalidValueError("embeddings and reranker cannot be combined; choose one", ("embeddings",))
