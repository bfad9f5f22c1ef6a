"""The error of a request whose parameters are invalid, apart from `errors`, which imports the SDK."""

from __future__ import annotations

from skills_core.errors import SkillsError

__all__ = ["InvalidRequestError"]


class InvalidRequestError(SkillsError):
    """The parameters of a request are invalid; the message says what was expected, `uri` names a resource not found."""

    def __init__(self, message: str, uri: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri
