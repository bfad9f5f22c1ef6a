"""`python -m server` is `skillserve`."""

from server.cli import main

if __name__ == "__main__":
    main()
