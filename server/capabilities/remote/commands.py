"""The commands `verify`, `fetch` and `plugin`: skills of other servers and repositories."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.capabilities.remote.operations import RemoteOutcome, SkillResult
    from server.capabilities.remote.plugins.folder import PluginsFolder
    from server.capabilities.remote.plugins.operations import PluginResult

Url = Annotated[str, typer.Argument(metavar="URL", help="The URL of the MCP server, such as https://example.com/mcp.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Names or URIs of skills.", show_default="all skills")
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME: VALUE", help="Send this HTTP header with each request; repeatable."),
]


def verify(url: Url, names: Names = None, *, header: Headers = None, as_json: AsJson = False) -> None:
    """Verify the skills of another MCP server.

    Compares each file with the size and digest that the server publishes, and checks the rules of the format.
    """
    import anyio

    from server.capabilities.remote.operations import verify_server
    from server.wire.address import Address

    address = Address.parse(url, header or ())
    _silence_libraries()
    _print_and_exit(anyio.run(verify_server, address, names or (), _result_printer(as_json=as_json)), as_json=as_json)


def fetch(
    url: Url,
    names: Names = None,
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Create the skills' folders in this folder.")
    ] = Path(),
    force: Annotated[
        bool, typer.Option("--force", help="Replace folders that were edited, or that come from another server.")
    ] = False,
    header: Headers = None,
    as_json: AsJson = False,
) -> None:
    """Verify the skills of another MCP server and download them."""
    import anyio

    from server.capabilities.remote.operations import fetch_from
    from server.wire.address import Address

    address = Address.parse(url, header or ())
    _silence_libraries()
    run = partial(fetch_from, address, names or (), to, _result_printer(as_json=as_json), force=force)
    _print_and_exit(anyio.run(run), as_json=as_json)


def _silence_libraries() -> None:
    """Keep the logs of the SDK off the terminal: diagnostics report the failures."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)


def _result_printer(*, as_json: bool) -> Callable[[SkillResult], None]:
    from server.capabilities.remote.report import result_lines

    def print_result(result: SkillResult) -> None:
        if not as_json:
            print_text("\n".join(result_lines(result)))

    return print_result


def _print_and_exit(outcome: RemoteOutcome, *, as_json: bool) -> None:
    from server.capabilities.remote.report import outcome_object, summary

    if as_json:
        print_json(_sanitized(outcome_object(outcome)))
    else:
        for diagnostic in outcome.diagnostics:
            typer.echo(f"skillserve: {diagnostic}", err=True)
        if outcome.results:
            print_text(summary(outcome))
    if outcome.ambiguous:
        raise typer.Exit(EXIT_USAGE)
    if not outcome.succeeded:
        raise typer.Exit(EXIT_NO)


