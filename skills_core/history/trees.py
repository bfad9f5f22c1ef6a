"""The state of a source as git trees, and back.

A tree has the files of its folder under their names. Git knows two modes of files and none of folders; where a mode
differs from those, or a folder is empty, a blob in the tree says so. A folder's tree thus has everything about it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from dulwich.objects import Blob, ObjectID, Tree

from skills_core.history.entries import FILE_MODE, FOLDER_MODE, TEMPORARY, Entry, Kind, State, is_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dulwich.objects import ShaFile

    Load = Callable[[ObjectID], Tree]
    Modes = dict[str, int]

__all__ = ["read_tree", "unit_key", "write_tree"]

MODES: Final = f"{TEMPORARY}modes"
"""The blob with the modes; such names are never recorded as files."""

_TREE: Final = 0o040000
_LINK: Final = 0o120000
_FILE: Final = 0o100644
_EXECUTABLE: Final = 0o100755
_OWN: Final = "."


def write_tree(state: State, store: Callable[[ShaFile], None]) -> ObjectID:
    """Store the trees of a state, the blobs of which are stored already; return the root tree."""
    children: dict[str, dict[str, Entry]] = {"": {}}
    for path, entry in state.items():
        folder, _, name = path.rpartition("/")
        children.setdefault(folder, {})[name] = entry
        if entry.kind is Kind.FOLDER:
            children.setdefault(path, {})
    written: dict[str, ObjectID] = {}
    # The deepest first: a tree names the trees below it.
    for folder in sorted(children, key=lambda each: each.count("/") + bool(each), reverse=True):
        own = state[folder].mode if folder else None
        written[folder] = _write_folder(folder, children[folder], own, written, store)
    return written[""]


def _write_folder(
    folder: str,
    entries: dict[str, Entry],
    own: int | None,
    written: dict[str, ObjectID],
    store: Callable[[ShaFile], None],
) -> ObjectID:
    tree, modes = Tree(), {}
    if own is not None and (own != FOLDER_MODE or not entries):
        modes[_OWN] = own
    for name, entry in entries.items():
        if entry.kind is Kind.FOLDER:
            tree.add(os.fsencode(name), _TREE, written[f"{folder}/{name}" if folder else name])
            continue
        git_mode = _git_mode(entry)
        if entry.kind is Kind.FILE and entry.mode != git_mode & 0o777:
            modes[name] = entry.mode
        tree.add(os.fsencode(name), git_mode, ObjectID(entry.blob.encode()))
    if modes:
        blob = Blob.from_string(json.dumps({name: f"{modes[name]:04o}" for name in sorted(modes)}).encode())
        store(blob)
        tree.add(MODES.encode(), _FILE, blob.id)
    store(tree)
    return tree.id


def _git_mode(entry: Entry) -> int:
    if entry.kind is Kind.LINK:
        return _LINK
    return _EXECUTABLE if entry.mode & 0o100 else _FILE


def read_tree(root: ObjectID, unit: str, load: Load, read: Callable[[str], bytes]) -> dict[str, Entry]:
    """Return the entries of a unit in a tree, and none of the folders above it."""
    found: dict[str, Entry] = {}
    waiting = [("", root)]
    while waiting:
        folder, number = waiting.pop()
        tree = load(number)
        modes = _modes(tree, read)
        if folder and is_within(folder, unit):
            found[folder] = Entry(Kind.FOLDER, modes.get(_OWN, FOLDER_MODE))
        for name, mode, child in _items(tree):
            path = f"{folder}/{name}" if folder else name
            if mode == _TREE:
                if is_within(path, unit) or is_within(unit, path):
                    waiting.append((path, child))
            elif is_within(path, unit):
                found[path] = _entry(mode, modes.get(name), child)
    return found


def unit_key(root: ObjectID, unit: str, load: Load, read: Callable[[str], bytes]) -> object:
    """Return a value that is the same for two trees if the unit is the same in both; None if there is none."""
    number = root
    *folders, last = unit.split("/")
    if not unit:
        return number
    for folder in folders:
        below = _child(load(number), folder)
        if below is None or below[0] != _TREE:
            return None
        number = below[1]
    tree = load(number)
    child = _child(tree, last)
    return None if child is None else (child, _modes(tree, read).get(last))


def _child(tree: Tree, name: str) -> tuple[int, ObjectID] | None:
    try:
        return tree[os.fsencode(name)]
    except KeyError:
        return None


def _items(tree: Tree) -> Iterator[tuple[str, int, ObjectID]]:
    for item in tree.items():
        name = os.fsdecode(item.path or b"")
        if name and name not in {".", ".."} and "/" not in name and not name.startswith(TEMPORARY):
            yield name, item.mode or 0, ObjectID(item.sha or b"")


def _modes(tree: Tree, read: Callable[[str], bytes]) -> Modes:
    child = _child(tree, MODES)
    if child is None:
        return {}
    return {name: int(mode, 8) & 0o777 for name, mode in json.loads(read(child[1].decode())).items()}


def _entry(git_mode: int, mode: int | None, number: ObjectID) -> Entry:
    if git_mode == _LINK:
        return Entry(Kind.LINK, 0, number.decode())
    usual = FOLDER_MODE if git_mode & 0o100 else FILE_MODE
    return Entry(Kind.FILE, usual if mode is None else mode, number.decode())
