"""Deliver the result of a run: to a command's standard input, or to a webhook.

Both addresses come from the user's settings alone. Delivery is repeated if the process that delivers is killed, so
receivers should use the ID of the run to drop duplicates.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import timedelta
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any, Final

import anyio

from skills_core.diagnostics import Reason
from skills_core.scripts.process import OWN_SESSION, kill_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyio.abc import Process

    from server.capabilities.schedules.binding import ScheduledRun
    from server.capabilities.schedules.settings import ScheduleSettings
    from skills_core.format.yaml12 import JsonValue


RETRY_AFTER: Final = timedelta(minutes=5)
"""Another process delivers a result that has waited for this long."""

_ATTEMPTS: Final = 3
PAUSES: Final = (1.0, 4.0)
"""Seconds before the second and the third post to a webhook."""

_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "USERPROFILE")
# A command that delivers gets no other variables: the rest of the environment may hold the keys of models.


async def deliver(
    settings: ScheduleSettings,
    name: str,
    run: ScheduledRun,
    outcome: Mapping[str, JsonValue],
    improvements: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Deliver a result, with the changes of skills that the run led to, by all ways that are set.

    Return what failed, empty if nothing did.
    """
    payload = json.dumps(
        {
            "schedule": name,
            "run_id": run.id,
            "fired_at": run.fired_at.isoformat(),
            "ended_at": run.ended_at.isoformat(),
            "status": run.status,
            "problem": run.problem,
            "message": run.message,
            "notice": run.notice,
            "output": outcome.get("output", ""),
            "improvements": [*improvements],
        },
        ensure_ascii=False,
    ).encode("utf-8", errors="replace")
    faults = []
    if settings.command and (fault := await _by_command(settings, payload)):
        faults.append(f"command {settings.command[0]}: {fault}")
    if settings.webhook is not None and (fault := await _by_webhook(settings, payload)):
        faults.append(f"webhook: {fault}")
    return "; ".join(faults)


async def _by_command(settings: ScheduleSettings, payload: bytes) -> str:
    """Start the command once: it may have done a part of its work when it fails."""
    environment = {key: value for key in _PASSED if (value := os.environ.get(key)) is not None}
    try:
        code = await _exit_code(settings.command, environment, payload, settings.delivery_seconds)
    except TimeoutError:
        return f"it took longer than {settings.delivery_seconds} seconds"
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "" if code == 0 else f"it ended with exit code {code}"


async def _exit_code(command: Sequence[str], environment: Mapping[str, str], payload: bytes, seconds: int) -> int:
    """Pass the payload to a command, and return its exit code; a command that is late is killed with its children."""
    quiet: Any = {"stdout": DEVNULL, "stderr": DEVNULL, **OWN_SESSION}
    async with await anyio.open_process([*command], env=environment, **quiet) as process:
        try:
            with anyio.fail_after(seconds):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_feed, process, payload)
                    code = await process.wait()
                    tasks.cancel_scope.cancel()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await kill_all(process.pid)
            raise
        return code


async def _feed(process: Process, payload: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    # A command may end without reading.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(payload)
        await process.stdin.aclose()


async def _by_webhook(settings: ScheduleSettings, payload: bytes) -> str:
    assert settings.webhook is not None  # noqa: S101 - the caller has checked it
    fault = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            await anyio.sleep(PAUSES[attempt - 1])
        fault, is_final = await _post(settings.webhook.get_secret_value(), settings.delivery_seconds, payload)
        if is_final:
            break
    return fault


async def _post(url: str, seconds: int, payload: bytes) -> tuple[str, bool]:
    """Post once; return what failed, and whether a further attempt is useless. Redirects are not followed."""
    from server.wire.address import Address, AddressError
    from server.wire.http_client import HttpCallError, HttpCalls

    try:
        async with HttpCalls(seconds, max_bytes=0) as calls:
            headers = {"Content-Type": "application/json"}
            status = (await calls.send("POST", Address.parse(url), headers=headers, content=payload)).status
    except HttpCallError as error:
        if error.reason is Reason.TIMED_OUT:
            return f"no answer within {seconds} seconds", False
        # The text of the error may hold the address, which may hold a secret.
        return f"the address cannot be reached ({error.error_type})", False
    except AddressError as error:
        return f"the address cannot be reached ({type(error).__name__})", False
    if 200 <= status < 300:  # noqa: PLR2004 - the range of success
        return "", True
    return f"the answer has status {status}", status < 500 and status not in {408, 429}  # noqa: PLR2004 - worth a retry
