"""Ordinary agents on packages of PyPI: each asks for the tool `lookup` in the way of its package.

A function a package, called `agent_NAME`; it returns what the tool answered.
"""

from __future__ import annotations

MODULE = """
import asyncio, importlib, os, threading
GEVENT
def lookup(order_id): return "the real tool ran"

def agent_threads():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool: return pool.submit(lookup, "7").result()

def agent_process_pool():
    from concurrent.futures import ProcessPoolExecutor
    import multiprocessing
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return pool.submit(lookup, "7").result()

def agent_spawned_pool():
    from concurrent.futures import ProcessPoolExecutor
    import multiprocessing
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(lookup, "7").result()

def agent_subprocess():
    import subprocess, sys
    return subprocess.check_output([sys.executable, "-c", "print('x')"], text=True) and lookup("7")

def agent_asyncio():
    async def go(): return await asyncio.to_thread(lookup, "7")
    return asyncio.run(go())

def agent_uvloop():
    import uvloop
    async def go(): return await asyncio.gather(asyncio.to_thread(lookup, "7"))
    return uvloop.run(go())[0]

def agent_gevent():
    import gevent
    from gevent.pool import Pool
    gevent.sleep(0.001)
    return Pool(2).spawn(lookup, "7").get()

def agent_gevent_threadpool():
    import gevent
    return gevent.get_hub().threadpool.apply(lookup, ("7",))

def agent_anyio():
    import anyio
    async def go():
        async with anyio.create_task_group():
            return await anyio.to_thread.run_sync(lookup, "7")
    return anyio.run(go)

def agent_joblib():
    from joblib import Parallel, delayed
    return Parallel(n_jobs=2, prefer="threads")(delayed(lookup)("7") for _ in range(1))[0]

def agent_opentelemetry():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=open(os.devnull, "w"))))
    with provider.get_tracer("agent").start_as_current_span("lookup"): return lookup("7")

def agent_sentry():
    import sentry_sdk
    sentry_sdk.init(dsn=None, traces_sample_rate=1.0)
    with sentry_sdk.start_transaction(name="agent"): return lookup("7")

def agent_sqlalchemy():
    from sqlalchemy import create_engine, text
    with create_engine("sqlite://").connect() as con:
        assert con.execute(text("select 1")).scalar() == 1
    return lookup("7")

def agent_pydantic():
    import pydantic
    return pydantic.validate_call(lookup)("7")

def agent_tenacity():
    import tenacity
    return tenacity.retry(stop=tenacity.stop_after_attempt(2))(lookup)("7")

def agent_cachetools():
    import cachetools
    return cachetools.cached({})(lookup)("7")

def agent_wrapt():
    import wrapt
    return wrapt.decorator(lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))(lookup)("7")

def agent_beartype():
    import beartype
    return beartype.beartype(lookup)("7")

def agent_structlog():
    import structlog
    structlog.wrap_logger(None)
    return lookup("7")

def agent_numpy():
    import numpy
    return lookup(str(numpy.int64(7)))

def agent_httpx():
    import httpx
    httpx.Client().close()
    return lookup("7")

def agent_openai():
    import openai
    openai.OpenAI(api_key="none").close()
    return lookup("7")

def agent_anthropic():
    import anthropic
    anthropic.Anthropic(api_key="none").close()
    return lookup("7")

def agent_aiohttp():
    import aiohttp
    async def go():
        async with aiohttp.ClientSession(): return lookup("7")
    return asyncio.run(go())

def agent_trio():
    import trio
    async def go(): return await trio.to_thread.run_sync(lookup, "7")
    return trio.run(go)

def agent_dill():
    import dill
    return dill.loads(dill.dumps(lookup))("7")

def agent_ddtrace():
    import ddtrace
    with ddtrace.tracer.trace("lookup"): return lookup("7")

def run(name): return globals()[f"agent_{name}"]()
"""
PLAIN = (
    "threads", "process_pool", "spawned_pool", "subprocess", "asyncio", "uvloop", "anyio", "joblib",
    "opentelemetry", "sentry", "sqlalchemy", "pydantic", "tenacity", "cachetools", "wrapt", "beartype",
    "structlog", "numpy", "httpx", "openai", "anthropic", "aiohttp", "trio", "dill", "ddtrace",
)  # fmt: skip
PATCHED_BY_GEVENT = ("gevent", "gevent_threadpool", "threads", "subprocess", "httpx", "sqlalchemy")


def source(*, with_gevent: bool) -> str:
    """Return the module of the agents, with or without gevent in the place of Python's threads."""
    first = "from gevent import monkey; monkey.patch_all()" if with_gevent else ""
    return (f"{first}\n" if with_gevent else "") + MODULE.replace("GEVENT", "")
