"""One agent that can be run as every kind of version; its input says what it is to do.

As an entrypoint: `talking:run_agent`, patch point `talking:call`. As a program: `talking.py once`,
`talking.py lines`. As a service: `talking.py serve`, which prints its port.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUSES = {"overloaded": 529, "limited": 429, "refused": 400}


class ToldError(Exception):
    def __init__(self, status_code):
        super().__init__("as the test wants it")
        self.status_code = status_code
        self.headers = {"retry-after": "3"}


class Stop(BaseException):
    pass


def call(name, args):
    raise SystemError("the real tool ran")


def run_agent(text):
    return behave(text, call)


def behave(text, tool):
    word, _, rest = text.partition(" ")
    if word == "look":
        return {"final_response": tool("get_order_status", {"order_id": rest}), "cost_usd": 0.5}
    if word == "steps":
        steps = (step.split() for step in rest.split(";"))
        return " | ".join(str(tool(name, {"order_id": order})) for name, order in steps)
    if word == "careful":
        try:
            return str(tool("get_order_status", {"order_id": rest}))
        except Exception as error:  # noqa: BLE001 - it says what it was
            return f"it said: {error}"
    if word == "raise":
        raise KeyError(rest)
    if word in STATUSES:
        raise ToldError(STATUSES[word])
    if word == "swell":
        swollen = bytearray(300 * 2**20)
        swollen[::4096] = b"x" * len(swollen[::4096])
        time.sleep(20)
    if word == "hang":
        time.sleep(60)
    if word == "die":
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(3)
    if word == "noise":
        print('{"progress": 50}\n' * 5000)
        sys.stderr.write("and complaints\n" * 5000)
        sys.stdout.flush()
    if word == "nonsense":
        return 42
    return {"final_response": f"you said {text}", "usage": {"input_tokens": 10, "output_tokens": 2}}


def over_http(url):
    """A tool function that asks the tape."""

    def tool(name, args):
        data = json.dumps({"name": name, "args": args}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data)) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                raise Stop(json.load(error)["stop"]) from None
        if "error" in answer:
            raise RuntimeError(answer["error"])
        if "live" in answer:
            told = {"ran": answer["live"], "result": "the real tool ran"}
            urllib.request.urlopen(urllib.request.Request(url, json.dumps(told).encode())).close()
            return told["result"]
        return answer["result"]

    return tool


def answer_to(request):
    """The answer to a request, and the HTTP status around it."""
    try:
        answer = behave(request["input"], over_http(request["tools_url"]))
    except ToldError as told:
        return {
            "error": {"message": str(told), "status": told.status_code, "retry_after_s": 3}
        }, told.status_code
    except BaseException as error:  # noqa: BLE001 - the caller is told
        return {"error": f"{type(error).__name__}: {error}"}, 500
    return answer, 200


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer, status = answer_to(request)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if status == 429:
            self.send_header("retry-after", "3")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main(mode):
    if mode == "serve":
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    for line in sys.stdin:
        request = json.loads(line)
        answer, _ = answer_to(request)
        if mode == "lines":
            answer = answer if isinstance(answer, dict) else {"final_response": answer}
            answer = {"trial": request["trial"], **answer}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
