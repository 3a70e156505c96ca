"""What an HTML report of a large run costs: seconds to write it, its size, and seconds to open it.

    python benchmarks/html_report.py [ITEMS]        # default 5000; needs Chromium for the last figure

The run has two lanes of three trials; every trial has tool calls, a response, grades and votes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reports import base

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write one report and open it."""
    # The results that the tests draw are not installed.
    sys.path.insert(0, str(ROOT))
    from tests.reports import results

    items = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    result = results.many(items)
    start = time.perf_counter()
    text = base.render(result, "html")
    print(f"{items} items: written in {time.perf_counter() - start:.2f} s, {len(text.encode()) / 1e6:.1f} MB")
    browser = shutil.which("chromium")
    if browser is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        # The page itself says when its script is done and the first screen is laid out.
        probe = "<script>document.body.offsetHeight;document.title=String(performance.now())</script></body>"
        head, _, tail = text.partition("<meta http-equiv=")
        file.write_text(head + tail.partition(">")[2].replace("</body>", probe), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        options += ["--disable-background-networking", f"--user-data-dir={folder}/profile", "--dump-dom"]
        done = subprocess.run([browser, *options, file.as_uri()], capture_output=True, text=True, check=True)
        took = done.stdout.partition("<title>")[2].partition("</title>")[0]
        print(f"opened in a browser, filters ready, in {float(took) / 1000:.2f} s")


if __name__ == "__main__":
    main()
