"""`skillserve` whose skills are loaded only once the file exists that the variable `GO` names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from server.__main__ import main
from server.cli import start_server

_open_library = getattr(start_server, "open_library")  # noqa: B009 - for the type checker


def _when_told(*arguments: Any, **options: Any) -> Any:
    while not Path(os.environ["GO"]).exists():
        time.sleep(0.01)
    return _open_library(*arguments, **options)


if __name__ == "__main__":
    setattr(start_server, "open_library", _when_told)  # noqa: B010 - for the type checker
    main()
