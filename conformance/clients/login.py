"""Test that Claude Code logs in at an identity provider and uses this server: `make login-agents`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import anyio

from conformance.clients.install import NotInstallableError, install
from conformance.clients.login_script import BODY
from conformance.clients.sandbox import is_possible, run_inside
from conformance.identity_provider import MODULES, USER
from conformance.processes import CheckError

__all__ = ["faults_of_login"]

FORMS = ("jwt", "opaque")


def faults_of_login(root: Path) -> list[str]:
    """Return what is wrong in the recording of a login and of the run after it."""
    results = json.loads((root / "results.json").read_text(encoding="utf-8"))
    requests = (root / "requests.jsonl").read_text(encoding="utf-8")
    log = (root / "server.log").read_text(encoding="utf-8")
    faults = []
    if "✔ Connected" in results["before"]:
        faults.append("the client was connected before it logged in")
    if results["resource"] != [results["url"]]:
        faults.append(f"the client asked for a token for {results['resource']}, not for {results['url']}")
    if "✔ Connected" not in results["after"]:
        faults.append(f"the client is not connected after the login: {results['after']}")
    if BODY not in requests:
        faults.append("the skill did not reach the model")
    if any(secret in text for secret in results["secrets"] for text in (log, requests)):
        faults.append("a token is in the server's log or reached the model")
    if not results["secrets"]:
        faults.append(f"the client stored no token of {USER}")
    return faults


async def _main() -> int:
    if not await is_possible():
        print("this system allows no namespaces; nothing was tested", file=sys.stderr)
        return 2
    if not (MODULES / "oidc-provider").is_dir():
        print("oidc-provider is missing: run `make login-agents`, which installs it", file=sys.stderr)
        return 2
    try:
        await install("claude")
    except NotInstallableError as error:
        print(f"claude: skipped: {error}")
        return 0
    with tempfile.TemporaryDirectory(prefix="skillserve-login-") as folder:
        return int(await _test(Path(folder)))


async def _test(folder: Path) -> bool:
    """Test both forms of tokens; return whether a result is not as expected."""
    failed = False
    for form in FORMS:
        root = folder / form
        root.mkdir()
        try:
            await run_inside("claude", form, root, "conformance.clients.login_inside")
            faults = faults_of_login(root)
        except CheckError as error:
            faults = [str(error)]
        failed = failed or bool(faults)
        print(f"claude {form}: {'; '.join(faults) or 'as expected'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(anyio.run(_main))
