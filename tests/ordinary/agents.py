"""Ordinary agents, each on a package of PyPI: each calls the tool `lookup` in the way of its package.

`AGENTS` has the body of each: it returns what the tool answered. The real tool has effects (`canary.real`).
"""

from __future__ import annotations

HEAD = """
import asyncio, os, threading
from canary import real
def lookup(order_id): return real(order_id)
def run(name): return globals()[f"agent_{name}"]()
"""
GEVENT = "from gevent import monkey; monkey.patch_all()\n"
AGENTS = {
    # --- Python's own ---
    "threads": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool: return pool.submit(lookup, "7").result()
""",
    "a thread of a class": """
answers = []
class Worker(threading.Thread):
    def run(self): answers.append(lookup("7"))
worker = Worker(); worker.start(); worker.join()
return answers[0]
""",
    "a queue and a thread": """
import queue
orders, answers = queue.Queue(), queue.Queue()
threading.Thread(target=lambda: answers.put(lookup(orders.get())), daemon=True).start()
orders.put("7")
return answers.get()
""",
    "a forked pool": """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    return pool.submit(lookup, "7").result()
""",
    "a spawned pool": """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
    return pool.submit(lookup, "7").result()
""",
    "subprocess": """
import subprocess, sys
return subprocess.check_output([sys.executable, "-c", "print('x')"], text=True) and lookup("7")
""",
    "asyncio": "return asyncio.run(asyncio.to_thread(lookup, '7'))",
    "asyncio subprocess": """
async def go():
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return lookup("7")
return asyncio.run(go())
""",
    "sqlite": """
import sqlite3
con = sqlite3.connect(":memory:")
con.create_function("lookup", 1, lookup)
return con.execute("select lookup('7')").fetchone()[0]
""",
    "dbm in a temporary folder": """
import shelve, tempfile
with tempfile.TemporaryDirectory() as folder, shelve.open(folder + "/cache") as cache:
    cache["7"] = lookup("7")
    return cache["7"]
""",
    "logging to a file": """
import logging, tempfile
with tempfile.NamedTemporaryFile() as file:
    logger = logging.getLogger("agent"); logger.addHandler(logging.FileHandler(file.name))
    logger.warning("called")
    return lookup("7")
""",
    "a server on loopback": """
import http.server, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(lookup("7").encode())
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.handle_request, daemon=True).start()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
return opener.open(f"http://127.0.0.1:{server.server_port}").read().decode()
""",
    "a manager's dictionary": """
import multiprocessing
with multiprocessing.get_context("spawn").Manager() as manager:
    answers = manager.dict()
    answers["7"] = lookup("7")
    return answers["7"]
""",
    "shared memory": """
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=64)
answer = lookup("7").encode(); memory.buf[:len(answer)] = answer
text = bytes(memory.buf[:len(answer)]).decode(); memory.close(); memory.unlink()
return text
""",
    "a timer": """
answers = []
timer = threading.Timer(0.01, lambda: answers.append(lookup("7"))); timer.start(); timer.join()
return answers[0]
""",
    "a signal's handler": """
import signal
answers = []
before = signal.signal(signal.SIGUSR1, lambda number, frame: answers.append(lookup("7")))
signal.raise_signal(signal.SIGUSR1); signal.signal(signal.SIGUSR1, before)
return answers[0]
""",
    "a code interpreter": """
import code, contextlib, io
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    code.InteractiveInterpreter({"lookup": lookup}).runsource("print(lookup('7'), end='')")
return printed.getvalue()
""",
    "an asyncio server on loopback": """
async def serve(reader, writer):
    writer.write(lookup((await reader.read(1)).decode()).encode()); await writer.drain(); writer.close()
async def go():
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"7")
        return (await reader.read()).decode()
return asyncio.run(go())
""",
    # --- concurrency ---
    "uvloop": "import uvloop\nreturn uvloop.run(asyncio.to_thread(lookup, '7'))",
    "anyio": "import anyio\nreturn anyio.run(anyio.to_thread.run_sync, lookup, '7')",
    "trio": "import trio\nreturn trio.run(trio.to_thread.run_sync, lookup, '7')",
    "joblib": """
