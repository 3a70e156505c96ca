"""`python -m replay` is the `replay` command."""

from replay.cli import main

if __name__ == "__main__":
    main()