def _sanitized(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Escape the control characters in all strings: JSON leaves some of them unescaped."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {key: _sanitized(each) for key, each in value.items()}
    return [_sanitized(each) for each in value] if isinstance(value, list) else value


plugin = CommandLine(help="Manage plugins: skills that come from elsewhere.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the plugin, which is that of its folder.")]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A folder, an archive, a git repository such as https://example.com/skills.git, or an MCP server.",
    ),
]
Ref = Annotated[
    str | None,
    typer.Option(
        "--ref",
        metavar="REF",
        help="The branch, tag or whole commit ID of a git repository.",
        show_default="the repository's own choice",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
AllowInvalid = Annotated[
    bool, typer.Option("--allow-invalid", help="Install skills that break a rule, which no server then serves.")
]


@plugin.command("install")
def install(
    name: Name,
    source: Source,
    *,
    skill: Annotated[
        list[str] | None,
        typer.Option("--skill", metavar="NAME", help="Install this skill, by name or URI; repeatable. Default: all."),
    ] = None,
    ref: Ref = None,
    header: Headers = None,
    allow_invalid: AllowInvalid = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Install skills of a server, a folder, an archive or git.

    Nothing of a plugin runs, and no file is executable. Skills of a server are verified.

    The exit code is 1 if the plugin is not installed.
    """
    from server.capabilities.remote.plugins.installed import parse_origin
    from server.capabilities.remote.plugins.operations import InstallOptions, install_plugin

    origin = parse_origin(source, header or (), ref)
    options = InstallOptions(allow_invalid=allow_invalid, dry_run=dry_run)
    plugins = _plugins_folder()
    plugins.place(name)
    work = partial(install_plugin, plugins, name, origin, skill or (), options)
    _run_all({name: work}, dry_run=dry_run, as_json=as_json)


@plugin.command("update")
def update(  # noqa: PLR0913 - one parameter for each flag
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Names of plugins.", show_default="all plugins"),
    ] = None,
    *,
    address: Annotated[
        str | None,
        typer.Option(
            "--address", metavar="SOURCE", help="Update from here: the server or the files moved, or need credentials."
        ),
    ] = None,
    ref: Ref = None,
    header: Headers = None,
    allow_downgrade: Annotated[
        bool, typer.Option("--allow-downgrade", help="Accept older versions than the installed ones.")
    ] = False,
    allow_invalid: AllowInvalid = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite plugins that were edited.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Update plugins from where they came from.

    The exit code is 1 if a plugin is not updated.
    """
    from server.capabilities.remote.plugins.installed import parse_origin
    from server.capabilities.remote.plugins.operations import InstallOptions, update_plugin

    if (address or header or ref) and len(names or ()) != 1:
        fail(
            "--address, --ref and --header need exactly one NAME, so that no other server gets the credentials",
            EXIT_USAGE,
        )
    options = InstallOptions(allow_invalid=allow_invalid, allow_downgrade=allow_downgrade, force=force, dry_run=dry_run)
    plugins = _plugins_folder()
    for name in names or ():
        plugins.place(name)
    origin = parse_origin(address, header or (), ref) if address else None
    works = {
        name: partial(update_plugin, plugins, name, origin, header or (), options, ref)
        for name in names or plugins.names()
    }
    if not works and not as_json:
        print_notice("no plugin is installed")
    _run_all(works, dry_run=dry_run, as_json=as_json)


@plugin.command("list")
def list_plugins(*, as_json: AsJson = False) -> None:
    """List installed plugins, their skills and edited files."""
    from server.capabilities.remote.plugins.operations import installed_plugins
    from server.capabilities.remote.report import plugin_lines, plugins_object

    folder = _plugins_folder()
    found = installed_plugins(folder)
    if as_json:
        print_json(_sanitized(plugins_object(found)))
        return
    for each in found:
        print_text("\n".join(plugin_lines(each)))
    if not found:
        print_notice(f"no plugin is installed in {folder.root}; `skillserve plugin install SOURCE` installs one")


@plugin.command("remove")
def remove(
    name: Name,
    *,
    force: Annotated[bool, typer.Option("--force", help="Remove the plugin even if it was edited.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a plugin.

    The exit code is 1 if there is no such plugin, or if it was edited.
    """
    from server.capabilities.remote.plugins.operations import remove_plugin

    plugins = _plugins_folder()
    plugins.place(name)

    async def work() -> PluginResult:
        return remove_plugin(plugins, name, force=force)

    _run_all({name: work}, as_json=as_json)


def _plugins_folder() -> PluginsFolder:
    from server.capabilities.remote.plugins.folder import PluginsFolder
    from server.config.machine import current_places
    from skills_core.disk.sources import plugins_folder

    return PluginsFolder(plugins_folder(current_places().home))


def _run_all(
    works: Mapping[str, Callable[[], Awaitable[PluginResult]]], *, as_json: bool, dry_run: bool = False
) -> None:
    """Run the work for each plugin in turn, print the results, and exit with 1 unless all succeed."""
    import anyio

    from server.capabilities.remote.plugins.installed import PluginError
    from server.capabilities.remote.plugins.operations import PluginState, error_result
    from server.capabilities.remote.report import plugin_result_lines, results_object

    _silence_libraries()
    results = []
    for name, work in works.items():
        try:
            result = anyio.run(work)
        except PluginError as error:
            result = error_result(name, error)
        results.append(result)
        if not as_json:
            print_text("\n".join(plugin_result_lines(result, dry_run=dry_run)))
    if as_json:
        print_json(_sanitized(results_object(results, dry_run=dry_run)))
    if any(result.state is PluginState.REFUSED for result in results):
        raise typer.Exit(EXIT_NO)
