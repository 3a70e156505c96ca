"""Opik's SDK: its decorator, its wrappers of clients and its tracer for LangChain; files of `opik export`.

A server on loopback keeps what the SDK sends, and gives it back to `opik export` as pages of the API.
"""

import json
import os
import subprocess
import sys
import threading
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from common import LOOPS, TOOLS, anthropic_client, arguments, content, each, langchain_agent, openai_client

PROJECT = {"id": "0190babc-62a0-71d2-832a-0feffa4676eb", "name": "shop"}
KEPT: dict[str, dict] = {"traces": {}, "spans": {}}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass

    def answer(self, value: dict) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw or "{}")
        for sort, kept in KEPT.items():
            for row in body.get(sort, []):
                known = {key: value for key, value in row.items() if value is not None}
                kept[row["id"]] = kept.get(row["id"], {}) | known
        self.answer(PROJECT if self.path.endswith("/retrieve") else {})

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        query = {
            key: int(value[0]) for key, value in parse_qs(where.query).items() if key in ("page", "size")
        }
        rows = list(KEPT.get(where.path.rpartition("/")[2], {}).values())
        start = (query.get("page", 1) - 1) * query.get("size", 0)
        page = rows[start : start + query.get("size", 0)]
        self.answer({"page": query.get("page"), "size": len(page), "total": len(rows), "content": page})


url, path, mode = arguments()
kind, _, how = mode.partition("-")
server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ |= {
    "OPIK_URL_OVERRIDE": f"http://127.0.0.1:{server.server_port}/api",
    "OPIK_PROJECT_NAME": "shop",
    "OPIK_WORKSPACE": "default",
    "OPIK_SENTRY_ENABLE": "false",
    "OPIK_ANALYTICS_ENABLED": "false",
}
import opik  # noqa: E402 - it reads the variables

if kind == "langchain":
    from langchain_openai import ChatOpenAI
    from opik.integrations.langchain import OpikTracer

    agent = langchain_agent(
        ChatOpenAI(model="gpt-5.2-mini", base_url=f"{url}/v1", api_key="none", max_retries=0)
    )
    tracer = OpikTracer()

    def run(text: str) -> None:
        asked = {"messages": [{"role": "user", "content": text}]}
        agent.invoke(asked, config={"callbacks": [tracer]})

else:
    from opik.integrations.anthropic import track_anthropic
    from opik.integrations.openai import track_openai

    client = (
        track_anthropic(anthropic_client(url)) if kind == "messages" else track_openai(openai_client(url))
    )
    tools = {name: opik.track(type="tool", name=name)(tool) for name, tool in TOOLS.items()}

    @opik.track(name="support")
    def run(text: str) -> str:
        return LOOPS[kind](client, text, tools, stream=how == "stream")


each(run, image=None if kind == "langchain" else lambda text: run(content(kind, text)))
opik.flush_tracker()
folder = path.with_suffix("")
export = [Path(sys.executable).with_name("opik"), "export", "default", "shop", "traces", "--path", folder]
subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
with path.open("w") as file:
    for one in sorted(folder.rglob("trace_*.json")):
        file.write(json.dumps(json.loads(one.read_text())) + "\n")
