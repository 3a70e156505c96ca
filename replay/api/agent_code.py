"""Read the source code of an agent, without importing it, for what replay.toml must name.

Found are entrypoints, dispatchers, tables and definitions of tools, frameworks, endpoints of services, and
the environment variables that the code reads.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from replaydiff.replay.api.local_tools import local_tools
from replaydiff.replay.api.model_keys import keys_of_class, keys_of_package, keys_of_text
from replaydiff.replay.api.reach import Need


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FRAMEWORKS = {
    "langgraph": "langchain",
    "langchain": "langchain",
    "langchain_core": "langchain",
    "agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "mcp": "mcp",
    "crewai": "crewai",
    "llama_index": "llama-index",
    "strands": "strands",
    "smolagents": "smolagents",
    "autogen_agentchat": "autogen",
    "claude_agent_sdk": "claude-agent-sdk",
}
"""Imported package → the name that `tools` has for it."""
_SKIPPED = _words("venv env node_modules tests test build dist site-packages __pycache__ docs migrations")
_MOST_FILES, _MOST_BYTES = 2000, 1_000_000
_ENTRY_NAMES = re.compile(
    r"^(run_agent|run|answer|chat|solve|respond|reply|ask|main|handle(_message)?|invoke)$"
)
_ENTRY_CLASSES = re.compile(r"(Agent|Bot|Assistant|Chat)")
_ENTRY_METHODS = ("run", "solve", "answer", "chat", "invoke", "ainvoke", "__call__")
_TEXTS = _words("text message messages input question query prompt user_input user_message content state")
_TEXT_TYPES = re.compile(
    r"['\"]?(typing\.|t\.)?(str|Any|Optional\[str|Annotated\[str|Union\[str|list|List|Sequence|Iterable|dict|Dict|Mapping)\b"
)
_MODEL_CALLS = _words("create stream run run_sync invoke ainvoke parse kickoff complete completion")
_MODEL_FUNCTIONS = _words("query ClaudeSDKClient generate_text completion acompletion")
_GRAPHS = _words("create_react_agent create_agent compile AgentExecutor create_deep_agent")
_AGENT_CLASSES = {
    "pydantic_ai": _words("Agent"),
    "strands": _words("Agent"),
    "smolagents": _words("CodeAgent ToolCallingAgent"),
}
"""Imported package → its classes whose objects are called with a text."""
_RUN_AGENTS = _words("Agent LlmAgent SequentialAgent LoopAgent ParallelAgent")
"""Classes of the OpenAI SDK and of ADK; a runner is called with their objects."""
_THREADS = re.compile(r"^(session|thread|conversation|chat)(_?id)?$")
_TOOL_NAMES = _words("name tool tool_name function function_name fn_name")
_TOOL_ARGS = _words("args arguments input params tool_input tool_args parameters inputs kwargs")
_TOOL_DECORATORS = _words("tool function_tool tool_plain")
_TABLES = re.compile(r"(tool|handler|function|registry|dispatch|action|command)", re.IGNORECASE)
_RESPONSES = _words("jsonify JsonResponse JSONResponse Response")
_REPLIES = _words("reply response answer text message output content final_response")
_SCHEMA_KEYS = _words("input_schema parameters inputSchema")
_SERVED_TOOL = re.compile(r"mcp__\w+?__\w+")
"""A tool of an MCP server, as the Claude Agent SDK names it: `mcp__shop__cancel_order`."""
_SYSTEM_VARIABLES = _words(
    "PATH HOME USER PWD TERM LANG CI TMPDIR PYTHONPATH PORT HOST DEBUG LOG_LEVEL NODE_ENV"
)
_MAPPINGS = ("os.environ", "environ")
_GETTERS = ("os.getenv", "getenv", "os.environ.get", "environ.get")
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|_AUTH)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReference:
    """A name that the code shows, and where."""

    value: str
    """As replay.toml writes it: `app.agent:run_agent`."""
    location: str
    """`app/agent.py:12`."""
    score: int = 0
    """How much speaks for it; compared with other guesses of its kind only."""
    factory: bool = False
    """It returns the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An HTTP endpoint of the agent."""

    path: str
    location: str
    request: str | None
    """A request template, where the endpoint's model has one field for the text."""
    response: str | None
    """The path of the reply, where the endpoint returns a literal object or one of a model."""
    returns_model: bool = False
    """It returns an object of a class, with the reply as an attribute."""
    framework: str = ""
    """`fastapi`, `flask`, `django` or `rest_framework`, if it can be called in this process; or empty."""
    module: str = ""
    name: str = ""
    """Of a function, or of a class of views."""
    is_class: bool = False
    is_async: bool = False
    app: str = ""
    """The application of Flask (`shop.web:app`), or the module of Django's settings."""
    model: str | None = None
    """The model of the request's body."""
    text: str | None = None
    """The field of the body with the user's message."""


