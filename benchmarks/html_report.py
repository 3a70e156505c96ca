"""What an HTML report of a large run costs: to write it, its size, to open it, and to filter its items.

    python benchmarks/html_report.py [ITEMS]        # default 5000; needs Chromium for the last figures

The run has two lanes of three trials; every trial has tool calls, a response, grades and votes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from replaydiff.reports import registry

ROOT = Path(__file__).parents[1]
OPENED = "performance.getEntriesByType('navigation')[0].domComplete"
FILTERED = """async ([name, value]) => {
  const field = document.querySelector(`.filters [name=${name}]`);
  const shown = document.querySelector('.shown');
  const before = shown.textContent;
  const start = performance.now();
  if (field.type === 'checkbox') field.checked = !field.checked;
  else field.value = value;
  field.dispatchEvent(new Event(name === 'text' ? 'input' : 'change', {bubbles: true}));
  while (shown.textContent === before) await new Promise((done) => setTimeout(done, 1));
  document.body.offsetHeight;
  return performance.now() - start;
}"""


def main() -> None:
    """Write one report, open it, and filter its items."""
    # The results that the tests draw are not installed.
    sys.path.insert(0, str(ROOT))
    from tests.reports import results
    from tests.reports.browser import BROWSER, browser

    items = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    result = results.many(items)
    start, worked = time.perf_counter(), time.process_time()
    text = registry.render(result, "html")
    took, worked = time.perf_counter() - start, time.process_time() - worked
    size = len(text.encode()) / 1e6
    print(f"{items} items: written in {took:.2f} s ({worked:.2f} s of processor), {size:.1f} MB")
    if BROWSER is None:
        return
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8", errors="replace")
        tab.open(file.as_uri(), "document.querySelector('.shown').textContent")
        print(f"opened in a browser, filters ready, in {tab.eval(OPENED) / 1000:.2f} s")
        for name, value in (("verdict", "one"), ("text", "0042"), ("text", "004")):
            took = tab.page.evaluate(FILTERED, [name, value])
            print(f"filtered by {name} {value!r} in {took:.0f} ms")


if __name__ == "__main__":
    main()
