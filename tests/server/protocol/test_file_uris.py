"""What `file:` URIs name, on POSIX and on Windows, as clients really write them."""

from __future__ import annotations

import pytest

from server.protocol.client_roots import MAX_FILE_URI, path_of


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/me/work", "/home/me/work"),
        ("file:/home/me", "/home/me"),
        ("FILE://localhost/home", "/home"),
        ("file:///a%20b/%C3%BC%23", "/a b/ü#"),
        ("file:///not%FFutf8", "/not\udcffutf8"),
        # Not encoded by the client: the name of a folder, not the end of the path.
        ("file:///work/c#", "/work/c#"),
        ("file:///work/what?", "/work/what?"),
        ("file:///100%", "/100%"),
    ],
)
def test_a_file_uri_names_an_absolute_path(uri: str, path: str) -> None:
    assert path_of(uri, windows=False) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///C:/Users/me", "C:/Users/me"),
        ("file:///c%3A/Users/a%20b", "c:/Users/a b"),
        ("file:///C|/Users", "C:/Users"),
        ("file:///C:\\Users\\me", "C:\\Users\\me"),
        ("file://C:/Users", "C:/Users"),
        ("file://C:\\Users", "C:\\Users"),
        ("file:///C:", "C:/"),
        ("file:/C:/", "C:/"),
    ],
)
def test_a_file_uri_names_a_drive_on_windows(uri: str, path: str) -> None:
    assert path_of(uri, windows=True) == path


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/home/me",
        "C:\\Users",
        "https://example.com/x",
        "vscode-remote://ssh/home",
        "file:",
        "file://",
        "file:relative",
        "file://server/share",
        "file://server",
        "file:///C:/a%00b",
        "file:///a\0b",
        "file:///\ud800",
        "file:///C:/" + "a" * MAX_FILE_URI,
    ],
)
def test_what_names_nothing_on_this_machine_is_refused(uri: str, *, windows: bool) -> None:
    assert path_of(uri, windows=windows) is None


@pytest.mark.parametrize(
    "uri",
    ["file:////server/share", "file:///%5C%5Cserver/share", "file:///C:relative", "file:///home", "file:////./C:/"],
)
def test_windows_refuses_other_machines_devices_and_paths_without_a_drive(uri: str) -> None:
    assert path_of(uri, windows=True) is None