@dataclass(slots=True)
class CodeFindings:
    """The findings in the code that was read."""

    entrypoints: list[CodeReference] = field(default_factory=list)
    agents: list[tuple[str, CodeReference]] = field(default_factory=list)
    """Agents that a runner of their framework, which is named first, is called with."""
    dispatchers: list[CodeReference] = field(default_factory=list)
    tables: list[CodeReference] = field(default_factory=list)
    filled_tables: list[CodeReference] = field(default_factory=list)
    """Tables that the code fills, so that it does not show what is in them."""
    functions: dict[str, CodeReference] = field(default_factory=dict)
    frameworks: Counter[str] = field(default_factory=Counter)
    names: dict[str, None] = field(default_factory=dict)
    """Names of tools, in their order."""
    listed: dict[str, None] = field(default_factory=dict)
    """Functions in the list of tools that an agent is made with."""
    decorated: set[str] = field(default_factory=set)
    """Functions whose decorator makes a tool, perhaps of another name."""
    servers: dict[str, None] = field(default_factory=dict)
    """Names of the servers that an agent of the Claude Agent SDK is given."""
    local: set[str] = field(default_factory=set)
    """Functions whose effects stay in the agent's folder."""
    environment: dict[str, None] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    """Every class of the code, by its name; a module's own are looked up first."""
    flask_apps: list[str] = field(default_factory=list)
    """Applications and factories of them: `shop.web:app`, `shop.web:create_app()`."""
    django_settings: str | None = None
    """The module that manage.py or wsgi.py names."""
    needs: list[Need] = field(default_factory=list)
    """Services and files outside of a boundary."""
    unreadable: list[str] = field(default_factory=list)

    def add_variable(self, name: str, *, required: bool) -> None:
        """Take in a variable of the environment that the code reads.

        Args:
            name: as the code has it.
            required: whether the code has no default. One with a default is left to it, unless it is a
                secret, which has none that works.
        """
        if (
            name not in _SYSTEM_VARIABLES
            and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
            and (required or _SECRET.search(name.upper()))
        ):
            self.environment.setdefault(name)


