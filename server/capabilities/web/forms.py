"""Forms of the page: small, sent by the page itself, and with the token that it gave to its visitor."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from starlette.requests import Request

TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
"""The field of a form with its visitor's token."""

_MAX_BODY: Final = 64 * 1024
_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_BACK: Final = 1000


class PageFormError(SkillsError):
    """A form is not one of the page, or too large."""


async def read_form(request: Request, token: str | None) -> Mapping[str, str]:
    """Return the fields of a form, the last one of each name; with `token` None, it is a form for strangers.

    Raises:
        PageFormError: it is not a form of the page that was shown to the visitor with `token`.
    """
    if not _is_of_page(request):
        raise PageFormError("this form was not sent by a page of this server")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise PageFormError("expected a form of this page")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise PageFormError(f"a form has at most {_MAX_BODY:,} bytes")
    try:
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise PageFormError("a form has at most 100 fields") from None
    given = fields.pop(TOKEN_FIELD, "")
    if token is not None and (not token or not hmac.compare_digest(given.encode(), token.encode())):
        raise PageFormError("the form is not one of the page that you were shown, or too old; load the page again")
    return fields


def _is_of_page(request: Request) -> bool:
    """Tell whether a browser says that a page of this server sent the request.

    Pages of `http.allowed_origins` may call the MCP endpoint, and send no forms.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    # Browsers leave the header out where there is no TLS, but for this machine.
    try:
        origin = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:
        return False
    return bool(origin) and origin == request.headers.get("host")


def is_part_elsewhere(request: Request) -> bool:
    """Tell whether a browser says that it asks for a part of a page of another site, such as a picture or a frame.

    That site could not read the answer, but it could keep the server busy. Links from there are followed.
    """
    if request.headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
        return False
    is_followed = request.headers.get("sec-fetch-mode") == "navigate"
    return not is_followed or request.headers.get("sec-fetch-dest", "document") != "document"


def own_address(address: str) -> str:
    """Return an address if it is a path of this server, and not one that begins or ends a session; else `/`."""
    is_path = address.startswith("/") and not address.startswith("//") and len(address) <= _MAX_BACK
    is_plain = address.isascii() and address.isprintable() and not {"\\", " "} & {*address}
    is_of_login = address.startswith(("/page/log", "/page/enter"))
    return address if is_path and is_plain and not is_of_login else "/"
