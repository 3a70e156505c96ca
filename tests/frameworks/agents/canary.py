"""What every tool of these agents does if it runs: leave a mark."""

import os
from pathlib import Path


def ran(text: str) -> str:
    """Leave a mark, and answer what no recording holds."""
    with Path(os.environ["CANARY_FILE"]).open("a") as file:
        file.write(f"{text}\n")
    return f"the real tool ran: {text}"
