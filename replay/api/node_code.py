"""Read an agent's JavaScript and TypeScript for `replay init`: entrypoints, frameworks, tools, variables.

There is no parser of these languages here, so names are recognised by how they are usually written. What is
proposed is checked by `replay doctor --probe`, which imports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from replaydiff.replay.api.agent_code import CodeFindings, CodeReference, source_files
from replaydiff.replay.api.model_keys import keys_of_package

ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs")
FRAMEWORKS = {
    "ai": "ai",
    "@openai/agents": "openai-agents",
    "@langchain/core": "langchain",
    "@langchain/langgraph": "langchain",
    "langchain": "langchain",
    "@mastra/core": "mastra",
    "@modelcontextprotocol/sdk": "mcp",
    "@anthropic-ai/claude-agent-sdk": "claude-agent-sdk",
}
"""Package → its name in `tools`."""
_IMPORT = re.compile(r"""(?:\bfrom\s*|\brequire\(\s*|\bimport\s*\(?\s*)["']((?:@[\w.-]+/)?[\w.-]+)""")
_FUNCTION = re.compile(
    r"^(?P<export>export\s+)?(?:default\s+)?(?:async\s+)?function\s+(?P<name>\w+)\s*(?:<[^(]*>)?"
    r"\((?P<params>[^)]*)",
    re.M,
)
_ARROW = re.compile(
    r"^(?P<export>export\s+)?const\s+(?P<name>\w+)\s*(?::[^=\n]+)?=\s*(?:async\s*)?\((?P<params>[^)]*)\)[^=\n]*=>",
    re.M,
)
_COMMON_JS = re.compile(r"^(?:module\.)?exports\.(\w+)\s*=", re.M)
_LISTED = re.compile(r"(?:export|module\.exports\s*=)\s*\{([^}]*)\}")
_AGENT_OBJECT = re.compile(
    r"^export\s+const\s+(?P<name>\w+)\s*=\s*(?:await\s+)?(?:new\s+(?:\w*Agent)\(|create\w*Agent\(|[\w.()\s]*\.compile\()",
    re.M,
)
_ENTRY_NAME = re.compile(r"^(run_?agent|run|agent|answer|chat|solve|respond|reply|ask|handle\w*|main)$", re.I)
_TEXT_NAME = re.compile(
    r"^\W*(?P<thread>(session|thread|conversation|chat)(_?id)?\b[^,]*,\s*)?"
    r"(text|messages?|input|question|query|prompt|user(_?input|_?message)?|content)\b",
    re.I,
)
"""The first parameters of an entrypoint; `thread` is the id of a conversation that it keeps itself."""
_MODEL_CALL = re.compile(
    r"\b(generateText|streamText|generateObject|query|run)\(|\.(invoke|generate|stream)\(|"
    r"\b(messages|completions|responses)\.(create|stream)\(|new\s+\w*Agent\("
)
_NAMED_TOOLS = (
    # `cancel_order: tool({`, `const cancelOrder = tool({`, `registerTool("cancel_order"`
    re.compile(r"""["']?(\w+)["']?\s*:\s*(?:tool|dynamicTool|createTool)\("""),
    re.compile(r"""\b(?:registerTool|\.tool|^tool|[^\w.]tool)\(\s*["'](\w[\w-]*)["']"""),
    # A definition for the API of a model: `name: "cancel_order"` near its schema.
    re.compile(
        r"""\b["']?name["']?\s*:\s*["'](\w+)["'](?=[^;]{0,600}?\b(?:input_schema|inputSchema|parameters|schema)\b)"""
    ),
)
_VARIABLE = re.compile(r"""process\.env(?:\.([A-Z][A-Z0-9_]*)|\[["']([A-Z][A-Z0-9_]*)["']\])""")
_DISPATCHER = re.compile(r"^_*(name|tool_?name|fn_?name|function_?name|tool)\b", re.I)


def read_node_code(folder: Path, findings: CodeFindings) -> bool:
    """Take in what the JavaScript and TypeScript of a folder show; return whether it is a package at all."""
    package = folder / "package.json"
    if not package.is_file():
        return False
    entry_files = _entry_files(package)
    for file in source_files(folder, *ENDINGS):
        shown = file.relative_to(folder).as_posix()
        if re.search(r"\.(d|test|spec|config)\.\w+$", shown):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            findings.unreadable.append(shown)
            continue
        _read(text, shown, shown in entry_files, findings)
    return True


def _entry_files(package: Path) -> set[str]:
    """Return the files that a package.json names: main, exports, bin and scripts."""
    try:
        content = json.loads(package.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    names = (content.get(key) for key in ("main", "module", "exports", "bin", "scripts"))
    texts = [text for name in names for text in _texts(name)]
    words = (word for text in texts for word in text.split())
    return {word.removeprefix("./") for word in words if word.endswith(ENDINGS)}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)


def _read(text: str, file: str, is_entry_file: bool, findings: CodeFindings) -> None:
    for package in _IMPORT.findall(text):
        if package in FRAMEWORKS:
            findings.frameworks[FRAMEWORKS[package]] += 1
        for name in keys_of_package(package):
            findings.environment.setdefault(name)
    for first, second in _VARIABLE.findall(text):
        findings.environment.setdefault(first or second)
    names = [name for pattern in _NAMED_TOOLS for name in pattern.findall(text)]
    for name in names:
        findings.names.setdefault(name)
    listed = {word.split(" as ")[-1].strip() for group in _LISTED.findall(text) for word in group.split(",")}
    exported = {*_COMMON_JS.findall(text), *listed}
    asks_model = bool(_MODEL_CALL.search(text))
    for match in (*_FUNCTION.finditer(text), *_ARROW.finditer(text)):
        name, parameters = match["name"], match["params"].strip()
        location = _location(text, match, file)
        findings.functions.setdefault(name, CodeReference(value=f"./{file}#{name}", location=location))
        if _DISPATCHER.match(parameters) and "," in parameters:
            findings.dispatchers.append(CodeReference(value=f"./{file}#{name}", location=location))
        is_exported = bool(match["export"]) or name in exported
        score = 2 * bool(_ENTRY_NAME.match(name)) + 2 * asks_model + is_entry_file
        takes_text = _TEXT_NAME.match(parameters)
        score += 2 * bool(takes_text) + bool(takes_text and takes_text["thread"]) - (name in findings.names)
        # A route handler of Next.js and others.
        score += 3 * (name == "POST")
        if is_exported and parameters and score >= 3:
            findings.entrypoints.append(
                CodeReference(value=f"./{file}#{name}", location=location, score=score)
            )
    for match in _AGENT_OBJECT.finditer(text):
        location = _location(text, match, file)
        findings.entrypoints.append(
            CodeReference(value=f"./{file}#{match['name']}", location=location, score=3)
        )


def _location(text: str, match: re.Match[str], file: str) -> str:
    return f"{file}:{text.count(chr(10), 0, match.start()) + 1}"


def add_functions_of_tools(findings: CodeFindings) -> None:
    """Name the functions behind tools of another spelling: `cancelOrder as cancel_order`."""
    by_spelling = {_spelling(name): reference for name, reference in findings.functions.items()}
    for name in findings.names:
        reference = by_spelling.get(_spelling(name))
        if name not in findings.functions and reference is not None:
            findings.functions[name] = CodeReference(
                value=f"{reference.value} as {name}", location=reference.location
            )


def _spelling(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
