from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from server.access import LOCAL, Principal, PrincipalKind, principal_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

ANNA = Principal("anna", PrincipalKind.JWT, frozenset({"editor"}))


def context(request: object) -> ServerRequestContext[Any, Any]:
    return cast("ServerRequestContext[Any, Any]", SimpleNamespace(request=request))


def with_user(user: object) -> ServerRequestContext[Any, Any]:
    return context(SimpleNamespace(scope={"user": user}))


def test_stdio_and_servers_without_login_have_the_local_principal() -> None:
    assert principal_of(context(None)) is LOCAL
    assert principal_of(context(SimpleNamespace(scope={}))) is LOCAL


def test_the_principal_of_the_requests_own_token_counts() -> None:
    assert principal_of(with_user(SimpleNamespace(access_token=SimpleNamespace(principal=ANNA)))) is ANNA


@pytest.mark.parametrize("user", [None, "anna", SimpleNamespace(access_token=None), SimpleNamespace(principal=ANNA)])
def test_what_the_login_did_not_leave_is_no_principal(user: object) -> None:
    assert principal_of(with_user(user)) is LOCAL
