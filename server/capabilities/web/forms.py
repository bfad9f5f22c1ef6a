"""Forms of the page: small, and with the token that the page gave to its visitor."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from starlette.requests import Request

TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
"""The field of a form with its visitor's token."""

_MAX_BODY: Final = 64 * 1024
_TYPE: Final = "application/x-www-form-urlencoded"


class FormError(SkillsError):
    """A form is not one of the page, or too large."""


async def read_form(request: Request, token: str) -> Mapping[str, str]:
    """Return the fields of a form, the last one of each name.

    Raises:
        FormError: it is not a form of the page that was shown to the visitor with `token`.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise FormError("expected a form of this page")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise FormError(f"a form has at most {_MAX_BODY:,} bytes")
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))
    given = fields.pop(TOKEN_FIELD, "")
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        raise FormError("the form is not one of the page that you were shown, or too old; load the page again")
    return fields
