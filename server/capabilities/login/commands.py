"""The command `token`: manage the static tokens with which clients log in over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson
from server.cli.console import EXIT_NO, EXIT_USAGE, fail, print_json, print_notice, print_text
from server.cli.help_pages import CommandLine
from server.requests import CommandRecord
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from server.capabilities.login.static_tokens import StoredToken, TokenFile


token = CommandLine(help="Manage the tokens with which clients log in over HTTP.", no_args_is_help=True)


@token.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the user or service of the token.")],
    *,
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the token; repeatable.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Refuse the token after this span, as in 12h, 90d.", show_default="never"),
    ] = None,
) -> CommandRecord:
    """Create a token and print it.

    Only a hash of the token is stored, so it cannot be shown again.
    """
    from server.capabilities.login.static_tokens import is_name

    roles = tuple(dict.fromkeys(role or ()))
    for text in (name, *roles):
        if not is_name(text):
            fail(
                f"{text!r}: expected up to 64 letters, digits and . _ @ -, beginning with a letter or digit", EXIT_USAGE
            )
    print_text(_file().add(name, roles, _end_of(expires)))
    print_notice("store this token now: it cannot be shown again")
    for note in _notes(roles):
        print_notice(note)
    return CommandRecord("token_added", name)


@token.command("list")
def list_tokens(*, as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    now = datetime.now(UTC)
    file = _file()
    found = [_row(each, now) for each in file.tokens()]
    if as_json:
        print_json({"tokens": found})
        return
    if not found:
        print_notice(f"there is no token in {file.path}; `skillserve token add NAME` makes one")
    for row in found:
        end = f"{'expired' if row['expired'] else 'expires'} {row['expires']}" if row["expires"] else "does not expire"
        print_text(f"{row['id']}  {row['name']}  roles: {', '.join(row['roles']) or 'none'}  {end}")


@token.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name or ID of the token.")],
) -> CommandRecord:
    """Remove a token; running servers refuse it about a second later."""
    if not _file().revoke(name):
        fail(f"there is no token {name}; `skillserve token list` shows the tokens", EXIT_NO)
    print_text(f"revoked: {name}")
    return CommandRecord("token_revoked", name)


def _notes(roles: Iterable[str]) -> Iterator[str]:
    """Yield why a new token may not do what it is made for, as far as the settings of this user tell."""
    from server.capabilities.login.settings import LoginSettings
    from server.config.bootstrap import user_settings
    from server.config.machine import Machine, current_places

    try:
        settings = user_settings(Machine(current_places()), {})
    except SkillsError:
        # The token is made, and a server does not start with these settings.
        return
    if not settings.section(LoginSettings).tokens:
        yield "servers with your settings accept no tokens yet: set tokens = true in the section [login]"
    known = settings.access.roles
    for role in roles:
        if known and role not in known:
            yield f"the settings have no role {role}, but {', '.join(sorted(known))}"


def _file() -> TokenFile:
    from server.capabilities.login.static_tokens import TokenFile
    from server.config.machine import tokens_file

    return TokenFile(tokens_file())


def _end_of(span: str | None) -> datetime | None:
    if span is None:
        return None
    import re

    from skills_core.errors import InvalidTimeError
    from skills_core.schedules.parsing import COMPACT, compact_span

    wrong = f"--expires {span!r}: expected a span such as 12h or 90d"
    if not re.fullmatch(COMPACT, span, re.ASCII | re.IGNORECASE):
        fail(wrong, EXIT_USAGE)
    try:
        return (datetime.now(UTC) + compact_span(span)).replace(microsecond=0)
    except (InvalidTimeError, OverflowError):
        fail(wrong, EXIT_USAGE)


def _row(each: StoredToken, now: datetime) -> dict[str, Any]:
    return {
        "id": each.id,
        "name": each.name,
        "roles": [*each.roles],
        "created": _time(each.created),
        "expires": _time(each.expires) if each.expires else None,
        "expired": each.is_expired(now),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