from joblib import Parallel, delayed
return Parallel(n_jobs=2, prefer="threads")([delayed(lookup)("7")])[0]
""",
    "greenlet": "import greenlet\nreturn greenlet.greenlet(lookup).switch('7')",
    "apscheduler": """
from apscheduler.schedulers.background import BackgroundScheduler
done, answers = threading.Event(), []
scheduler = BackgroundScheduler(); scheduler.start()
scheduler.add_job(lambda: (answers.append(lookup("7")), done.set()))
done.wait(10); scheduler.shutdown()
return answers[0]
""",
    "celery": """
import celery
app = celery.Celery("agent"); app.conf.task_always_eager = True
return app.task(lookup).delay("7").get()
""",
    # --- observability ---
    "opentelemetry": """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=open(os.devnull, "w"))))
with provider.get_tracer("agent").start_as_current_span("lookup"): return lookup("7")
""",
    "sentry": """
import sentry_sdk
sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", traces_sample_rate=1.0, shutdown_timeout=0)
with sentry_sdk.start_transaction(name="agent"): return lookup("7")
""",
    "ddtrace": "import ddtrace\nwith ddtrace.tracer.trace('lookup'): return lookup('7')",
    "logfire": """
import logfire
logfire.configure(send_to_logfire=False, console=False)
return logfire.instrument("lookup")(lookup)("7")
""",
    "langfuse": """
import langfuse
langfuse.Langfuse(public_key="pk", secret_key="sk", host="http://127.0.0.1:9", tracing_enabled=False)
return langfuse.observe()(lookup)("7")
""",
    "prometheus": """
import prometheus_client
calls = prometheus_client.Counter("calls", "calls", registry=prometheus_client.CollectorRegistry())
with calls.count_exceptions(): return lookup("7")
""",
    "structlog": "import structlog\nstructlog.get_logger().info('called')\nreturn lookup('7')",
    "loguru": "from loguru import logger\nreturn logger.catch(lookup)('7')",
    # --- decorators and containers ---
    "pydantic": "import pydantic\nreturn pydantic.validate_call(lookup)('7')",
    "tenacity": "import tenacity\nreturn tenacity.retry(stop=tenacity.stop_after_attempt(2))(lookup)('7')",
    "backoff": "import backoff\nreturn backoff.on_exception(backoff.expo, OSError, max_tries=2)(lookup)('7')",
    "cachetools": "import cachetools\nreturn cachetools.cached({})(lookup)('7')",
    "diskcache": """
import diskcache, tempfile
with tempfile.TemporaryDirectory() as folder, diskcache.Cache(folder) as cache:
    return cache.memoize()(lookup)("7")
""",
    "wrapt": """
import wrapt
return wrapt.decorator(lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))(lookup)("7")
""",
    "beartype": "import beartype\nreturn beartype.beartype(lookup)('7')",
    "pluggy": """
import pluggy
spec, impl = pluggy.HookspecMarker("agent"), pluggy.HookimplMarker("agent")
class Spec:
    @spec(firstresult=True)
    def call(self, order_id): ...
class Plugin:
    @impl
    def call(self, order_id): return lookup(order_id)
manager = pluggy.PluginManager("agent"); manager.add_hookspecs(Spec); manager.register(Plugin())
return manager.hook.call(order_id="7")
""",
    "blinker": """
import blinker
signal = blinker.signal("lookup"); signal.connect(lookup)
return signal.send("7")[0][1]
""",
    "dependency-injector": """
from dependency_injector import providers
return providers.Callable(lookup, "7")()
""",
    "typer": """
import typer.testing
app = typer.Typer()
@app.command()
def main(order_id: str): print(lookup(order_id), end="")
return typer.testing.CliRunner().invoke(app, ["7"]).output
""",
    "cloudpickle": "import cloudpickle\nreturn cloudpickle.loads(cloudpickle.dumps(lookup))('7')",
    "dill": "import dill\nreturn dill.loads(dill.dumps(lookup))('7')",
    "filelock": """
