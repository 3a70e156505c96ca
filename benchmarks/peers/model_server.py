"""A server of Anthropic's API that answers at once: prints its port, and serves until it is ended."""

import asyncio
import json

ANSWER = {"reasoning": "Fine.", "score": 3}
REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_sequence": None,
    "content": [{"type": "text", "text": json.dumps(ANSWER)}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 900, "output_tokens": 20},
}
BODY = json.dumps(REPLY).encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)


async def serve(reader, writer):
    while head := await reader.readuntil(b"\r\n\r\n"):
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        writer.write(HEAD + BODY)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
