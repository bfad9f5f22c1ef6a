"""Install, update, list and remove plugins; each succeeds as a whole, or changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities.remote.plugins.folder import SkillChangeKind, compare_skills
from server.capabilities.remote.plugins.installed import PluginError, PluginReceipt, parse_origin, write_receipt
from server.capabilities.remote.plugins.staging import stage_plugin
from server.wire.address import AddressError
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.remote.installation import kind_of, named_files
from skills_core.remote.verification import shown

if TYPE_CHECKING:
    from server.capabilities.remote.plugins.folder import PluginsFolder, SkillChange
    from server.capabilities.remote.plugins.installed import PluginOrigin
    from server.capabilities.remote.plugins.staging import StagedPlugin


class PluginState(StrEnum):
    """How an operation on a plugin ended."""

    INSTALLED = "installed"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """What to accept, and whether to change anything at all.

    `allow_invalid` accepts skills that no server would serve, `allow_downgrade` older versions, and `force` the loss of
    edits. With `dry_run`, the result is that of the operation, which changes nothing.
    """

    allow_invalid: bool = False
    allow_downgrade: bool = False
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PluginResult:
    """The result for one plugin; `diagnostics` say why it was refused, and what validation found.

    `server` names its origin, and `commit` is that of a git repository.
    """

    name: str
    state: PluginState
    server: str | None = None
    folder: Path | None = None
    changes: tuple[SkillChange, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An installed plugin with the files that were edited; `problem` says why its receipt cannot be read."""

    name: str
    receipt: PluginReceipt | None = None
    edited: tuple[str, ...] = ()
    problem: str | None = None


async def install_plugin(
    plugins: PluginsFolder, name: str, origin: PluginOrigin, chosen: Sequence[str], options: InstallOptions
) -> PluginResult:
    """Install the chosen skills of an origin, or all, as a new plugin.

    Raises:
        PluginError: the name is taken or cannot be used, the origin cannot be read, or the folder of plugins cannot be
            changed.
    """
    with _access(plugins, options):
        place = plugins.place(name)
        if kind_of(place) is not None:
            server = plugins.receipt(name).server
            message = (
                f"the plugin '{name}' is installed from {server}; update it with `skillserve plugin update {name}`, "
                "or remove it first"
            )
            raise PluginError(Reason.FOLDER_TAKEN, message)
        with plugins.staging(elsewhere=options.dry_run) as staging:
            staged = await stage_plugin(origin, chosen, staging / name, place)
            refusals = (*staged.faults, *_invalid(name, staged, options))
            if refusals:
                return _refused(name, origin.shown, place, (*staged.findings, *refusals))
            uris = tuple(skill.uri for skill in staged.skills) if chosen else None
            _put(plugins, staging / name, _receipt(origin, uris, staged), options)
            changes, findings = compare_skills((), staged.skills), staged.findings
            return PluginResult(name, PluginState.INSTALLED, origin.shown, place, changes, findings, staged.commit)


async def update_plugin(
    plugins: PluginsFolder,
    name: str,
    origin: PluginOrigin | None,
    headers: Sequence[str],
    options: InstallOptions,
    ref: str | None = None,
) -> PluginResult:
    """Fetch the skills of a plugin again, from its recorded origin or another one, and install the changes.

    `ref` takes the place of the recorded branch, tag or commit.

    Raises:
        PluginError: there is no such plugin, its receipt cannot be read, or the folder of plugins cannot be changed.
        AddressError: a header or the ref is invalid, or not for this origin.
    """
    with _access(plugins, options):
        place, receipt = plugins.place(name), plugins.receipt(name)
        origin = origin or _origin_in_receipt(place, receipt, headers, ref)
        with plugins.staging(elsewhere=options.dry_run) as staging:
            staged = await stage_plugin(origin, receipt.chosen or (), staging / name, place, keep_missing=True)
            if staged.faults:
                return _refused(name, origin.shown, place, staged.faults)
            changes = compare_skills(receipt.skills, staged.skills)
            edits = plugins.edits(name, receipt)
            same = all(change.kind is SkillChangeKind.UNCHANGED for change in changes)
            known = (receipt.kind, receipt.server, receipt.ref) == (origin.kind, origin.shown, origin.ref)
            if same and known and not (edits and options.force):
                warnings = (_edited(place, edits, Severity.WARNING),) if edits else ()
                return PluginResult(name, PluginState.UNCHANGED, origin.shown, place, changes, warnings, staged.commit)
            refusals = [*_downgrades(changes, options), *_invalid(name, staged, options)]
            if edits and not options.force:
                refusals.append(_edited(place, edits, Severity.ERROR))
            if refusals:
                found = (*staged.findings, *refusals)
                return replace(_refused(name, origin.shown, place, found), changes=changes)
            _put(plugins, staging / name, _receipt(origin, receipt.chosen, staged, receipt.installed), options)
            findings = staged.findings
            return PluginResult(name, PluginState.UPDATED, origin.shown, place, changes, findings, staged.commit)


