"""One key from the terminal, without Enter.

`click.getchar` throws away what was typed ahead of it; a person who knows the keys types ahead.
"""

from __future__ import annotations

import os
import sys
import termios
import tty


def read_key() -> str:
    """The next key, in lower case; empty where the input has ended."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        first = os.read(descriptor, 1)
        # The other bytes of a character that is no ASCII.
        more = 3 if first >= b"\xf0" else 2 if first >= b"\xe0" else 1 if first >= b"\xc0" else 0
        return (first + (os.read(descriptor, more) if more else b"")).decode(errors="replace").lower()
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