import filelock, tempfile
with tempfile.TemporaryDirectory() as folder, filelock.FileLock(folder + "/lock"): return lookup("7")
""",
    "attrs": "import attrs\nreturn attrs.make_class('Order', ['find'])(lookup).find('7')",
    "pydantic-settings": """
import pydantic_settings
class Settings(pydantic_settings.BaseSettings): order: str = "7"
return lookup(Settings().order)
""",
    "rich": "import rich.progress\nreturn [lookup(n) for n in rich.progress.track(['7'])][0]",
    "jinja2": "import jinja2\nreturn jinja2.Template('{{ tool(7) }}').render(tool=lambda n: lookup(str(n)))",
    "numpy": "import numpy\nreturn str(numpy.vectorize(lookup, otypes=[object])(['7'])[0])",
    "pandas": "import pandas\nreturn pandas.Series(['7']).map(lookup)[0]",
    "duckdb": """
import duckdb
con = duckdb.connect()
con.create_function("lookup", lookup, ["VARCHAR"], "VARCHAR")
return con.execute("select lookup('7')").fetchone()[0]
""",
    # --- clients ---
    "sqlalchemy": """
from sqlalchemy import create_engine, text
with create_engine("sqlite://").connect() as con: assert con.execute(text("select 1")).scalar() == 1
return lookup("7")
""",
    "psycopg": "import psycopg.sql\nassert psycopg.sql.SQL('select 1').as_string()\nreturn lookup('7')",
    "redis": "import redis\nredis.Redis(); return lookup('7')",
    "pymongo": "import pymongo\npymongo.MongoClient(connect=False).close(); return lookup('7')",
    "boto3": """
import boto3
boto3.client("s3", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
return lookup("7")
""",
    "requests": "import requests\nrequests.Session().close(); return lookup('7')",
    "httpx": "import httpx\nhttpx.Client().close(); return lookup('7')",
    "aiohttp": """
import aiohttp
async def go():
    async with aiohttp.ClientSession(): return lookup("7")
return asyncio.run(go())
""",
    "grpc": "import grpc\ngrpc.insecure_channel('127.0.0.1:9').close(); return lookup('7')",
    "openai": "import openai\nopenai.OpenAI(api_key='none').close(); return lookup('7')",
    "anthropic": "import anthropic\nanthropic.Anthropic(api_key='none').close(); return lookup('7')",
    "litellm": "import litellm\nlitellm.get_model_info('gpt-4o'); return lookup('7')",
    "playwright": """
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright: assert playwright.chromium.name
return lookup("7")
""",
    # --- services ---
    "flask": """
import flask
app = flask.Flask("agent"); app.add_url_rule("/", view_func=lambda: lookup("7"))
return app.test_client().get("/").text
""",
    "werkzeug": "import werkzeug.local\nreturn werkzeug.local.LocalProxy(lambda: lookup)('7')",
    "starlette": """
from starlette import applications, background, responses, routing, testclient
answers = []
def index(request):
    return responses.Response(background=background.BackgroundTask(lambda: answers.append(lookup("7"))))
testclient.TestClient(applications.Starlette(routes=[routing.Route("/", index)])).get("/")
return answers[0]
""",
    "fastapi": """
import fastapi, fastapi.testclient
app = fastapi.FastAPI()
@app.get("/")
def index(): return lookup("7")
return fastapi.testclient.TestClient(app).get("/").json()
""",
}
"""Name → body."""
PATCHED_BY_GEVENT = {
    "gevent": "import gevent.pool\nreturn gevent.pool.Pool(2).spawn(lookup, '7').get()",
    "gevent's threads": "import gevent\nreturn gevent.get_hub().threadpool.apply(lookup, ('7',))",
    **{
        name: AGENTS[name]
        for name in ("threads", "subprocess", "httpx", "sqlalchemy", "a server on loopback")
    },
}
"""The same for a module whose first line is `monkey.patch_all()`."""


def module(agents: dict[str, str], first_line: str = "") -> str:
    """Return the source of a module with these agents, called by their positions."""
    functions = [
        f"def agent_{number}():\n" + "\n".join(f"    {line}" for line in body.strip().splitlines())
        for number, body in enumerate(agents.values())
    ]
    return "\n".join([first_line + HEAD, *functions])