def _receipt(
    origin: PluginOrigin, chosen: tuple[str, ...] | None, staged: StagedPlugin, installed: str | None = None
) -> PluginReceipt:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return PluginReceipt(
        origin.shown,
        chosen,
        installed or now,
        now,
        staged.skills,
        staged.files,
        kind=origin.kind,
        ref=origin.ref,
        commit=staged.commit,
    )


def remove_plugin(plugins: PluginsFolder, name: str, *, force: bool = False) -> PluginResult:
    """Remove a plugin that skillserve installed.

    Raises:
        PluginError: there is no such plugin, its receipt cannot be read, or the folder of plugins cannot be changed.
    """
    with plugins.changing():
        place, receipt = plugins.place(name), plugins.receipt(name)
        edits = plugins.edits(name, receipt)
        if edits and not force:
            return _refused(name, receipt.server, place, (_edited(place, edits, Severity.ERROR),))
        plugins.remove(name)
        return PluginResult(name, PluginState.REMOVED, receipt.server, place, compare_skills(receipt.skills, ()))


def installed_plugins(plugins: PluginsFolder) -> tuple[InstalledPlugin, ...]:
    """Return the plugins that skillserve installed, by name."""
    found: list[InstalledPlugin] = []
    for name in plugins.names():
        try:
            receipt = plugins.receipt(name)
            found.append(InstalledPlugin(name, receipt, tuple(plugins.edits(name, receipt))))
        except PluginError as error:
            found.append(InstalledPlugin(name, problem=error.message))
    return tuple(found)


def _origin_in_receipt(place: Path, receipt: PluginReceipt, headers: Sequence[str], ref: str | None) -> PluginOrigin:
    try:
        parse_origin(receipt.server, ref=receipt.ref, kind=receipt.kind)
    except AddressError as error:
        raise PluginError(Reason.UNREADABLE, f"{place}: the recorded server is not usable: {error}") from None
    return parse_origin(receipt.server, headers, ref or receipt.ref, receipt.kind)


def _access(plugins: PluginsFolder, options: InstallOptions) -> AbstractContextManager[None]:
    return nullcontext() if options.dry_run else plugins.changing()


def _put(plugins: PluginsFolder, staged: Path, receipt: PluginReceipt, options: InstallOptions) -> None:
    if not options.dry_run:
        write_receipt(staged, receipt)
        plugins.put(staged, staged.name)


def error_result(name: str, error: PluginError) -> PluginResult:
    """Return the result for a plugin whose operation failed with an error."""
    fault = Diagnostic(Severity.ERROR, error.reason, error.message, name)
    return PluginResult(name, PluginState.REFUSED, diagnostics=(fault,))


def _refused(name: str, server: str, place: Path, diagnostics: tuple[Diagnostic, ...]) -> PluginResult:
    return PluginResult(name, PluginState.REFUSED, server, place, diagnostics=diagnostics)


def _invalid(name: str, staged: StagedPlugin, options: InstallOptions) -> list[Diagnostic]:
    if not staged.invalid or options.allow_invalid:
        return []
    message = (
        f"no server would serve {', '.join(map(shown, staged.invalid[:5]))}: the rules for plugins are strict; "
        "choose other skills, or accept these with --allow-invalid"
    )
    return [Diagnostic(Severity.ERROR, Reason.INVALID_SKILL, message, name)]


def _downgrades(changes: Sequence[SkillChange], options: InstallOptions) -> list[Diagnostic]:
    if options.allow_downgrade:
        return []
    return [
        Diagnostic(
            Severity.ERROR,
            Reason.OLDER_VERSION,
            f"there is version {change.after.version}, older than the installed {change.before.version}; "
            "accept it with --allow-downgrade",
            shown(change.skill.uri),
        )
        for change in changes
        if change.is_downgrade and change.before and change.after
    ]


def _edited(place: Path, edits: Sequence[str], severity: Severity) -> Diagnostic:
    message = f"edited since it was installed: {named_files(edits)}"
    if severity is Severity.ERROR:
        message += "; overwrite with --force, or keep a copy elsewhere first"
    return Diagnostic(severity, Reason.EDITED_COPY, message, printable(str(place)))
