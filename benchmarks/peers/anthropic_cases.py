"""The questions of a judge through the bare client: python anthropic_cases.py FILE CONCURRENCY.

FILE has the arguments of every call, as `judging.py --questions FILE` writes them.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from anthropic import AsyncAnthropic

SERVER = Path(__file__).with_name("model_server.py")


def used():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), spent.ru_utime + spent.ru_stime


async def ask_all(url, questions, concurrency):
    waiting = iter(questions)
    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as client:

        async def ask():
            for question in waiting:
                await client.messages.create(**question)

        await asyncio.gather(*(ask() for _ in range(concurrency)))


def main(file: str, concurrency: int) -> None:
    questions = json.loads(Path(file).read_text())
    command = [sys.executable, SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            wall, cpu = used()
            asyncio.run(ask_all(url, questions, concurrency))
            ended, spent = used()
        finally:
            server.kill()
    print(json.dumps({"wall_s": ended - wall, "cpu_s": spent - cpu, "version": version("anthropic")}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
