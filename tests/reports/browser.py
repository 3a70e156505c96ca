"""A real browser, driven by its own protocol over two pipes: keys are pressed and pages read as a person does."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
_WAIT_S = 40.0
_ENTER = {"key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
_NAMED = {"Enter": _ENTER, "Escape": {"key": "Escape", "windowsVirtualKeyCode": 27}}


class Browser:
    """One tab."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._id = to, back, b"", 0
        self._session: str | None = None
        self.console: list[str] = []
        """Errors and refusals of the policy that the page's console shows."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("method") == "Log.entryAdded":
                self.console.append(found["params"]["entry"]["text"])
            elif found.get("method") == "Runtime.exceptionThrown":
                self.console.append(str(found["params"]["exceptionDetails"]))
            if found.get("id") == self._id:
                assert "error" not in found, found["error"]
                answer: dict[str, Any] = found["result"]
                return answer

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._back, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def eval(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end:
            found = self.ask(
                "Runtime.evaluate",
                expression=f"document.readyState === 'complete' && Boolean({script})",
                returnByValue=True,
            )
            if "exceptionDetails" not in found and found["result"].get("value"):
                return
            time.sleep(0.03)
        raise AssertionError(f"never became true: {script}; the page says: {self.text()[:1500]}")

    def open(self, address: str, until: str = "document.querySelector('main')") -> None:
        """Go to an address and wait for a page."""
        self.ask("Page.navigate", url=address)
        self.until(f"location.href !== 'about:blank' && {until}")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            event = _NAMED.get(key, {"key": key, "text": key})
            self.ask("Input.dispatchKeyEvent", type="keyDown", **event)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=event["key"])

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.ask("Input.insertText", text=text)

    def text(self) -> str:
        """What stands on the page."""
        return str(self.eval("document.body.innerText"))

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window, and whether the person likes it dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        """A picture of the window."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile."""
    there, to = os.pipe()
    back, from_ = os.pipe()

    def pipes() -> None:
        # The protocol's pipes are 3 and 4.
        os.dup2(os.dup(there), 30)
        os.dup2(os.dup(from_), 31)
        os.dup2(30, 3)
        os.dup2(31, 4)

    process = subprocess.Popen(
        [
            str(BROWSER),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", f"--user-data-dir={profile}", "--remote-debugging-pipe"),
        ],
        preexec_fn=pipes,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(there)
    os.close(from_)
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait(20)
        os.close(to)
        os.close(back)
