"""A support agent without a model: what it does is written in its input, so a test says what happens.

The input is JSON: a list of steps `["tool", {args}]`; any other input is one look-up of that order.
Its tools say so if they ever really run.
"""

import asyncio
import contextvars
import json
import threading
from concurrent.futures import ThreadPoolExecutor

REAL = "THE REAL TOOL RAN"
session = contextvars.ContextVar("session", default=None)


def _exec(name, args) -> str:
    return f"{REAL}: {name}"


async def _exec_async(name, args) -> str:
    return f"{REAL}: {name}"


def steps_of(user_message):
    if user_message.startswith("["):
        return json.loads(user_message)
    return [["get_order_status", {"order_id": user_message}]]


def run_agent(user_message, model="small", style=None):
    """Make the calls and answer with their results."""
    results = [_exec(name, args) for name, args in steps_of(user_message)]
    return {
        "final_response": " | ".join(results),
        "usage": {"input_tokens": 10, "output_tokens": len(results)},
        "model": model,
        "style": style,
    }


def name_model(user_message, model="small"):
    return f"{model}: {user_message}"


def careful(user_message):
    """Survive every failing tool, as agents do, and answer anyway."""
    results = []
    for name, args in steps_of(user_message):
        try:
            results.append(_exec(name, args))
        except Exception as error:  # noqa: BLE001 - as agents do
            results.append(f"{type(error).__name__}({error})")
    return " | ".join(results)


def in_threads(user_message):
    """Each call in a thread: a pool's, then one of its own."""
    steps = steps_of(user_message)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda step: _exec(*step), steps))
    own = []
    thread = threading.Thread(target=lambda: own.append(_exec(*steps[0])))
    thread.start()
    thread.join()
    return " | ".join(results + own)


def waits_for_its_thread(user_message):
    """Wait for ever for a thread that a stopped call has ended."""
    answered = threading.Event()

    def work():
        _exec(*steps_of(user_message)[0])
        answered.set()

    threading.Thread(target=work).start()
    answered.wait()


async def together(user_message):
    """Calls of every async kind, with pauses in which other trials run."""
    session.set(user_message)
    [[name, args]] = steps_of(user_message)
    results = [_exec(name, args)]
    await asyncio.sleep(0.01)
    results.append(await _exec_async(name, args))
    results.append(await asyncio.to_thread(_exec, name, args))
    loop = asyncio.get_running_loop()
    results.append(await loop.run_in_executor(None, _exec, name, args))
    first, second = await asyncio.gather(_exec_async(name, args), _exec_async(name, args))
    if session.get() != user_message:
        return "another trial's context"
    return " | ".join([*results, first, second])
