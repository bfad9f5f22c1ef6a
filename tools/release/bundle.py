"""Make the `.mcpb` bundle in `dist/`, and start it as a desktop client does: `python -m tools.release.bundle`.

`mcpb`, the format's own tool from npm, validates the manifest, packs, unpacks, and replaces the variables of the
manifest, which is what Claude Desktop does with it. The bundle holds what the wheel is made of; `uv` installs it at the
first start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.release.distributions import DIST, REPOSITORY, TOOLS, bare_environment, tracked_files, version_of_package
from tools.release.sessions import Answered, ReleaseError, ask_over_stdio

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST: Final = REPOSITORY / "release/mcpb/manifest.json"
_NODE: Final = REPOSITORY / "conformance/node_modules"
_MCPB: Final = _NODE / ".bin/mcpb"
_REST: Final = ("pyproject.toml", "README.md", "LICENSE")
_REPLACE: Final = """\
import { readFileSync } from "node:fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";
const { folder, userConfig } = JSON.parse(readFileSync(0, "utf8"));
const manifest = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf8"));
const config = await getMcpConfigForManifest({
  manifest, extensionPath: folder, systemDirs: {}, userConfig, pathSeparator: "/",
});
console.log(JSON.stringify(config ?? null));
"""


def bundle_path() -> Path:
    """Return where the bundle of this version is made."""
    return DIST / f"skillserve-{version_of_package()}.mcpb"


def lay_out(folder: Path) -> None:
    """Write what the bundle contains: the manifest, and the files that git knows of what serves."""
    for name in (*sorted(tracked_files()), *_REST):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, target)
    shutil.copyfile(MANIFEST, folder / "manifest.json")


def pack(folder: Path, bundle: Path) -> None:
    """Validate the manifest and pack the folder."""
    bundle.parent.mkdir(exist_ok=True)
    bundle.unlink(missing_ok=True)
    _mcpb("validate", folder / "manifest.json")
    _mcpb("pack", folder, bundle)


def start(bundle: Path, folder: Path, user_config: Mapping[str, Any]) -> Answered:
    """Unpack the bundle into `folder`, start its server with these choices of a user, and ask it.

    Raises:
        ReleaseError: the manifest starts nothing with these choices, or what it starts does not answer.
    """
    _mcpb("unpack", bundle, folder)
    given = json.dumps({"folder": str(folder), "userConfig": user_config})
    # Node looks for packages from the folder of the script on.
    command = [_node(), "--input-type=module", "--eval", _REPLACE]
    done = subprocess.run(command, cwd=_NODE.parent, input=given, capture_output=True, text=True, check=True)
    config = json.loads(done.stdout)
    if config is None:
        raise ReleaseError("the manifest asks for more than the user has chosen")
    environment = {**bare_environment(folder.parent), **config.get("env", {})}
    # The client brings its own uv; here it is that of the virtual environment.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    uv = shutil.which(config["command"], path=environment["PATH"])
    if uv is None:
        raise ReleaseError(f"{config['command']} was not found")
    return ask_over_stdio([uv, *config["args"]], environment, folder.parent)


def _mcpb(*words: object) -> None:
    command = [_node(), str(_MCPB), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"mcpb {words[0]}: {done.stdout}{done.stderr}")


def _node() -> str:
    own = _NODE / ".bin/node"
    return str(own) if own.exists() else "node"


def make_and_check(bundle: Path, folder: Path) -> None:
    """Make the bundle, and serve two folders of skills with it.

    Raises:
        ReleaseError: it cannot be made, or its server answers otherwise than its manifest says.
    """
    (folder / "laid out").mkdir()
    lay_out(folder / "laid out")
    pack(folder / "laid out", bundle)
    chosen = [folder / "first skills", folder / "second"]
    for number, each in enumerate(chosen):
        (each / f"skill-{number}").mkdir(parents=True)
        text = f"---\nname: skill-{number}\ndescription: Do the task with number {number}.\n---\n\nDo it.\n"
        (each / f"skill-{number}/SKILL.md").write_text(text, encoding="utf-8")
    answered = start(bundle, folder / "unpacked", {"skills_folders": list(map(str, chosen))})
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    declared = {tool["name"] for tool in manifest["tools"]} | TOOLS
    if not answered.tools >= declared or answered.version != manifest["version"]:
        raise ReleaseError(f"the server of the bundle answered {answered}; the manifest says {manifest}")
    if not all(f"skill-{number}" in answered.skills for number in range(len(chosen))):
        raise ReleaseError(f"the server of the bundle does not serve all chosen folders: {answered.skills}")


def main() -> int:
    """Make the bundle and check it; return the exit code. A bundle that does not work is removed."""
    bundle = bundle_path()
    try:
        with tempfile.TemporaryDirectory(prefix="skillserve-mcpb-") as scratch:
            make_and_check(bundle, Path(scratch))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        bundle.unlink(missing_ok=True)
        print(f"mcpb: {error}", file=sys.stderr)
        return 1
    print(f"{bundle.name}: {bundle.stat().st_size / 1e6:.1f} MB, serves the folders that a user chooses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
