"""Reports on fetched, verified and installed skills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from server.capabilities.remote.operations import Fetched
from server.capabilities.remote.plugins.folder import SkillChangeKind
from server.capabilities.remote.plugins.operations import PluginState
from server.hosting.status import advised_diagnostic, diagnostic_lines, diagnostic_object
from skills_core.diagnostics import one_line, printable
from skills_core.remote.installation import named_files
from skills_core.remote.verification import shown

if TYPE_CHECKING:
    from server.capabilities.remote.operations import RemoteOutcome, SkillResult
    from server.capabilities.remote.plugins.folder import SkillChange
    from server.capabilities.remote.plugins.installed import SkillReceipt
    from server.capabilities.remote.plugins.operations import InstalledPlugin, PluginResult
    from server.capabilities.remote.skills import RemoteSkill


def result_lines(result: SkillResult) -> list[str]:
    """Return the lines for one skill: its result, then one line for each diagnostic."""
    skill = _skill_of(result)
    count, size = _count_and_size(skill)
    name = shown(skill.name or skill.uri or "a skill without a name")
    if isinstance(result, Fetched):
        state, place = result.state, f" to {one_line(result.folder)}" if result.folder else ""
    else:
        state, place = "ok" if result.valid else "failed", ""
    extent = f" ({count} file{'' if count == 1 else 's'}, {size} bytes)" if result.valid else ""
    return [f"{state} {name}{place}{extent}", *(f"  {diagnostic}" for diagnostic in result.diagnostics)]


def summary(outcome: RemoteOutcome) -> str:
    """Return the summary line."""
    count = len(outcome.results)
    skills = f"{count} skill{'' if count == 1 else 's'} of {outcome.server}"
    verified = sum(_skill_of(result).valid for result in outcome.results)
    if any(isinstance(result, Fetched) for result in outcome.results):
        fetched = sum(result.valid for result in outcome.results)
        return f"{skills}: {verified} verified, {fetched} fetched, {count - fetched} refused"
    return f"{skills}: {verified} verified, {count - verified} failed"


def outcome_object(outcome: RemoteOutcome) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    return {
        "server": outcome.server,
        "protocol": outcome.protocol,
        "skills": [_result_object(result) for result in outcome.results],
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in outcome.diagnostics],
    }


def _result_object(result: SkillResult) -> dict[str, Any]:
    skill = _skill_of(result)
    count, size = _count_and_size(skill)
    document = {
        # An invalid URI or name may be of any length.
        "uri": skill.uri if skill.entry else shown(skill.uri),
        "name": skill.name if skill.entry else shown(skill.name),
        "verified": skill.valid,
        "files": count,
        "bytes": size,
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in result.diagnostics],
    }
    if isinstance(result, Fetched):
        document |= {"state": result.state, "folder": result.folder}
    return document


def _skill_of(result: SkillResult) -> RemoteSkill:
    return result.skill if isinstance(result, Fetched) else result


def _count_and_size(skill: RemoteSkill) -> tuple[int, int]:
    return (len(skill.entry.files), skill.entry.size) if skill.entry else (0, 0)


def plugin_result_lines(result: PluginResult, *, dry_run: bool) -> list[str]:
    """Return the lines for one plugin: its result, then one line for each skill and each diagnostic."""
    state = f"would be {result.state}" if dry_run and result.state is not PluginState.REFUSED else result.state.value
    return [
        f"{state} {result.name}" + (f" ({_origin(result.server, result.commit)})" if result.server else ""),
        *(f"  {_change_text(change)}" for change in result.changes),
        *(f"  {line}" for diagnostic in result.diagnostics for line in diagnostic_lines(diagnostic)),
    ]


def results_object(results: Iterable[PluginResult], *, dry_run: bool) -> dict[str, Any]:
    """Return the object that `install`, `update` and `remove` print with `--json`."""
    plugins = [
        {
            "name": result.name,
            "state": result.state.value,
            "server": result.server,
            "commit": result.commit,
            "folder": result.folder and printable(str(result.folder)),
            "skills": [_change_object(change) for change in result.changes],
            "diagnostics": [advised_diagnostic(diagnostic) for diagnostic in result.diagnostics],
        }
        for result in results
    ]
    return {"plugins": plugins, "dry_run": dry_run}


def plugin_lines(plugin: InstalledPlugin) -> list[str]:
    """Return the lines of `list` for one plugin."""
    receipt = plugin.receipt
    if receipt is None:
        return [one_line(f"{plugin.name}: {plugin.problem}")]
    return [
        f"{plugin.name} ({_origin(receipt.server, receipt.commit)}), updated {one_line(receipt.updated)}",
        *(f"  {shown(skill.name)} {shown(skill.version or '')}".rstrip() for skill in receipt.skills),
        *([f"  edited: {named_files(plugin.edited)}"] if plugin.edited else []),
    ]


def plugins_object(plugins: Iterable[InstalledPlugin]) -> dict[str, Any]:
    """Return the object that `list` prints with `--json`."""
    return {"plugins": [_plugin_object(plugin) for plugin in plugins]}


def _plugin_object(plugin: InstalledPlugin) -> dict[str, Any]:
    receipt = plugin.receipt
    return {
        "name": plugin.name,
        "server": receipt and receipt.server,
        "kind": receipt and receipt.kind.value,
        "ref": receipt and receipt.ref,
        "commit": receipt and receipt.commit,
        "installed": receipt and receipt.installed,
        "updated": receipt and receipt.updated,
        "skills": [_skill_object(skill) for skill in receipt.skills] if receipt else [],
        "edited": list(plugin.edited),
        "problem": plugin.problem,
    }


def _skill_object(skill: SkillReceipt) -> dict[str, Any]:
    return {"uri": skill.uri, "name": skill.name, "version": skill.version, "folder": skill.folder}


def _change_object(change: SkillChange) -> dict[str, Any]:
    before = change.before.version if change.before else None
    return {
        **_skill_object(change.skill),
        "state": change.kind.value,
        "version": change.after.version if change.after else None,
        "previous_version": before,
    }


def _origin(server: str, commit: str | None) -> str:
    return one_line(f"{server} at {commit[:12]}" if commit else server)


def _change_text(change: SkillChange) -> str:
    """Return the line for a skill, with its versions, as in `updated refunds 1.0.0 → 1.1.0`."""
    before, after = (shown(each.version or "without version") if each else "" for each in (change.before, change.after))
    if change.kind is SkillChangeKind.UPDATED:
        return f"{change.kind} {shown(change.skill.name)} {before} → {after}"
    return f"{change.kind} {shown(change.skill.name)} {shown(change.skill.version or '')}".rstrip()
