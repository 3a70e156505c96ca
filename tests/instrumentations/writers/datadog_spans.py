"""Datadog's LLM Observability: what the genuine SDK sends, one payload a line."""

import gzip
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common import LOOPS, TOOLS, anthropic_client, arguments, content, each, langchain_agent, openai_client

PAYLOADS: list[bytes] = []


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.endswith("/llmobs"):
            PAYLOADS.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        self.answer()

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.do_POST()


url, path, mode = arguments()
kind, _, how = mode.partition("-")
server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
os.environ |= {
    "DD_LLMOBS_OVERRIDE_ORIGIN": address,
    "DD_TRACE_AGENT_URL": address,
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
}
from ddtrace.llmobs import LLMObs, decorators  # noqa: E402 - it reads the variables

LLMObs.enable(ml_app="shop", api_key="none", site="datadoghq.com", agentless_enabled=True)
if kind == "langchain":
    from langchain_openai import ChatOpenAI

    agent = langchain_agent(
        ChatOpenAI(model="gpt-5.2-mini", base_url=f"{url}/v1", api_key="none", max_retries=0)
    )

    def run(text: str) -> None:
        agent.invoke({"messages": [{"role": "user", "content": text}]})

else:
    client = anthropic_client(url) if kind == "messages" else openai_client(url)
    tools = {name: decorators.tool(name=name)(one) for name, one in TOOLS.items()}

    @decorators.agent(name="support")
    def run(text: str) -> str:
        return LOOPS[kind](client, text, tools, stream=how == "stream")


each(run, image=None if kind == "langchain" else lambda text: run(content(kind, text)))
LLMObs.flush()
LLMObs.disable()
with path.open("w") as file:
    for payload in PAYLOADS:
        file.write(json.dumps(json.loads(payload)) + "\n")
