"""An interpreter that imports the product once and forks a process for each request.

A request is a length and a JSON object, with the descriptors of the standard streams; the answer is a pid. The new
process is a sibling of this one, so that it is a child of the client. The function `fork` makes children alone, and to
fork twice for a child whose parent ends takes twice the time, which is most of the time of a short command.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call `clone`; it has no function in C that returns twice."""
CLONE_PARENT = 0x8000  # <linux/sched.h>
MADV_COLLAPSE = 25  # <linux/mman.h>; Linux before 6.1 answers that it does not know it
HUGE_PAGE = 1 << 21

LATER = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "anyio._core._subprocesses",
    "anyio.streams.stapled",
    "dbos._sys_db_sqlite",
    "encodings.unicode_escape",
    "encodings.utf_8_sig",
    "genai_prices.data",
    "jsonschema",
    "openai.resources.chat.chat",
    "openai.resources.chat.completions.completions",
    "pydantic_ai.direct",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai_compatible",
    "rich._emoji_codes",
    "rich.live",
    "sqlalchemy.dialects.sqlite",
    "typer._adapters",
    "typer._click.decorators",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.websockets.auto",
)
"""Modules that the product and its libraries import only on demand."""


def import_product() -> None:
    """Import all modules that a process of the product may import."""
    from server.transport.lazy_sdk import defer_packages  # noqa: PLC0415 - not at the import of this module

    defer_packages()
    for name in ("skills_core", "server"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)


def prepare_commands() -> None:
    """Derive the commands and their parameters from their annotations once, which each process would repeat."""
    import typer.main  # noqa: PLC0415 - not at the import of this module

    from server.cli.app import app  # noqa: PLC0415 - likewise

    command = typer.main.get_command(app)
    derive = typer.main.get_command
    typer.main.get_command = lambda typer_instance: command if typer_instance is app else derive(typer_instance)

    def prepare(parsed: Any) -> None:
        for parameter in parsed.params:
            parameter.get_runtime_param()
        for inner in getattr(parsed, "commands", {}).values():
            prepare(inner)

    prepare(command)


def read_certificates() -> None:
    """Read the certificates of the system once, which each client of HTTP would repeat."""
    import httpcore2  # noqa: PLC0415 - not at the import of this module

    read = httpcore2.default_ssl_context

    @functools.cache
    def context(trust_env: bool, *_: str | None) -> Any:  # noqa: FBT001
        return read(_trust_env=trust_env)

    def default(*, _trust_env: bool = True) -> Any:
        return context(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    httpcore2.default_ssl_context = default
    default()


def build_schemas() -> None:
    """Build what pydantic builds when it is first used: the schemas of a request to a model and of its answer."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter  # noqa: PLC0415 - not at the import of this module
    from pydantic_ai.models.openai import _chat_completions as answers  # noqa: PLC0415 - likewise

    ModelMessagesTypeAdapter.rebuild()
    answers.LenientChatCompletion.model_rebuild()


def join_pages() -> None:
    """Let the memory of this process consist of huge pages, where the system has them.

    A fork and the end of its process take time in proportion to the number of pages, which is most of a short command.
    """
    library = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, _, _, inode, *_ = line.split()
        first, end = (int(address, 16) for address in span.split("-"))
        first, end = -(-first // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if inode == "0" and rights.startswith("rw") and first < end:
            library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MADV_COLLAPSE)


def fork_sibling() -> int:
    """Fork a child of this process's parent; return its pid, and 0 in the new process.

    It prepares the interpreter as `os.fork` does. This process has one thread, so the C library needs no preparation.
    """
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(python.syscall(CLONE[os.uname().machine], CLONE_PARENT | signal.SIGCHLD, None, None, None, None))
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("clone failed")
    return pid


def next_request(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request; return in the new process only."""
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 4, 3)
        if len(head) < 4:
            os._exit(0)
        body = connection.recv(struct.unpack("!I", head)[0], socket.MSG_WAITALL)
        if pid := fork_sibling():
            connection.sendall(struct.pack("!I", pid))
            for stream in streams:
                os.close(stream)
            continue
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(connection.fileno(), *streams) + 1)
        connection.detach()
        request: dict[str, Any] = json.loads(body)
        return request


def run(words: list[str]) -> None:
    """Run a module or a script in the way of the interpreter's command line."""
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


def become(request: dict[str, Any]) -> None:
    """Apply the session, directory, environment and streams of `request` to this process."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    words: list[str] = request["words"]
    is_module = words[0] == "-m"
    sys.argv[:] = words[1:] if is_module else words
    first = request["directory"] if is_module else str(Path(words[0]).parent)
    sys.path[:] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(":")), *OWN_PATH]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        before: io.TextIOWrapper = getattr(sys, name)
        stream: Any = open(number, mode, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        if mode == "w":
            at_line_ends = before.line_buffering if name == "stderr" else stream.isatty() and not before.write_through
            stream.reconfigure(line_buffering=at_line_ends, write_through=before.write_through)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def leave(code: Any) -> None:
    """Exit like the interpreter, but without clearing modules, which would copy the pages that forks share."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    OWN_PATH = [path for path in sys.path[1:] if path not in os.environ.get("PYTHONPATH", "").split(":")]
    wire = socket.socket(fileno=int(sys.argv[1]))
    # What is imported stays: a search for garbage in it takes a third of the start.
    gc.disable()
    import_product()
    prepare_commands()
    read_certificates()
    build_schemas()
    # Each process would do so before its first import; it writes to an object for each folder of modules.
    importlib.invalidate_caches()
    gc.freeze()
    gc.enable()
    join_pages()
    asked = next_request(wire)
    become(asked)
    try:
        run(asked["words"])
    except SystemExit as end:
        leave(end.code)
    leave(None)