class CodeReader:
    """A reader of one module."""

    def __init__(self, module: str, file: str, findings: CodeFindings) -> None:
        self._module, self._file, self._findings = module, file, findings
        self._models = dict(findings.classes)
        self._packages: set[str] = set()
        """What the module imports, by the first name."""
        self._filled: set[str] = set()
        """Names whose elements are assigned: `REGISTRY[name] = function`."""

    def read(self, tree: ast.Module) -> None:
        """Take in what the module defines."""
        for node in ast.walk(tree):
            self._read_anywhere(node)
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                self._models[statement.name] = statement
        self._findings.local.update(local_tools(tree))
        for statement in tree.body:
            if isinstance(statement, Function):
                self._read_function(statement)
            elif isinstance(statement, ast.ClassDef):
                self._read_class(statement)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                self._read_assignment(statement)

    def _guess(self, name: str, node: ast.stmt | ast.expr, score: int = 0) -> CodeReference:
        return CodeReference(
            value=f"{self._module}:{name}", location=f"{self._file}:{node.lineno}", score=score
        )

    def _read_anywhere(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            self._imported(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {alias.name for alias in node.names}
            # `agents` is a common name of a folder of one's own.
            is_sdk = node.module.partition(".")[0] != "agents" or names & {"Agent", "Runner", "function_tool"}
            self._imported([node.module, *(f"{node.module}.{name}" for name in names)] if is_sdk else [])
            for name in names:
                self._needs(keys_of_class(name))
            if node.module.startswith("google.adk"):
                self._findings.frameworks["google-adk"] += 1
                self._packages.add("google.adk")
        elif isinstance(node, ast.Dict):
            self._read_definition(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._needs(keys_of_text(node.value))
            if _SERVED_TOOL.fullmatch(node.value):
                self._findings.names.setdefault(node.value)
        elif isinstance(node, Function):
            for decorator in node.decorator_list:
                if _called(decorator) in _TOOL_DECORATORS:
                    self._findings.names.setdefault(_explicit_name(decorator) or node.name)
                    self._findings.decorated.add(node.name)
        elif isinstance(node, ast.keyword) and node.arg == "tools" and isinstance(node.value, ast.List):
            self._findings.listed.update((name, None) for name in map(_function_of, node.value.elts) if name)
        elif isinstance(node, ast.keyword) and node.arg == "mcp_servers" and isinstance(node.value, ast.Dict):
            servers = (_text_of(key) for key in node.value.keys)
            self._findings.servers.update((name, None) for name in servers if name)
        elif isinstance(node, ast.Call | ast.Subscript):
            self._read_variable(node)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                self._filled.add(ast.unparse(node.value))

    def _imported(self, modules: Iterable[str]) -> None:
        for module in modules:
            top = module.partition(".")[0]
            self._packages.add(top)
            if top in FRAMEWORKS:
                self._findings.frameworks[FRAMEWORKS[top]] += 1
            self._needs(keys_of_package(module))

    def _needs(self, variables: Iterable[str]) -> None:
        for name in variables:
            self._findings.environment.setdefault(name)

    def _read_definition(self, node: ast.Dict) -> None:
        """Take in the name of a tool definition: an object with a name and a schema of its arguments."""
        fields = {_text_of(key): value for key, value in zip(node.keys, node.values, strict=True)}
        name = _text_of(fields.get("name"))
        if name is not None and _SCHEMA_KEYS & fields.keys():
            self._findings.names.setdefault(name)

    def _read_variable(self, node: ast.Call | ast.Subscript) -> None:
        """Take in an environment variable: `os.environ["X"]`, `os.environ.get("X")`, `os.getenv("X")`."""
        is_required = isinstance(node, ast.Subscript)
        source = node.value if isinstance(node, ast.Subscript) else node.func
        key = node.slice if isinstance(node, ast.Subscript) else node.args[0] if node.args else None
        name = _text_of(key)
        if name == "DJANGO_SETTINGS_MODULE" and isinstance(node, ast.Call) and len(node.args) > 1:
            self._findings.django_settings = _text_of(node.args[1])
        if name is not None and ast.unparse(source) in (_MAPPINGS if is_required else _GETTERS):
            self._findings.add_variable(name, required=is_required)

    def _read_function(self, node: Function) -> None:
        self._findings.functions.setdefault(node.name, self._guess(node.name, node))
        parameters = _parameters(node)
        if node.name in ("create_app", "make_app") and "flask" in self._packages:
            self._findings.flask_apps.append(f"{self._module}:{node.name}()")
        if _is_dispatcher(parameters):
            self._findings.dispatchers.append(self._guess(node.name, node, _dispatcher_score(node)))
            return
        is_tool = {_called(decorator) for decorator in node.decorator_list} & _TOOL_DECORATORS
        service = self._service(node)
        if service is not None:
            self._findings.services.append(service)
        elif self._is_factory(node, parameters):
            score = 4 + _module_score(self._module) - 2 * node.name.startswith("_")
            guess = replace(self._guess(node.name, node, score), factory=True)
            self._findings.entrypoints.append(guess)
        elif not is_tool and _takes_thread(node, parameters):
            self._findings.entrypoints.append(self._guess(node.name, node, 3 + _module_score(self._module)))
        elif not is_tool and _takes_text(parameters):
            score = (
                3 * bool(_ENTRY_NAMES.match(node.name)) + 2 * ("agent" in node.name) + 2 * _asks_model(node)
            )
            score += _module_score(self._module) - 2 * node.name.startswith("_")
            if score >= 3:
                self._findings.entrypoints.append(self._guess(node.name, node, score))

    def _is_factory(self, node: Function, parameters: list[ast.arg]) -> bool:
        """Return whether a function without required parameters returns an agent that it makes."""
        if len(parameters) > len(node.args.defaults):
            return False
        agents = {
            ast.unparse(inner.targets[0])
            for inner in ast.walk(node)
            if isinstance(inner, ast.Assign) and self._is_agent(inner.value)
        }
        return any(
            isinstance(inner, ast.Return)
            and inner.value is not None
            and (self._is_agent(inner.value) or ast.unparse(inner.value) in agents)
            for inner in ast.walk(node)
        )

    def _is_agent(self, value: ast.expr | None) -> bool:
        """Return whether an expression makes an agent that can be called as an entrypoint."""
        if isinstance(value, ast.Await):
            value = value.value
        if not isinstance(value, ast.Call):
            return False
        classes = [names for package, names in _AGENT_CLASSES.items() if package in self._packages]
        is_pattern = isinstance(value.func, ast.Attribute) and ast.unparse(value.func.value) in (
            "re",
            "regex",
        )
        return not is_pattern and _called(value) in frozenset().union(_GRAPHS, *classes)

    def _read_class(self, node: ast.ClassDef) -> None:
        methods = {inner.name: inner for inner in node.body if isinstance(inner, Function)}
        for name, method in methods.items():
            if _is_dispatcher(_parameters(method)[1:]):
                guess = self._guess(f"{node.name}.{name}", method, _dispatcher_score(method))
                self._findings.dispatchers.append(guess)
        # A method that is not called by itself is named.
        entry_method = next((name for name in _ENTRY_METHODS if name in methods), None)
        post = methods.get("post")
        if post is not None and [parameter.arg for parameter in _parameters(post)] == ["self", "request"]:
            if (service := self._view(post, node.name, is_class=True)) is not None:
                self._findings.services.append(service)
            return
        chosen = entry_method or next((name for name in methods if _ENTRY_NAMES.match(name)), None)
        if chosen is None:
            asking = (name for name, method in methods.items() if name[0] != "_" and _asks_model(method))
            chosen = next(asking, None)
        if chosen is None or not _takes_text(_parameters(methods[chosen])[1:]):
            return
        score = 4 * bool(_ENTRY_CLASSES.search(node.name)) + 2 * any(map(_asks_model, methods.values()))
        score += _module_score(self._module) + _asks_model(methods[chosen])
        if score >= 4:
            named = node.name if entry_method else f"{node.name}.{chosen}"
            self._findings.entrypoints.append(
                self._guess(named, node if entry_method else methods[chosen], score)
            )

    def _read_assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name):
            return
        value = node.value
        if isinstance(value, ast.Call) and _called(value) == "Flask":
            self._findings.flask_apps.insert(0, f"{self._module}:{target.id}")
        if self._is_agent(value):
            self._findings.entrypoints.append(self._guess(target.id, node, 5))
        elif isinstance(value, ast.Call) and _called(value) in _RUN_AGENTS:
            for package, framework in (("agents", "openai-agents"), ("google.adk", "google-adk")):
                if package in self._packages:
                    # One that hands over to others, or has the name that ADK looks for, comes first.
                    hands_over = {"handoffs", "sub_agents"} & {keyword.arg for keyword in value.keywords}
                    score = 2 * bool(hands_over) + (target.id == "root_agent")
                    self._findings.agents.append((framework, self._guess(target.id, node, score)))
        names = _names_in_table(value) if value is not None and _TABLES.search(target.id) else []
        if names:
            self._findings.tables.append(self._guess(target.id, node, len(names)))
            for name in names:
                self._findings.names.setdefault(name)
        elif _TABLES.search(target.id) and (
            isinstance(value, ast.DictComp)
            or (isinstance(value, ast.Dict) and not value.keys and target.id in self._filled)
        ):
            # One that is made of others has what the agent calls.
            self._findings.filled_tables.append(
                self._guess(
                    target.id, node, 2 * isinstance(value, ast.DictComp) + _module_score(self._module)
                )
            )

    def _service(self, node: Function) -> Service | None:
        """Return the endpoint that a decorator (`@app.post("/chat")`) makes of a function, or a view."""
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
                continue
            path = _text_of(decorator.args[0]) if decorator.args else None
            is_posted = decorator.func.attr == "post" or (
                decorator.func.attr == "route" and "POST" in ast.unparse(decorator)
            )
            if is_posted and path is not None:
                return self._endpoint(node, path, ast.unparse(decorator.func.value))
        names = [parameter.arg for parameter in _parameters(node)]
        return self._view(node, node.name) if names == ["request"] else None

    def _view(self, node: Function, name: str, *, is_class: bool = False) -> Service | None:
        """Return a view of Django, or of its REST framework, that answers with a literal object."""
        if not {"django", "rest_framework"} & self._packages or _response(node) is None:
            return None
        return replace(self._endpoint(node, "/", ""), name=name, is_class=is_class)

    def _endpoint(self, node: Function, path: str, app: str) -> Service:
        model, field = self._body(node)
        text = field or _read_key(node)
        frameworks = ("fastapi" if model is not None else "", "flask", "rest_framework", "django")
        framework = next((name for name in frameworks if name in self._packages), "")
        kind = "messages" if text == "messages" else "input"
        return Service(
            path=path,
            location=f"{self._file}:{node.lineno}",
            request=f'{{"{text}": {{{{ {kind} | tojson }}}}}}' if text else None,
            response=_response(node) or self._field_of_reply(node),
            returns_model=_response(node) is None,
            framework=framework,
            module=self._module,
            name=node.name,
            is_async=isinstance(node, ast.AsyncFunctionDef),
            app=f"{self._module}:{app}",
            model=model,
            text=None if text == "messages" else text,
        )

    def _field_of_reply(self, node: Function) -> str | None:
        """Return the path of the text in an object of the class that a function is annotated to return."""
        model = self._models.get(ast.unparse(node.returns)) if node.returns is not None else None
        names = [
            inner.target.id
            for inner in (model.body if model is not None else ())
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
        ]
        return next((f"$.{name}" for name in names if name in _REPLIES), None)

    def _body(self, node: Function) -> tuple[str | None, str | None]:
        """Return the model of the body, if the function needs nothing else, and its field for the text."""
        required = node.args.args[: len(node.args.args) - len(node.args.defaults)]
        for parameter in node.args.args:
            model = self._models.get(ast.unparse(parameter.annotation)) if parameter.annotation else None
            fields = {
                inner.target.id: inner.value
                for inner in (model.body if model is not None else ())
                if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
            }
            texts = [name for name in fields if name in _TEXTS]
            if model is not None and len(texts) == 1:
                needed = [name for name, value in fields.items() if value is None and name not in texts]
                is_alone = not needed and len(required) <= 1 and "Depends(" not in ast.unparse(node.args)
                return (model.name if is_alone else None), texts[0]
        return None, None


def _names_in_table(value: ast.expr) -> list[str]:
    """Return the names of the tools in a table of functions; empty for anything else.

    A table is `{"a": a}` or `{one.__name__: one for one in (a, b)}`; a list may hold schemas.
    """
    if isinstance(value, ast.Dict):
        names = [name for key in value.keys if (name := _text_of(key)) is not None]
        is_table = len(names) == len(value.keys) and all(_is_reference(element) for element in value.values)
        return names if is_table else []
    if isinstance(value, ast.DictComp) and ast.unparse(value.key) == f"{ast.unparse(value.value)}.__name__":
        elements = value.generators[0].iter
        if isinstance(elements, ast.List | ast.Tuple):
            return [element.id for element in elements.elts if isinstance(element, ast.Name)]
    return []


def _parameters(node: Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args]


def _takes_thread(node: Function, parameters: list[ast.arg]) -> bool:
    """Return whether a function takes a text and the id of its conversation, and nothing else is required."""
    required = [parameter.arg for parameter in parameters[: len(parameters) - len(node.args.defaults)]]
    return len(required) == 2 and any(
        _THREADS.match(thread) and text in _TEXTS for thread, text in (required, required[::-1])
    )


def _takes_text(parameters: list[ast.arg]) -> bool:
    """Return whether the first parameter may be a text or messages; `message: cl.Message` is neither."""
    if not parameters or parameters[0].arg not in _TEXTS:
        return False
    annotation = parameters[0].annotation
    return (
        annotation is None or parameters[0].arg == "state" or bool(_TEXT_TYPES.match(ast.unparse(annotation)))
    )


def _is_dispatcher(parameters: list[ast.arg]) -> bool:
    names = [parameter.arg for parameter in parameters]
    return len(names) >= 2 and names[0] in _TOOL_NAMES and names[1] in _TOOL_ARGS


def _dispatcher_score(node: Function) -> int:
    words = re.findall(r"[a-z]+", node.name.lower())
    return 2 * ("tool" in words or "tools" in words) + bool(
        {"exec", "execute", "call", "dispatch", "run", "handle"} & set(words)
    )


def _module_score(module: str) -> int:
    """Return 1 for a module whose name suggests that the agent is in it."""
    return int(bool(re.search(r"(agent|bot|assistant|chat|main|graph|app)$", module)))


def _asks_model(node: Function) -> bool:
    """Return whether a function asks a model itself: `client.messages.create(…)`, `Runner.run(…)`."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(
        _called(call) in (_MODEL_CALLS if isinstance(call.func, ast.Attribute) else _MODEL_FUNCTIONS)
        for call in calls
    )


def _called(node: ast.expr) -> str:
    """Return the last name of what is called or used as a decorator: `post` of `@app.post("/chat")`."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _explicit_name(decorator: ast.expr) -> str | None:
    """Return the name that a decorator gives a tool: `@tool("refund")`, `@mcp.tool(name="refund")`."""
    if not isinstance(decorator, ast.Call):
        return None
    named = [keyword.value for keyword in decorator.keywords if keyword.arg in ("name", "name_override")]
    return _text_of([*named, *decorator.args, None][0])


def _response(node: Function) -> str | None:
    """Return the path of the text in a literal object that a function returns, also as `jsonify(…)`."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Return):
            continue
        value, keys = inner.value, list[str | None]()
        if isinstance(value, ast.Call) and _called(value) in _RESPONSES:
            keys = [keyword.arg for keyword in value.keywords]
            value = value.args[0] if value.args else None
        if isinstance(value, ast.Dict):
            keys += map(_text_of, value.keys)
        texts = [key for key in keys if key in _REPLIES]
        if texts:
            return f"$.{texts[0]}"
    return None


def _read_key(node: Function) -> str | None:
    """Return the one key for a text that a function reads: `request.json["message"]`."""
    keys = {
        _text_of(inner.slice if isinstance(inner, ast.Subscript) else next(iter(inner.args), None))
        for inner in ast.walk(node)
        if isinstance(inner, ast.Subscript) or (isinstance(inner, ast.Call) and _called(inner) == "get")
    }
    texts = [key for key in keys if key in _TEXTS]
    return texts[0] if len(texts) == 1 else None


def _function_of(element: ast.expr) -> str | None:
    """Return the function that an element of a list of tools is or wraps: `f`, `function_tool(shop.f)`."""
    if isinstance(element, ast.Call):
        is_wrapped = _called(element) in {*_TOOL_DECORATORS, "FunctionTool"} and element.args
        return _function_of(element.args[0]) if is_wrapped else None
    if isinstance(element, ast.Attribute):
        return element.attr
    return element.id if isinstance(element, ast.Name) else None


def _text_of(node: ast.AST | None) -> str | None:
    """Return the value of a text literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_reference(node: ast.expr) -> bool:
    """Return whether a value of a table can be a tool: a function, a method, or an object that holds one."""
    return isinstance(node, ast.Name | ast.Attribute | ast.Tuple | ast.Call | ast.Lambda | ast.Dict)


def source_files(folder: Path, *endings: str) -> Iterator[Path]:
    """Yield files of a folder by ending, in a fixed order; no links, no tests, no environments."""
    number = 0
    for parent, folders, names in os.walk(folder):
        searched = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        folders[:] = sorted(name for name in searched if not Path(parent, name, "pyvenv.cfg").exists())
        for name in sorted(names):
            file = Path(parent, name)
            is_test = name.startswith("test_") or name in ("conftest.py", "setup.py")
            if not name.endswith(endings) or is_test or file.is_symlink() or not file.is_file():
                continue
            number += 1
            if number > _MOST_FILES:
                return
            if file.stat().st_size <= _MOST_BYTES or endings != (".py",):
                yield file
