"""`python -m server` is `skillserve`."""

import gc

# A start allocates much and frees nothing: collecting meanwhile takes a tenth of it. `serve` switches it on again.
gc.disable()

from server.cli import main  # noqa: E402 - what is imported here is what should not be interrupted

if __name__ == "__main__":
    main()
