"""Read an agent's JavaScript and TypeScript for `replay init`: entrypoints, frameworks, tools, variables.

There is no parser of these languages here, so names are recognised by how they are usually written. What is
proposed is checked by `replay doctor --probe`, which imports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
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
    r"^(?P<export>export\s+)?(?P<default>default\s+)?(?:async\s+)?function\s*\b(?P<name>\w*)\s*(?:<[^(]*>)?"
    r"\((?P<params>[^)]*)",
    re.M,
)
_ARROW = re.compile(
    r"^(?P<export>export\s+)?const\s+(?P<name>\w+)\s*(?::[^=\n]+)?=\s*(?:async\s*)?\((?P<params>[^)]*)\)[^=\n]*=>",
    re.M,
)
_COMMON_JS = re.compile(
    r"^(?P<export>(?:module\.)?exports\.)(?P<name>\w+)\s*="
    r"(?:\s*(?:async\s*)?(?:function\s*\w*\s*)?\((?P<params>[^)]*)\))?",
    re.M,
)
_CLASS = re.compile(
    r"^(?P<export>export\s+)?(?:default\s+)?class\s+(?P<name>\w+)[^{]*\{(?P<body>.*?)^\}", re.M | re.S
)
_METHOD = re.compile(r"^\s+(?:public\s+)?(?:async\s+)?(?P<name>\w+)\((?P<params>[^)]*)\)[^;\n]*\{$", re.M)
_LISTED = re.compile(r"(?:export|module\.exports\s*=)\s*\{([^}]*)\}")
_AGENT = r"(?:await\s+)?(?:new\s+\w*Agent\(|create\w*Agent\(|[\w.()\s]*\.compile\()"
_AGENT_OBJECT = re.compile(rf"^export\s+const\s+(?P<name>\w+)\s*=\s*{_AGENT}", re.M)
_FACTORY = re.compile(rf"\s*\)[^{{]*\{{(?:(?!^\}}).)*?^\s+return\s+{_AGENT}", re.M | re.S)
"""What follows the name of a function without parameters that returns an agent."""
_ENTRY_NAME = re.compile(r"^(run_?agent|run|agent|answer|chat|solve|respond|reply|ask|handle\w*|main)$", re.I)
_ENTRY_METHOD = re.compile(
    r"^(run|answer|chat|solve|respond|reply|ask|handle\w*|invoke|generate|stream)$", re.I
)
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
_VARIABLE = re.compile(
    r"""(?P<asked>\bif\s*\(\s*!?)?process\.env(?:\.|\[["'])(?P<name>[A-Z][A-Z0-9_]*)(?:["']\])?"""
    r"""(?P<default>\s*(?:\?\?|\|\||[=!]==?|\?[^.]))?"""
)
"""A variable; one that is asked for, or has a default, need not be set."""
_SERVER = re.compile(r"""\bmcpServers\s*:\s*\{\s*["']?([\w-]+)["']?\s*[:,}]""")
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
        _ModuleReader(text, shown, shown in entry_files, findings).read()
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


class _ModuleReader:
    """A reader of one module."""

    def __init__(self, text: str, file: str, is_entry_file: bool, findings: CodeFindings) -> None:
        self._text, self._file, self._findings = text, file, findings
        self._packages = set(_IMPORT.findall(text))
        listed = (word for group in _LISTED.findall(text) for word in group.split(","))
        self._exported = {word.split(" as ")[-1].strip() for word in listed}
        self._exported |= {match["name"] for match in _COMMON_JS.finditer(text)}
        self._base = 2 * bool(_MODEL_CALL.search(text)) + is_entry_file

    def read(self) -> None:
        """Take in what the module shows."""
        for package in sorted(self._packages):
            if package in FRAMEWORKS:
                self._findings.frameworks[FRAMEWORKS[package]] += 1
            for name in keys_of_package(package):
                self._findings.environment.setdefault(name)
        for match in _VARIABLE.finditer(self._text):
            self._findings.add_variable(match["name"], required=not (match["asked"] or match["default"]))
        for pattern in _NAMED_TOOLS:
            for name in pattern.findall(self._text):
                self._findings.names.setdefault(name)
        self._findings.servers.update(dict.fromkeys(_SERVER.findall(self._text)))
        for pattern in (_FUNCTION, _ARROW, _COMMON_JS):
            for match in pattern.finditer(self._text):
                if match["params"] is not None:
                    self._read_function(match)
        for match in _CLASS.finditer(self._text):
            if self._is_exported(match):
                self._read_class(match)
        # An agent of the OpenAI SDK is run by a function of its own.
        if "@openai/agents" not in self._packages:
            for match in _AGENT_OBJECT.finditer(self._text):
                self._propose(match["name"], match.start(), 3)

    def _is_exported(self, match: re.Match[str]) -> bool:
        return bool(match["export"]) or match["name"] in self._exported

    def _read_function(self, match: re.Match[str]) -> None:
        name, parameters = match["name"], match["params"].strip()
        export = "default" if match.groupdict().get("default") else name
        reference = self._reference(export, match.start())
        self._findings.functions.setdefault(name, reference)
        if _DISPATCHER.match(parameters) and "," in parameters:
            self._findings.dispatchers.append(reference)
        # A route handler of Next.js and others is called POST.
        score = self._score(name, parameters) - (name in self._findings.names) + 3 * (name == "POST")
        if not self._is_exported(match):
            return
        if parameters and score >= 3:
            self._propose(export, match.start(), score)
        elif "@openai/agents" not in self._packages and _FACTORY.match(self._text, match.end("params")):
            self._propose(export, match.start(), 4, factory=True)

    def _read_class(self, match: re.Match[str]) -> None:
        for method in _METHOD.finditer(match["body"]):
            score = self._score(method["name"], method["params"])
            if _ENTRY_METHOD.match(method["name"]) and _TEXT_NAME.match(method["params"]) and score >= 4:
                start = match.start("body") + method.start("name")
                self._propose(f"{match['name']}.{method['name']}", start, score)

    def _score(self, name: str, parameters: str) -> int:
        """Return how much speaks for a function that is called so."""
        takes_text = _TEXT_NAME.match(parameters)
        thread = bool(takes_text and takes_text["thread"])
        return self._base + 2 * bool(_ENTRY_NAME.match(name)) + 2 * bool(takes_text) + thread

    def _propose(self, name: str, start: int, score: int, *, factory: bool = False) -> None:
        guess = replace(self._reference(name, start), score=score, factory=factory)
        self._findings.entrypoints.append(guess)

    def _reference(self, name: str, start: int) -> CodeReference:
        line = self._text.count("\n", 0, start) + 1
        return CodeReference(value=f"./{self._file}#{name}", location=f"{self._file}:{line}")


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
