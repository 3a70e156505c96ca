"""A PNG, a PDF and a WAV, and each format's record of a run with one of them in a message or a result."""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%%EOF"


def _wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(bytes(range(256)))
    return file.getvalue()


WAV = _wav()
FILES = {"image/png": PNG, "application/pdf": PDF, "audio/wav": WAV}
TIME = "2026-11-01T10:00:00Z"


def _b64(media_type: str) -> str:
    return base64.b64encode(FILES[media_type]).decode()


def _url(media_type: str) -> str:
    return f"data:{media_type};base64,{_b64(media_type)}"


def openai_part(kind: str) -> Record:
    """Return the part of a message of chat completions."""
    if kind == "image/png":
        return {"type": "image_url", "image_url": {"url": _url(kind)}}
    if kind == "audio/wav":
        return {"type": "input_audio", "input_audio": {"data": _b64(kind), "format": "wav"}}
    return {"type": "file", "file": {"file_data": _url(kind), "filename": "bill.pdf"}}


def responses_part(kind: str) -> Record:
    if kind == "image/png":
        return {"type": "input_image", "image_url": _url(kind)}
    if kind == "audio/wav":
        return {"type": "input_audio", "input_audio": {"data": _b64(kind), "format": "wav"}}
    return {"type": "input_file", "file_data": _b64(kind), "filename": "bill.pdf"}


def anthropic_part(kind: str) -> Record:
    name = {"image/png": "image", "application/pdf": "document"}.get(kind, "audio")
    return {"type": name, "source": {"type": "base64", "media_type": kind, "data": _b64(kind)}}


def gemini_part(kind: str) -> Record:
    # Its Python client writes the other alphabet.
    data = base64.urlsafe_b64encode(FILES[kind]).decode()
    return {"inlineData": {"mimeType": kind, "data": data}}


def semconv_part(kind: str) -> Record:
    return {"type": "blob", "mime_type": kind, "modality": kind.split("/")[0], "content": _b64(kind)}


def bedrock_part(kind: str) -> Record:
    name, form = {"image/png": ("image", "png"), "application/pdf": ("document", "pdf")}.get(
        kind, ("audio", "wav")
    )
    return {name: {"format": form, "name": "bill", "source": {"bytes": _b64(kind)}}}


def mcp_part(kind: str) -> Record:
    name = {"image/png": "image", "audio/wav": "audio"}.get(kind)
    if name is None:
        return {"type": "resource", "resource": {"uri": "file:///b", "mimeType": kind, "blob": _b64(kind)}}
    return {"type": name, "data": _b64(kind), "mimeType": kind}


def vercel_part(kind: str) -> Record:
    return {"type": "file", "data": _b64(kind), "mediaType": kind, "filename": "bill"}


def _chat(part: Record) -> list[Record]:
    asked = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
    return [asked, {"role": "assistant", "content": "A bill."}]


def _openai(part: Record) -> list[Record]:
    return [{"id": "t1", "created": 1793527200, "messages": _chat(part)}]


def _openai_result(part: Record) -> list[Record]:
    call = {"id": "k", "type": "function", "function": {"name": "scan", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Scan it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "k", "content": [{"type": "text", "text": "page 1"}, part]},
        {"role": "assistant", "content": "A bill."},
    ]
    return [{"id": "t1", "created": 1793527200, "messages": messages}]


def _responses(part: Record) -> list[Record]:
    content = [{"type": "input_text", "text": "What is it?"}, part]
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A bill."}],
    }
    response = {"id": "r1", "object": "response", "created_at": 1793527200, "model": "m", "output": [message]}
    return [{"input": [{"role": "user", "content": content}], "response": response}]


def _anthropic(part: Record) -> list[Record]:
    content = [part, {"type": "text", "text": "What is it?"}]
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    answer = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
    answer |= {"content": [{"type": "text", "text": "A bill."}], "stop_reason": "end_turn"}
    return [{"request": request, "response": answer, "created_at": TIME}]


def _span(attributes: Record) -> list[Record]:
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "chat m",
        "startTimeUnixNano": "1793527200000000000",
        "endTimeUnixNano": "1793527201000000000",
        "attributes": listed,
    }
    return [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}]


