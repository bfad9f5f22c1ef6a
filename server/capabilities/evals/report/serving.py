"""Serve the report on loopback, and save the feedback that is written there.

Other pages in the browser and other users of the machine must neither read the report nor write feedback. So the server
listens on 127.0.0.1 alone, on a port that the system chooses; the path begins with a random token; each request must
name this very host, and each write must come from this very origin. The only file that it writes is `feedback.json` of
the newest iteration.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from server.capabilities.evals.report.details import case_details
from server.capabilities.evals.report.details import json_bytes as part_bytes
from server.capabilities.evals.report.folder import WorkspaceFolder
from server.capabilities.evals.report.model import feedback_version
from server.capabilities.evals.report.page import content_policy
from server.capabilities.evals.report.workspace import ReadCase, read_case, read_workspace
from server.capabilities.evals.report.writing import REPORT_FILE, current_page
from server.capabilities.evals.workspace import work_runs
from skills_core.disk.files import Location, Reader
from skills_core.disk.writing import json_bytes, write_file
from skills_core.errors import SkillsError
from skills_core.evals.feedback import FEEDBACK_FILE, with_words

if TYPE_CHECKING:
    from starlette.requests import Request

    Endpoint = Callable[[Request], Awaitable[Response]]


class FeedbackError(SkillsError):
    """Feedback cannot be saved."""


class FeedbackChangedError(FeedbackError):
    """The feedback on a case has changed since it was shown; `current` is what it is."""

    def __init__(self, current: str) -> None:
        """Name what would have been overwritten."""
        super().__init__("the feedback on this case was changed elsewhere, for example in another tab")
        self.current = current


def save_feedback(workspace: Path, iteration: str, case: str, words: str, outputs: str = "", run: str = "") -> None:
    """Write the words on one case into the feedback of an iteration, and keep all others.

    `outputs` is the digest of the outputs that they are about, empty if it is unknown, and `run` the ID that
    skill-creator gives the run that its viewer shows them for.

    Raises:
        FeedbackError: the existing file is not one of feedback, or the file cannot be written.
    """
    relative = f"{iteration}/{FEEDBACK_FILE}".lstrip("/")
    kept = _existing(workspace, relative)
    try:
        write_file(Location(workspace, relative), json_bytes(with_words(kept, case, words, outputs, run)))
    except SkillsError as error:
        raise FeedbackError(f"the feedback was not saved: {error}") from None


def _existing(workspace: Path, relative: str) -> Mapping[str, Any]:
    with Reader() as reader:
        folder = WorkspaceFolder(workspace, reader)
        value = folder.json(relative)
    if folder.problems or not (value is None or isinstance(value, dict)):
        reason = "; ".join(folder.problems) or f"{relative}: not a JSON object"
        raise FeedbackError(f"the feedback was not saved, because what is there cannot be read: {reason}")
    return value or {}


_MAX_BODY: Final = 256 * 1024
# A text of 20,000 characters takes at most half of it as JSON.

MAX_FEEDBACK: Final = 20_000
"""Characters of the feedback on one case."""

_DIGEST: Final = re.compile(r"(sha256:[0-9a-f]{64})?")

_MAX_FILES = 50_000
# Files whose times are compared to notice new results.

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without an own origin in the referrer, a browser would send `Origin: null` with a write.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ReportServer:
    """The server of one workspace; `url` is where its page is."""

    def __init__(self, root: Path, port: int = 0) -> None:
        """Listen on a port of loopback; 0 lets the system choose.

        Raises:
            OSError: the system does not allow it.
        """
        self._root = root
        self._token = secrets.token_urlsafe(24)
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._listener.bind(("127.0.0.1", port))
        except OSError:
            self._listener.close()
            raise
        self._host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._saving = anyio.Lock()
        self.app = Starlette(
            routes=[
                Route("/{token}/", self._guarded(self._page), methods=["GET"]),
                Route("/{token}/case", self._guarded(self._case), methods=["GET"]),
                Route("/{token}/state", self._guarded(self._state), methods=["GET"]),
                Route("/{token}/feedback", self._guarded(self._feedback, writes=True), methods=["POST"]),
            ]
        )

    @property
    def url(self) -> str:
        """The address of the page, with its secret."""
        return f"http://{self._host}/{self._token}/"

    def serve(self, started: Callable[[], object] = lambda: None) -> None:
        """Serve until a signal ends it; `started` is called when the server listens."""
        config = uvicorn.Config(
            self.app, ws="none", log_config=None, access_log=False, lifespan="off", server_header=False
        )
        self._listener.listen(64)
        try:
            # Connections that come before the first accept wait in the listener's queue.
            started()
            uvicorn.Server(config).run(sockets=[self._listener])
        finally:
            self.close()

    def close(self) -> None:
        """Give the port back."""
        self._listener.close()

    def _guarded(self, endpoint: Endpoint, *, writes: bool = False) -> Endpoint:
        async def guarded(request: Request) -> Response:
            fault = self._fault(request, writes=writes)
            response = _refusal(*fault) if fault else await endpoint(request)
            response.headers.update(_HEADERS)
            return response

        return guarded

    def _fault(self, request: Request, *, writes: bool) -> tuple[str, int] | None:
        """Say why a request is refused; None if it is accepted."""
        token = request.path_params["token"].encode("utf-8", "replace")
        if request.headers.getlist("host") != [self._host]:
            return f"this server answers requests for http://{self._host} alone", 421
        if not hmac.compare_digest(token, self._token.encode()):
            return "the address is not complete; open the one that the command printed", 403
        origins, own = request.headers.getlist("origin"), [f"http://{self._host}"]
        if origins != own and (writes or origins):
            return "another page sent this request", 403
        if writes and request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return "expected the content type application/json", 415
        return None

    async def _page(self, _: Request) -> Response:
        try:
            page = await anyio.to_thread.run_sync(self._render)
        except SkillsError as error:
            return _refusal(str(error), 404)
        policy = f"{content_policy(served=True)}; frame-ancestors 'none'"
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    def _render(self) -> str:
        return current_page(read_workspace(self._root, details=False), served=True, running=work_runs(self._root))

    async def _case(self, request: Request) -> Response:
        key = request.query_params.get("key", "")
        try:
            details = await anyio.to_thread.run_sync(_details_of, self._root, key)
        except SkillsError as error:
            return _refusal(str(error), 404)
        if details is None:
            return _refusal(f"there is no case {key[:100]!r} in the newest iteration; load the page again", 404)
        return Response(part_bytes(details), media_type="application/json")

    async def _state(self, _: Request) -> Response:
        return JSONResponse({"state": await anyio.to_thread.run_sync(_state_of, self._root)})

    async def _feedback(self, request: Request) -> Response:
        try:
            sent = _parsed(await _body(request))
            async with self._saving:
                await anyio.to_thread.run_sync(self._save, sent)
        except ValueError as error:
            return _refusal(str(error), 400)
        except FeedbackChangedError as error:
            found = {"feedback": error.current, "version": feedback_version(error.current)}
            return JSONResponse({"error": str(error), **found}, 409)
        except FeedbackError as error:
            return _refusal(str(error), 409)
        except SkillsError as error:
            return _refusal(str(error), 404)
        return JSONResponse({"saved": sent.case, "version": feedback_version(sent.feedback)})

    def _save(self, sent: _Sent) -> None:
        found = read_case(self._root, sent.case)
        if found is None:
            raise FeedbackError(f"there is no case {sent.case[:100]!r} in the newest iteration; load the page again")
        current = found.case.feedback
        # The same text twice is not a conflict: a click saves what leaving the field has saved.
        if feedback_version(current) not in {sent.version, feedback_version(sent.feedback)}:
            raise FeedbackChangedError(current or "")
        outputs = sent.outputs or found.case.outputs_digest
        folder = found.iteration.folder
        save_feedback(self._root, folder, sent.case, sent.feedback, outputs, _review_id(folder, found))


def _review_id(folder: str, found: ReadCase) -> str:
    """Return the ID of the first run of the skill's arm as skill-creator makes it: its path in the iteration."""
    paths = [run.path.removeprefix(f"{folder}/") for run in found.case.of(found.iteration.subject) if run.path]
    return paths[0].replace("/", "-") if paths else ""


