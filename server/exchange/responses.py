"""The responses to a tool call whose work is not over: questions for the client, or instructions for its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from server.wire.arguments import CONFIRM, CONTINUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.exchange.client_exchange import Question

__all__ = ["input_required", "needs_consent", "not_finished"]


def input_required(questions: Mapping[str, Question], request_state: str) -> dict[str, Any]:
    """Ask the client, which makes the same call again with its answers and the state."""
    requests = {
        key: question.request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, question in questions.items()
    }
    return {"resultType": "input_required", "inputRequests": requests, "requestState": request_state}


def not_finished(tool: str, token: str, seconds: float) -> dict[str, Any]:
    """Ask the client's model to call again, because the client may not be asked more often in one call."""
    text = (
        "The run has not finished: it has asked this client as many times as one call allows. To continue, call "
        f'{tool} with {{"{CONTINUE}": "{token}"}} within {seconds:g} seconds.'
    )
    structured = {"status": "not_finished", CONTINUE: token}
    return {**tool_result([text_block(text)]), "structuredContent": structured}


def needs_consent(tool: str, question: str, yes: str, no: str, seconds: float) -> dict[str, Any]:
    """Ask the client's model to get the user's consent and to call again with the token for the answer."""
    text = (
        f"The run needs the user's consent. Show the user the following and ask; do not decide it yourself.\n\n"
        f"{question}\n\n"
        f'If the user agrees, call {tool} with {{"{CONFIRM}": "{yes}"}}. If not, call it with '
        f'{{"{CONTINUE}": "{no}"}}. The run waits {seconds:g} seconds.'
    )
    structured = {"status": "needs_consent", "question": question, CONFIRM: yes, CONTINUE: no}
    return {**tool_result([text_block(text)]), "structuredContent": structured}