def _semconv(part: Record) -> list[Record]:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What is it?"}, part]}]
    answer = [
        {"role": "assistant", "parts": [{"type": "text", "content": "A bill."}], "finish_reason": "stop"}
    ]
    names = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    texts = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(answer)}
    return _span({**names, **texts})


def _openinference(part: Record) -> list[Record]:
    start = "llm.input_messages.0.message"
    texts = {
        "openinference.span.kind": "LLM",
        f"{start}.role": "user",
        f"{start}.contents.0.message_content.type": "text",
        f"{start}.contents.0.message_content.text": "What is it?",
        f"{start}.contents.1.message_content.type": "image",
        f"{start}.contents.1.message_content.image.image.url": part["image_url"]["url"],
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A bill.",
    }
    return _span(texts)


def _vercel(part: Record) -> list[Record]:
    asked = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]
    names = {"operation.name": "ai.generateText.doGenerate", "ai.operationId": "ai.generateText.doGenerate"}
    return _span({**names, "ai.prompt.messages": json.dumps(asked), "ai.response.text": "A bill."})


def _langfuse(part: Record) -> list[Record]:
    asked, answer = _chat(part)
    row = {"id": "o1", "traceId": "t1", "type": "GENERATION", "name": "chat", "startTime": TIME}
    row |= {"endTime": TIME, "input": json.dumps([asked]), "output": json.dumps(answer)}
    return [{**row, "parentObservationId": None, "environment": "default"}]


def _adk(part: Record) -> list[Record]:
    def event(author: str, role: str, *parts: Record) -> Record:
        return {"author": author, "timestamp": 1793527200.0, "content": {"role": role, "parts": list(parts)}}

    events = [event("user", "user", {"text": "What is it?"}, part), event("a", "model", {"text": "A bill."})]
    return [{"id": "s1", "appName": "shop", "userId": "u1", "events": events}]


def _bedrock(part: Record) -> list[Record]:
    asked = {"role": "user", "content": [{"text": "What is it?"}, part]}
    answer = {"role": "assistant", "content": [{"text": "A bill."}]}
    record = {"schemaType": "ModelInvocationLog", "timestamp": TIME, "requestId": "t1", "modelId": "m"}
    record |= {"operation": "Converse", "input": {"inputBodyJson": {"messages": [asked]}}}
    return [{**record, "output": {"outputBodyJson": {"output": {"message": answer}}}}]


def _jsonl(part: Record) -> list[Record]:
    return [{"trace_id": "t1", "started_at": TIME, "messages": _chat(part)}]


def _jsonl_json_result(part: Record) -> list[Record]:
    call = {"name": "scan", "args": {}, "result": json.dumps({"pages": [part]})}
    return [
        {"trace_id": "t1", "started_at": TIME, "input": "Scan", "final_response": "A", "tool_calls": [call]}
    ]


CARRIERS: dict[str, tuple[str, Callable[[str], Record], Callable[[Record], list[Record]]]] = {
    "chat completions": ("openai", openai_part, _openai),
    "a tool's result": ("openai", mcp_part, _openai_result),
    "Responses": ("openai", responses_part, _responses),
    "Messages": ("anthropic", anthropic_part, _anthropic),
    "OTel GenAI": ("otlp", semconv_part, _semconv),
    "Vercel AI": ("otlp", vercel_part, _vercel),
    "OpenInference": ("otlp", openai_part, _openinference),
    "Langfuse": ("langfuse", openai_part, _langfuse),
    "ADK": ("adk", gemini_part, _adk),
    "Bedrock": ("bedrock", bedrock_part, _bedrock),
    "our own": ("jsonl", anthropic_part, _jsonl),
    "JSON text of a result": ("jsonl", mcp_part, _jsonl_json_result),
}
"""Format → importer, the part in its shape, the records around it."""


def carried() -> list[tuple[str, str]]:
    """Return each format with each media type that it carries."""
    return [
        (name, kind) for name in CARRIERS for kind in FILES if name != "OpenInference" or kind == "image/png"
    ]


def records(name: str, kind: str) -> tuple[str, list[Record]]:
    """Return the importer and the records of a format with a file of a media type."""
    source, part, around = CARRIERS[name]
    return source, around(part(kind))
