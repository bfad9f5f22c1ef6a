"""The one table from our exceptions to JSON-RPC errors.

All other exceptions become an internal error without their text, which goes to the log only.
"""

from __future__ import annotations

import logging

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from server.wire.paging import InvalidCursorError
from server.wire.params import InvalidRequestError
from skills_core.errors import (
    AmbiguousSkillError,
    EntryRefusedError,
    EvalFileError,
    FileRefusedError,
    FileUnavailableError,
    HistoryError,
    InstallRefusedError,
    InvalidFrontmatterError,
    InvalidPatternError,
    InvalidRecordError,
    InvalidSchemaError,
    InvalidSkillError,
    InvalidSkillsRootError,
    InvalidSourceError,
    InvalidTimeError,
    MissingFieldError,
    NestedTooDeepError,
    ScriptRefusedError,
    SkillChangedError,
    SkillEditedError,
    SkillIoError,
    SkillsError,
    SkillYamlError,
    ToolFailedError,
    UnansweredError,
    UnknownFileError,
    UnknownSkillError,
)
from skills_core.runs.workflow.faults import InvalidWorkflowError

logger = logging.getLogger(__name__)


CODES: dict[type[SkillsError], int] = {
    InvalidRequestError: INVALID_PARAMS,
    InvalidCursorError: INVALID_PARAMS,
    UnknownSkillError: INVALID_PARAMS,
    AmbiguousSkillError: INVALID_PARAMS,
    UnknownFileError: INVALID_PARAMS,
    EvalFileError: INVALID_PARAMS,
    FileRefusedError: INVALID_PARAMS,
    NestedTooDeepError: INVALID_PARAMS,
    ScriptRefusedError: INVALID_PARAMS,
    InvalidWorkflowError: INVALID_PARAMS,
    InvalidTimeError: INVALID_PARAMS,
    HistoryError: INVALID_PARAMS,
    SkillEditedError: INVALID_PARAMS,
    # The request is valid, but the system cannot read the file now.
    FileUnavailableError: INTERNAL_ERROR,
    InvalidSourceError: INTERNAL_ERROR,
    # Requests name skills that are loaded, so it is not the request's fault if one cannot be read.
    InvalidSkillError: INTERNAL_ERROR,
    SkillIoError: INTERNAL_ERROR,
    SkillYamlError: INTERNAL_ERROR,
    InvalidFrontmatterError: INTERNAL_ERROR,
    InvalidPatternError: INTERNAL_ERROR,
    InvalidSchemaError: INTERNAL_ERROR,
    MissingFieldError: INTERNAL_ERROR,
    InvalidSkillsRootError: INTERNAL_ERROR,
    EntryRefusedError: INTERNAL_ERROR,
    InstallRefusedError: INTERNAL_ERROR,
    ToolFailedError: INTERNAL_ERROR,
    UnansweredError: INTERNAL_ERROR,
    SkillChangedError: INTERNAL_ERROR,
    InvalidRecordError: INTERNAL_ERROR,
}


def code_of(error: SkillsError) -> int:
    """Return the JSON-RPC code for one of our exceptions."""
    return CODES.get(type(error), INTERNAL_ERROR)


def protocol_error(error: Exception, method: str) -> Exception:
    """Return an exception of a handler of `method` as a JSON-RPC error; the SDK translates its own."""
    if isinstance(error, MCPError | ValidationError):
        return error
    if isinstance(error, SkillsError):
        uri = getattr(error, "uri", None)
        return MCPError(code_of(error), str(error), {"uri": uri} if uri else None)
    logger.error("the handler of %s failed", method, exc_info=error)
    return MCPError(INTERNAL_ERROR, "Internal server error")
