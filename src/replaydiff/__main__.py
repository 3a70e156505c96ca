"""`python -m replaydiff` is the `replay` command."""

from replaydiff.replay.cli import main

if __name__ == "__main__":
    main()