def _details_of(root: Path, key: str) -> Mapping[str, Any] | None:
    found = read_case(root, key)
    return case_details(found.iteration, found.case, found.earlier) if found else None


class _Sent(NamedTuple):
    """The words on a case, the version of those that its page has shown before, and the digest of the shown outputs.

    Outputs may be replaced while a person reads them; the words are about those that were read.
    """

    case: str
    feedback: str
    version: str
    outputs: str


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise ValueError(f"feedback has at most {MAX_FEEDBACK:,} characters")
    return body


def _parsed(body: bytes) -> _Sent:
    expected = 'expected {"case": TEXT, "feedback": TEXT, "version": TEXT, "outputs": TEXT}'
    try:
        value: Any = json.loads(body)
    except (RecursionError, ValueError):
        raise ValueError(expected) from None
    match value:
        case {"case": str(case), "feedback": str(words), "version": str(version), **rest}:
            outputs = rest.pop("outputs", "")
            if len(words) > MAX_FEEDBACK:
                raise ValueError(f"feedback has at most {MAX_FEEDBACK:,} characters")
            if not rest and isinstance(outputs, str) and _DIGEST.fullmatch(outputs):
                return _Sent(case, words, version, outputs)
    raise ValueError(expected)


def _refusal(message: str, code: int) -> Response:
    return JSONResponse({"error": message}, code)


def _state_of(root: Path) -> str:
    """Return a text that changes when results do; what this report writes itself does not count."""
    newest = count = total = 0
    for path in _files(root):
        try:
            status = path.lstat()
        except OSError:
            continue
        newest, count, total = max(newest, status.st_mtime_ns), count + 1, total + status.st_size
    return f"{count}-{total}-{newest}-{work_runs(root)}"


def _files(root: Path) -> Iterator[Path]:
    left = _MAX_FILES
    # Links to folders are not followed.
    for folder, _, names in os.walk(root):
        for name in names:
            if name not in {FEEDBACK_FILE, REPORT_FILE} and not name.startswith("."):
                left -= 1
                if left < 0:
                    return
                yield Path(folder) / name
