"""The attack corpus: ways to hold a named tool, each a module whose tool leaves a mark when it runs.

A shape is a module with `call()`, which reaches the tool `cancel` for the order "7" in its own way. Its tool
calls `real()`, which writes to a file. In a replay the file must stay empty: the call is answered, or the
version does not start, or the call is refused. A function that takes a tool's place may run once (`runs`).
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """One way to hold a tool."""

    group: str
    name: str
    """What the table of the documentation calls it."""
    source: str
    """The module."""
    points: tuple[str, ...]
    """Attributes of the module that are named in `tools`."""
    refused: str = ""
    """A part of the sentence with which it is refused; empty where it is answered."""
    answers: int = 1
    """How many calls are answered."""
    runs: int = 0
    """How often the tool may run before the trial is refused."""
    since: tuple[int, int] = (3, 9)
    """The first Python that has it."""
    needs: str = ""
    """A package that the agent's Python must have."""

    @property
    def module(self) -> str:
        """A name for its module."""
        words = "".join(letter if letter.isalnum() else "_" for letter in f"{self.group}_{self.name}")
        return f"shape_{words}".lower()


SHAPES: list[Shape] = []

PRELUDE = """
import asyncio, collections, collections.abc, contextvars, copy, dataclasses, enum, functools, importlib, os, sys, threading, types
import typing, weakref
from canary import real
"""


def _shape(
    group: str,
    name: str,
    points: str,
    source: str,
    call: str,
    *,
    refused: str = "",
    answers: int = 1,
    runs: int = 0,
    since: tuple[int, int] = (3, 9),
    needs: str = "",
) -> None:
    body = textwrap.dedent(source).strip()
    text = f"{PRELUDE}\n{body}\n\ndef call():\n{textwrap.indent(textwrap.dedent(call).strip(), '    ')}\n"
    SHAPES.append(Shape(group, name, text, tuple(points.split()), refused, answers, runs, since, needs))


CANCEL = "def cancel(order_id):\n    return real(order_id)\n"


def _held(name: str, source: str, call: str, **options: object) -> None:
    """A function that is named itself, and held elsewhere."""
    _shape("holder", name, "cancel", CANCEL + textwrap.dedent(source), call, **options)  # type: ignore[arg-type]


def _table(name: str, source: str, call: str, **options: object) -> None:
    """A table that is named."""
    _shape("table", name, "TOOLS", CANCEL + textwrap.dedent(source), call, **options)  # type: ignore[arg-type]


# --- kinds of functions ---------------------------------------------------------------------------

_shape("function", "plain", "cancel", CANCEL, "return cancel('7')")
_shape(
    "function",
    "async",
    "cancel",
    "async def cancel(order_id): return real(order_id)",
    "return asyncio.run(cancel('7'))",
)
_shape(
    "function",
    "generator",
    "cancel",
    "def cancel(order_id):\n    yield real(order_id)",
    "return next(cancel('7'))",
)
_shape(
    "function",
    "async generator",
    "cancel",
    "async def cancel(order_id):\n    yield real(order_id)",
    """
    async def first():
        async for item in cancel("7"):
            return item
    return asyncio.run(first())
    """,
)
_shape(
    "function",
    "generator-based coroutine",
    "cancel",
    "@types.coroutine\ndef cancel(order_id):\n    real(order_id)\n    yield",
    "async def wait(): return await cancel('7')\nreturn asyncio.run(wait())",
)
_shape(
    "function", "lambda", "cancel", "cancel = lambda order_id: real(order_id)", "return cancel(order_id='7')"
)
_shape(
    "function",
    "closure",
    "cancel",
    """
    def make(client):
        seen = []
        def cancel(order_id):
            seen.append(client)
            return real(order_id)
        return cancel
    cancel = make("client")
    """,
    "return cancel('7')",
)
_shape(
    "function",
    "closure over `args`, in a debugger",
    "cancel",
    """
    def make(args):
        def cancel(order_id): return real((args, order_id))
        return cancel
    cancel = make("client")
    """,
    """
    sys.settrace(lambda frame, event, argument: None)
    try:
        return cancel('7')
    finally:
        sys.settrace(None)
    """,
)
_shape(
    "function",
    "recursive",
    "cancel",
    "def cancel(order_id, depth=0):\n    return real(order_id) if depth else cancel(order_id, 1)",
    "return cancel('7')",
)
_shape(
    "function",
    "dispatcher",
    "execute",
    "def execute(name, args): return real(name)",
    "return execute('cancel', {'order_id': '7'})",
)
_shape(
    "function",
    "built-in",
    "cancel",
    "cancel = os.remove",
    "return cancel('7')",
    refused="without Python code",
)
_shape("function", "module", "importlib", "", "return ''", refused="a module")
_shape(
    "function",
    "mock",
    "cancel",
    "from unittest.mock import Mock\ncancel = Mock()",
    "return cancel('7')",
    refused="a mock",
)
_shape("function", "text", "cancel", "cancel = 'no tool'", "return ''", refused="is a str")
_shape(
    "function",
    "singledispatch",
    "cancel",
    """
    @functools.singledispatch
    def cancel(order_id): return real(order_id)
    @cancel.register
    def _(order_id: str): return real(order_id)
    """,
    "return cancel('7')",
)

# --- who holds a named function -------------------------------------------------------------------

_held("module alias", "other = cancel", "return other('7')")
_held("late import", "", "from importlib import import_module\nreturn import_module(__name__).cancel('7')")
_held("dict value", "HELD = {'a': cancel}", "return HELD['a']('7')")
_held("dict key", "HELD = {cancel: 'schema'}", "return next(iter(HELD))('7')")
_held("list", "HELD = [cancel]", "return HELD[0]('7')")
_held("set", "HELD = {cancel}", "return next(iter(HELD))('7')")
_held("frozenset", "HELD = frozenset([cancel])", "return next(iter(HELD))('7')")
_held("deque", "HELD = collections.deque([cancel])", "return HELD[0]('7')")
_held("five nested tuples", "HELD = (((((cancel,),),),),)", "return HELD[0][0][0][0][0]('7')")
_held(
    "NamedTuple",
    "class Entry(typing.NamedTuple):\n    fn: object\nHELD = Entry(cancel)",
    "return HELD.fn('7')",
)
_held(
    "frozen dataclass with slots",
    "@dataclasses.dataclass(frozen=True)\nclass E:\n    __slots__ = ('fn',)\n    fn: object\nHELD = E(cancel)",
    "return HELD.fn('7')",
)
_held("enum member", "class E(enum.Enum):\n    A = (cancel,)", "return E.A.value[0]('7')")
_held("mappingproxy", "HELD = types.MappingProxyType({'a': cancel})", "return HELD['a']('7')")
_held("default argument", "def go(fn=cancel, *, also=cancel): return fn('7')", "return go()")
_held(
    "closure of another function",
    "def outside():\n    held = cancel\n    return lambda: held('7')\nGO = outside()",
    "return GO()",
)
_held("partial", "HELD = functools.partial(cancel, '7')", "return HELD()")
_held("partial as an argument", "HELD = functools.partial(lambda fn: fn('7'), cancel)", "return HELD()")
_held("lru_cache", "HELD = functools.lru_cache(cancel)", "return HELD('7')")
_held("context variable", "VAR = contextvars.ContextVar('v', default=cancel)", "return VAR.get()('7')")
_held("weak reference", "HELD = weakref.ref(cancel)", "return HELD()('7')")
_held("map", "HELD = [map(cancel, ['7']) for _ in range(2)]", "return next(HELD.pop())")
_held(
    "suspended generator",
    "def gen():\n    fn = cancel\n    yield\n    yield fn('7')\nG = [gen(), gen()]\nfor one in G: next(one)",
    "return next(G.pop())",
)
_held("copy with the same code", "HELD = types.FunctionType(cancel.__code__, globals())", "return HELD('7')")
_held("copy made later", "", "return types.FunctionType(cancel.__code__, globals())('7')")
_held("copy.copy and deepcopy", "", "return copy.deepcopy(copy.copy(cancel))('7')")
_held(
    "copy of code that was kept",
    "CODE = cancel.__code__",
    "return types.FunctionType(CODE, globals())('7')",
    refused="original code of a tool",
)
_held("static method", "class Kept:\n    go = staticmethod(cancel)", "return Kept.go('7')")
_held(
    "thread",
    "",
    """
    found = []
    thread = threading.Thread(target=lambda: found.append(cancel("7")))
    thread.start(); thread.join()
    return found[0]
""",
)
_held(
    "thread pool",
    "",
    """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(cancel, "7").result()
""",
)
_held(
    "gather",
    "",
    """
    async def go(): return await asyncio.gather(asyncio.to_thread(cancel, "7"))
    return asyncio.run(go())[0]
""",
)
_held(
    "exec of the module's source",
    "SOURCE = open(__file__).read()",
    "space = {'__name__': 'other', '__file__': __file__}\nexec(SOURCE, space)\nreturn space['cancel']('7')",
    refused="outside the import system",
)
_held(
    "runpy of the module's file",
    "",
    "import runpy\nreturn runpy.run_path(__file__)['cancel']('7')",
    refused="outside the import system",
)
_held(
    "module loaded again under another name",
    "",
    """
    spec = importlib.util.spec_from_file_location("loaded_again", __file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cancel("7")
""",
)
_held("importlib.reload", "", "return importlib.reload(sys.modules[__name__]).cancel('7')")
_held(
    "module forgotten and imported again",
    "",
    "del sys.modules[__name__]\nreturn importlib.import_module(__name__).cancel('7')",
)
_held("replaced between trials", "", "return globals()['cancel']('7')")
_held(
    "a coroutine that was made at import",
    "async def stop(order_id): return real(order_id)\nWAITING = stop('7')\ncancel = stop",
    "return asyncio.run(WAITING)",
    refused="is running already",
)

# --- decorators -----------------------------------------------------------------------------------

REGISTRY = """
REG = {}
def register(fn):
    REG[fn.__name__] = fn
    WRAPS
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapper
@register
def cancel(order_id): return real(order_id)
"""
for _wraps in ("", "@functools.wraps(fn)"):
    _title = "with wraps" if _wraps else "without wraps"
    _source = REGISTRY.replace("WRAPS", _wraps)
    _shape(
        "decorator",
        f"registry of originals {_title}, wrapper called",
        "cancel",
        _source,
        "return cancel('7')",
    )
    _shape(
        "decorator",
        f"registry of originals {_title}, original called",
        "cancel",
        _source,
        "return REG['cancel']('7')",
    )
    _shape(
        "decorator",
        f"three deep {_title}",
        "cancel",
        f"""
def deco(fn):
    {_wraps}
    def wrapper(*args, **kwargs): return fn(*args, **kwargs)
    return wrapper
@deco
@deco
@deco
def cancel(order_id): return real(order_id)
INNER = cancel.__closure__[0].cell_contents.__closure__[0].cell_contents
""",
        "return INNER('7')",
    )
    _shape(
        "decorator",
        f"in a list {_title}",
        "TOOLS",
        f"""
def deco(fn):
    {_wraps}
    def wrapper(*args, **kwargs): return fn(*args, **kwargs)
    return wrapper
@deco
def cancel(order_id): return real(order_id)
TOOLS = [cancel]
""",
        "return TOOLS[0]('7')",
    )
_shape(
    "decorator",
    "wraps without a call of the wrapped",
    "cancel",
    """
    def old(order_id): return "old"
    @functools.wraps(old)
    def cancel(order_id): return real(order_id)
""",
    "return cancel('7')",
)
_shape(
    "decorator",
    "calls the original through a table",
    "cancel",
    """
    REG = {}
    def register(fn):
        REG["cancel"] = fn
        @functools.wraps(fn)
        def wrapper(*args): return REG["cancel"](*args)
        return wrapper
    @register
    def cancel(order_id): return real(order_id)
""",
    "return REG['cancel']('7')",
)
_shape(
    "decorator",
    "with an effect of its own",
    "cancel",
    """
    def audited(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            real("audit")
            return fn(*args)
        return wrapper
    @audited
    def cancel(order_id): return real(order_id)
""",
    "return cancel('7')",
)
_shape(
    "decorator",
    "keeps answers",
    "cancel",
    """
    KEPT = {}
    def memo(fn):
        @functools.wraps(fn)
        def wrapper(order_id):
            if order_id not in KEPT: KEPT[order_id] = fn(order_id)
            return KEPT[order_id]
        return wrapper
    @memo
    def cancel(order_id): return real(order_id)
    cancel("7") if False else KEPT.update({"7": "kept from an earlier trial: answered"})
""",
    "return cancel('7')",
)
_shape(
    "decorator",
    "retries",
    "cancel",
    """
    def retry(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            for attempt in range(3):
                try:
                    return "ran: " + fn(*args, **kwargs)
                except ValueError:
                    continue
        return wrapper
    @retry
    def cancel(order_id): return real(order_id)
""",
    "assert cancel('7') == 'ran: answered'\nreturn 'answered'",
)
_shape(
    "decorator",
    "async, logs",
    "cancel",
    """
    import logging
    log = logging.getLogger("x")
    def logged(fn):
        @functools.wraps(fn)
        async def wrapper(*args, **kwargs):
            log.info("calls %s", fn.__name__)
            return "ran: " + await fn(*args, **kwargs)
        return wrapper
    @logged
    async def cancel(order_id): return real(order_id)
""",
    "assert asyncio.run(cancel('7')) == 'ran: answered'\nreturn 'answered'",
)
_shape(
    "decorator",
    "a class",
    "cancel",
    """
    class Retry:
        def __init__(self, fn): self.fn = fn
        def __call__(self, *args): return self.fn(*args)
    @Retry
    def cancel(order_id): return real(order_id)
""",
    "return cancel('7')",
)
_shape(
    "decorator",
    "a class, its function called",
    "cancel",
    """
    class Retry:
        def __init__(self, fn): self.fn = fn
        def __call__(self, *args): return self.fn(*args)
    @Retry
    def cancel(order_id): return real(order_id)
""",
    "return cancel.fn('7')",
)
_shape(
    "decorator",
    "lru_cache",
    "cancel",
    "@functools.lru_cache\n" + CANCEL + "HELD = {cancel}",
    "return next(iter(HELD))('7')",
)
_shape(
    "decorator",
    "one wrapper code, two tools",
    "TOOLS",
    """
    def deco(fn):
        def wrapper(*args): return fn(*args)
        return wrapper
    @deco
    def cancel(order_id): return real(order_id)
    @deco
    def other(order_id): return real(order_id)
    TOOLS = (cancel, other)
""",
    "return TOOLS[0]('7')",
)

# --- classes and methods --------------------------------------------------------------------------

SHOP = "class Shop:\n    def cancel(self, order_id): return real(order_id)\n"
_shape("method", "of a class", "Shop.cancel", SHOP, "return Shop().cancel('7')")
_shape("method", "bound, of an object", "shop.cancel", SHOP + "shop = Shop()", "return shop.cancel('7')")
_shape(
    "method",
    "bound, held in a set",
    "shop.cancel",
    SHOP + "shop = Shop()\nHELD = {shop.cancel}",
    "return next(iter(HELD))('7')",
)
_shape(
    "method",
    "class method",
    "Shop.cancel",
    "class Shop:\n    @classmethod\n    def cancel(cls, order_id): return real(order_id)",
    "return Shop.cancel('7')",
)
_shape(
    "method",
    "static method",
    "Shop.cancel",
    "class Shop:\n    @staticmethod\n    def cancel(order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_shape(
    "method",
    "decorated with lru_cache",
    "Shop.cancel",
    "class Shop:\n    @functools.lru_cache\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_shape(
    "method",
    "partialmethod",
    "Shop.cancel",
    "class Shop:\n    def do(self, what, order_id): return real(order_id)\n    cancel = functools.partialmethod(do, 'cancel')",
    "return Shop().cancel('7')",
)
_shape(
    "method",
    "singledispatchmethod",
    "Shop.cancel",
    "class Shop:\n    @functools.singledispatchmethod\n    def cancel(self, order_id): return real(order_id)\n    @cancel.register\n    def _(self, order_id: str): return real(order_id)",
    "return Shop().cancel('7')",
)
SUB = "class Sub(Shop):\n    def cancel(self, order_id): return real(order_id)\n"
_shape("method", "overridden in a subclass", "Shop.cancel", SHOP + SUB, "return Sub().cancel('7')")
_shape(
    "method",
    "overridden, calls super",
    "Shop.cancel",
    SHOP + "class Sub(Shop):\n    def cancel(self, order_id): return super().cancel(order_id)\n",
    "return Sub().cancel('7')",
)
_shape(
    "method",
    "overridden in a class made later",
    "Shop.cancel",
    SHOP,
    textwrap.indent(SUB, "").strip() + "\nreturn Sub().cancel('7')",
)
_shape(
    "method",
    "overridden in a class made by type()",
    "Shop.cancel",
    SHOP,
    "Sub = type('Sub', (Shop,), {'cancel': lambda self, order_id: real(order_id)})\nreturn Sub().cancel('7')",
)
_shape("method", "unbound", "Shop.cancel", SHOP, "return Shop.cancel(Shop(), '7')")
_shape(
    "method",
    "of a copied object",
    "shop.cancel",
    SHOP + "shop = Shop()",
    "return copy.copy(shop).cancel('7')",
)

# --- tables ---------------------------------------------------------------------------------------

_table("dict", "TOOLS = {'cancel': cancel}", "return TOOLS['cancel'](order_id='7')")
_table("list", "TOOLS = [cancel]", "return TOOLS[0]('7')")
_table("tuple", "TOOLS = (cancel,)", "return TOOLS[0]('7')")
_table("set", "TOOLS = {cancel}", "return next(iter(TOOLS))('7')")
_table("frozenset", "TOOLS = frozenset([cancel])", "return next(iter(TOOLS))('7')")
_table("deque", "TOOLS = collections.deque([cancel])", "return TOOLS[0]('7')")
_table("mappingproxy", "TOOLS = types.MappingProxyType({'cancel': cancel})", "return TOOLS['cancel']('7')")
_table("OrderedDict", "TOOLS = collections.OrderedDict(cancel=cancel)", "return TOOLS['cancel']('7')")
_table(
    "defaultdict", "TOOLS = collections.defaultdict(list, cancel=[cancel])", "return TOOLS['cancel'][0]('7')"
)
_table("UserDict", "TOOLS = collections.UserDict(cancel=cancel)", "return TOOLS['cancel']('7')")
_table(
    "subclass of dict",
    "class Registry(dict): pass\nTOOLS = Registry(cancel=cancel)",
    "return TOOLS['cancel']('7')",
)
_table(
    "object with a dict in it",
    "class Registry:\n    def __init__(self): self._fns = {'cancel': cancel}\n    def __getitem__(self, n): return self._fns[n]\nTOOLS = Registry()",
    "return TOOLS['cancel']('7')",
)
_table("dict keys", "TOOLS = {cancel: {'type': 'object'}}", "return next(iter(TOOLS))('7')")
_table("(function, schema)", "TOOLS = [(cancel, {'type': 'object'})]", "return TOOLS[0][0]('7')")
_table(
    "dict of (function, schema)",
    "TOOLS = {'cancel': (cancel, {'type': 'object'})}",
    "return TOOLS['cancel'][0]('7')",
)
_table(
    "(name, function)",
    "def impl(order_id): return real(order_id)\nTOOLS = [('cancel', impl, 'text')]",
    "return TOOLS[0][1]('7')",
)
_table("dict of lists", "TOOLS = {'orders': [cancel]}", "return TOOLS['orders'][0]('7')")
_table("dict of dicts", "TOOLS = {'orders': {'cancel': cancel}}", "return TOOLS['orders']['cancel']('7')")
_table(
    "five levels",
    "TOOLS = {'a': [{'b': ({'c': [cancel]},)}]}",
    "return TOOLS['a'][0]['b'][0]['c'][0]('7')",
    answers=1,
)
_table(
    "nested specification",
    "TOOLS = {'cancel': {'function': {'impl': cancel}}}",
    "return TOOLS['cancel']['function']['impl']('7')",
)
_table(
    "specification with name",
    "TOOLS = [{'name': 'cancel', 'function': cancel, 'schema': {'type': 'object'}}]",
    "return TOOLS[0]['function']('7')",
)
_table(
    "specification with callable",
    "class Do:\n    def __call__(self, order_id): return real(order_id)\nTOOLS = [{'name': 'cancel', 'callable': Do()}]",
    "return TOOLS[0]['callable']('7')",
)
_table(
    "specification with a partial",
    "TOOLS = [{'name': 'cancel', 'callable': functools.partial(cancel)}]",
    "return TOOLS[0]['callable'](order_id='7')",
)
_table(
    "NamedTuple entries",
    "class Entry(typing.NamedTuple):\n    name: str\n    fn: object\nTOOLS = [Entry('cancel', lambda order_id: real(order_id))]",
    "return TOOLS[0].fn('7')",
)
_table(
    "dataclass entries",
    "@dataclasses.dataclass\nclass Entry:\n    name: str\n    fn: object\nTOOLS = [Entry('cancel', lambda order_id: real(order_id))]",
    "return TOOLS[0].fn('7')",
)
_table(
    "partial with bound arguments",
    "def do(session, order_id): return real(order_id)\nTOOLS = {'cancel': functools.partial(do, object())}",
    "return TOOLS['cancel']('7')",
)
_table(
    "partial held elsewhere",
    "def do(session, order_id): return real(order_id)\ndo.__name__ = 'cancel'\nHELD = frozenset([functools.partial(do, 1)])\nTOOLS = list(HELD)",
    "return next(iter(HELD))('7')",
    answers=1,
)
_table("bound method", SHOP + "TOOLS = {'cancel': Shop().cancel}", "return TOOLS['cancel']('7')")
_table(
    "one method of several objects",
    "class Api:\n    def __init__(self, path): self.path = path\n    def send(self, order_id): return real(order_id)\nTOOLS = {'cancel': Api('/c').send, 'refund': Api('/r').send}",
    "return TOOLS['cancel']('7')",
)
_table(
    "one function under two names",
    "TOOLS = {'stop': cancel, 'cancel': cancel}",
    "return TOOLS['cancel']('7')",
)
_table(
    "async function",
    "async def stop(order_id): return real(order_id)\nTOOLS = {'cancel': stop}",
    "return asyncio.run(TOOLS['cancel']('7'))",
)
_table(
    "text that names a function",
    "TOOLS = {'cancel': __name__ + ':cancel'}",
    "module, _, name = TOOLS['cancel'].partition(':')\nreturn getattr(importlib.import_module(module), name)('7')",
)
_table(
    "class with run",
    "class Cancel:\n    name = 'cancel'\n    def run(self, order_id): return real(order_id)\nTOOLS = {'x': Cancel}",
    "return TOOLS['x']().run('7')",
)
_table(
    "class with run in a tuple",
    "class Cancel:\n    name = 'cancel'\n    def run(self, order_id): return real(order_id)\nTOOLS = (Cancel,)",
    "return TOOLS[0]().run('7')",
)
_table(
    "class with __call__ and a subclass",
    "class Cancel:\n    name = 'cancel'\n    def __call__(self, order_id): return real(order_id)\nclass More(Cancel):\n    def __call__(self, order_id): return real(order_id)\nTOOLS = [Cancel]",
    "return More()('7')",
)
for _method in ("_run", "run", "execute", "invoke", "forward", "__call__", "call"):
    _table(
        f"object with {_method}",
        f"class Cancel:\n    name = 'cancel'\n    def {_method}(self, order_id): return real(order_id)\nTOOLS = [cancel, Cancel()]",
        f"return TOOLS[1].{_method}('7')",
    )
_table(
    "object with _run and _arun",
    "class Base:\n    def run(self, order_id): return self._run(order_id)\n    async def _arun(self, order_id): return self._run(order_id)\nclass Cancel(Base):\n    name = 'cancel'\n    def _run(self, order_id): return real(order_id)\nTOOLS = [Cancel()]",
    "assert TOOLS[0].run('7') == 'answered'\nreturn asyncio.run(TOOLS[0]._arun('7'))",
    answers=2,
)
_table(
    "object with func and coroutine",
    "async def wait(order_id): return real(order_id)\nclass T:\n    def __init__(self): self.name, self.func, self.coroutine = 'cancel', cancel, wait\n    def invoke(self, args): return self.func(**args)\nTOOLS = [T()]",
    "assert TOOLS[0].invoke({'order_id': '7'}) == 'answered'\nreturn asyncio.run(TOOLS[0].coroutine('7'))",
    answers=2,
)
_table(
    "object with on_invoke_tool",
    "async def go(ctx, text): return real(text)\nclass FunctionTool:\n    def __init__(self): self.name, self.on_invoke_tool = 'cancel', go\nTOOLS = [cancel, FunctionTool()]",
    'return asyncio.run(TOOLS[1].on_invoke_tool(object(), \'{"order_id": "7"}\'))',
)
_table(
    "object with slots",
    "class T:\n    __slots__ = ('name', 'fn')\n    def __init__(self): self.name, self.fn = 'cancel', lambda order_id: real(order_id)\nTOOLS = [T()]",
    "return TOOLS[0].fn('7')",
)
_table(
    "object with a method of unknown name",
    "class Cancel:\n    def carry_out(self, order_id): return real(order_id)\nTOOLS = [cancel, Cancel()]",
    "return TOOLS[1].carry_out('7')",
    refused="carry_out",
)
_table(
    "class with methods of unknown names",
    "class Cancel:\n    def carry_out(self, order_id): return real(order_id)\nTOOLS = {'a': cancel, 'b': Cancel}",
    "return TOOLS['b']().carry_out('7')",
    refused="carry_out",
)
_table(
    "object with a function of unknown name",
    "class T:\n    def __init__(self): self.secret = lambda order_id: real(order_id)\nTOOLS = [cancel, T()]",
    "return TOOLS[1].secret('7')",
    refused="secret",
)
_table(
    "built-in function",
    "TOOLS = {'cancel': cancel, 'remove': os.remove}",
    "return TOOLS['remove']('7')",
    refused="TOOLS['remove']",
)
_table(
    "built-in callable object",
    "import operator\nTOOLS = [cancel, operator.methodcaller('cancel', '7')]",
    "return TOOLS[1](1)",
    refused="TOOLS[1]",
)
_table(
    "mock",
    "from unittest.mock import Mock\nTOOLS = [cancel, Mock()]",
    "return TOOLS[1]('7')",
    refused="a mock",
)
_table("module", "TOOLS = [cancel, os]", "return TOOLS[1].remove('7')", refused="a module")
_table(
    "nothing but schemas",
    "TOOLS = [{'name': 'cancel', 'parameters': {'type': 'object'}}]",
    "return ''",
    refused="is a list",
)
_table(
    "schemas beside tools",
    "@dataclasses.dataclass\nclass Args:\n    order_id: str\nTOOLS = {'cancel': (cancel, Args), 'limit': 3, 'about': {'type': 'object'}, 'model': 'claude'}",
    "return TOOLS['cancel'][0]('7')",
)

# --- tools that come later ------------------------------------------------------------------------

LATER = "def impl(order_id): return real(order_id)\n"
_table(
    "added to a dict later",
    LATER + "TOOLS = {'other': cancel}",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
)
_table(
    "dict.update later",
    "TOOLS = {'other': cancel}",
    "TOOLS.update(cancel=lambda order_id: real(order_id))\nreturn TOOLS['cancel']('7')",
)
_table(
    "|= later",
    "TOOLS = {'other': cancel}",
    "global TOOLS\nTOOLS |= {'cancel': lambda order_id: real(order_id)}\nreturn TOOLS['cancel']('7')",
)
_table(
    "setdefault later",
    "TOOLS = {'other': cancel}",
    "return TOOLS.setdefault('cancel', lambda order_id: real(order_id))('7')",
)
_table(
    "dict.__setitem__ later",
    "TOOLS = {'other': cancel}",
    "dict.__setitem__(TOOLS, 'cancel', lambda order_id: real(order_id))\nreturn TOOLS['cancel']('7')",
)
_table(
    "added through another name",
    "TOOLS = {'other': cancel}\nHELD = (TOOLS,)\ndef add(name, fn, to=TOOLS): to[name] = fn",
    "add('cancel', lambda order_id: real(order_id))\nassert HELD[0] is TOOLS\nreturn HELD[0]['cancel']('7')",
)
_table(
    "appended to a list later",
    "TOOLS = [LATER]".replace("LATER", "lambda order_id: ''"),
    "def cancel(order_id): return real(order_id)\nTOOLS.append(cancel)\nreturn TOOLS[-1]('7')",
)
_table(
    "+= to a list later",
    "TOOLS = [cancel]",
    "global TOOLS\ndef cancel(order_id): return real(order_id)\nTOOLS += [cancel]\nreturn TOOLS[-1]('7')",
)
_table(
    "list slice later",
    "TOOLS = [cancel]",
    "def cancel(order_id): return real(order_id)\nTOOLS[1:] = [cancel]\nreturn TOOLS[1]('7')",
)
_table(
    "added to a set later",
    "TOOLS = {cancel}",
    "def cancel(order_id): return real(order_id)\nTOOLS.add(cancel)\nreturn [one('7') for one in TOOLS if one is cancel][0]",
)
_table(
    "added to a deque later",
    "TOOLS = collections.deque([cancel])",
    "def cancel(order_id): return real(order_id)\nTOOLS.append(cancel)\nreturn TOOLS[-1]('7')",
)
_table(
    "added to a nested list later",
    "TOOLS = {'orders': [cancel]}",
    "def cancel(order_id): return real(order_id)\nTOOLS['orders'].append(cancel)\nreturn TOOLS['orders'][-1]('7')",
)
_table(
    "added to a subclass of dict later",
    "class Registry(dict): pass\nTOOLS = Registry(other=cancel)",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
)
_table(
    "a built-in added later",
    "TOOLS = {'cancel': cancel}",
    "TOOLS['remove'] = os.remove\nreturn TOOLS['remove']('/nowhere')",
    refused="a tool was added",
)
_table(
    "held in a context variable, added later",
    "TOOLS = {'cancel': cancel}\nVAR = contextvars.ContextVar('v')\nVAR.set(TOOLS)",
    "return VAR.get()['cancel']('7')",
    refused="also held",
)

# --- callable data, and classes whose constructor works ------------------------------------------------

_table(
    "subclass of int that is called",
    "class T(int):\n    def __call__(self, order_id): return real(order_id)\nTOOLS = {'other': cancel, 'cancel': T(3)}",
    "return TOOLS['cancel']('7')",
)
_table(
    "subclass of str that is called",
    "class T(str):\n    def __call__(self, order_id): return real(order_id)\nTOOLS = {'other': cancel, 'cancel': T('a')}",
    "return TOOLS['cancel']('7')",
)
_table(
    "subclass of dict that is called",
    "class T(dict):\n    def __call__(self, order_id): return real(order_id)\nTOOLS = {'other': cancel, 'cancel': T(a=1)}",
    "return TOOLS['cancel']('7')",
)
_table(
    "NamedTuple with run",
    "class T(typing.NamedTuple):\n    name: str\n    def run(self, order_id): return real(order_id)\nTOOLS = {'other': cancel, 'cancel': T('cancel')}",
    "return TOOLS['cancel'].run('7')",
)
_table(
    "exception that is called",
    "class T(Exception):\n    def __call__(self, order_id): return real(order_id)\nTOOLS = {'other': cancel, 'cancel': T()}",
    "return TOOLS['cancel']('7')",
)
_table(
    "class whose constructor is the tool",
    "class Cancel:\n    def __init__(self, order_id): self.answer = real(order_id)\nTOOLS = {'other': cancel, 'cancel': Cancel}",
    "return TOOLS['cancel']('7').answer",
    refused="constructor",
)
_table(
    "dataclass whose __post_init__ is the tool",
    "@dataclasses.dataclass\nclass Cancel:\n    order_id: str\n    def __post_init__(self): self.answer = real(self.order_id)\nTOOLS = {'other': cancel, 'cancel': Cancel}",
    "return TOOLS['cancel']('7').answer",
    refused="constructor",
)
_table(
    "class of the standard library",
    "import subprocess\nTOOLS = {'cancel': cancel, 'start': subprocess.Popen}",
    "return TOOLS['start']('true')",
    refused="the class Popen",
)
_table(
    "mapping that makes its functions",
    "class T(collections.abc.Mapping):\n    def __getitem__(self, key): return lambda order_id: real(order_id)\n    def __iter__(self): return iter(['cancel'])\n    def __len__(self): return 1\nTOOLS = T()",
    "return TOOLS['cancel']('7')",
    refused="each access makes another function",
)

# --- what takes a method's place, and attributes that are made ------------------------------------------

_shape(
    "method",
    "of a class registered with an abstract one",
    "Shop.cancel",
    "import abc\nclass Shop(abc.ABC):\n    def cancel(self, order_id): return ''\n@Shop.register\nclass Other:\n    def cancel(self, order_id): return real(order_id)",
    "return Other().cancel('7')",
)
_shape(
    "method",
    "replaced in each object by its constructor",
    "Shop.cancel",
    "class Shop:\n    def __init__(self): self.cancel = lambda order_id: real(order_id)\n    def cancel(self, order_id): return ''\nFIRST = Shop()",
    "assert FIRST.cancel('7') == 'answered'\nreturn Shop().cancel('7')",
    answers=2,
)
_shape(
    "method",
    "property that makes a function",
    "shop.cancel",
    "class Shop:\n    @property\n    def cancel(self): return lambda order_id: real(order_id)\nshop = Shop()",
    "return shop.cancel('7')",
    refused="each access makes another function",
)
_shape(
    "method",
    "made by __getattr__",
    "shop.cancel",
    "class Shop:\n    def __getattr__(self, name):\n        if name != 'cancel': raise AttributeError(name)\n        return lambda order_id: real(order_id)\nshop = Shop()",
    "return shop.cancel('7')",
    refused="each access makes another function",
)

# --- copies of code and of modules -----------------------------------------------------------------------

_held(
    "module loaded under two names before the start",
    """
    if __name__ != "second_name":
        import importlib.util
        spec = importlib.util.spec_from_file_location("second_name", __file__)
        SECOND = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(SECOND)
    """,
    "return SECOND.cancel('7')",
)
_held(
    "its code in another function",
    "CODE = cancel.__code__",
    "def other(order_id): pass\nother.__code__ = CODE\nreturn other('7')",
    refused="original code of a tool",
)
_held(
    "its code replaced",
    "",
    "def other(order_id): return real(order_id)\ncancel.__code__ = other.__code__\nreturn cancel('7')",
    refused="replaced the code of a tool",
)
_held(
    "its source compiled again",
    "",
    "import inspect\nspace = {'real': real}\nexec(inspect.getsource(cancel), space)\nreturn space['cancel']('7')",
    refused="outside the import system",
)
_held(
    "a second interpreter",
    "",
    "name = '_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters'\nimportlib.import_module(name).create()\nreturn 'started'",
    refused="second interpreter",
)
_held(
    "a thread that runs it since the import",
    """
    import queue
    WAITING, BEGUN = queue.Queue(), threading.Event()
    def cancel(order_id):
        BEGUN.set()
        real(WAITING.get())
    threading.Thread(target=cancel, args=("7",), daemon=True).start()
    BEGUN.wait()
    """,
    "WAITING.put('7')\nreturn ''",
    refused="is running already",
)

# --- more holders, and code that was kept ---------------------------------------------------------

_held(
    "ctypes makes a function of kept code",
    "CODE = cancel.__code__",
    "import ctypes\nnew = ctypes.pythonapi.PyFunction_New\nnew.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]\nreturn new(CODE, globals())('7')",
    refused="looks up PyFunction_New with ctypes",
)
_held(
    "marshalled code",
    "import marshal\nBYTES = marshal.dumps(cancel.__code__)",
    "return types.FunctionType(marshal.loads(BYTES), globals())('7')",
    refused="original code of a tool",
)
_held(
    "code.replace kept",
    "CODE = cancel.__code__.replace(co_name='other')",
    "return types.FunctionType(CODE, globals())('7')",
    refused="original code of a tool",
)
_held(
    "exec of kept code",
    "def act(): return real('7')\ncancel = act\nCODE = act.__code__",
    "exec(CODE)\nreturn 'answered'",
    refused="runs the original code of a tool",
)
_shape(
    "holder",
    "cached_property of the object",
    "shop.cancel",
    "class Shop:\n    @functools.cached_property\n    def cancel(self): return lambda order_id: real(order_id)\nshop = Shop()",
    "return shop.cancel('7')",
)
_held("__get__", "", "return cancel.__get__('7')()")
_held("types.MethodType", "", "return types.MethodType(cancel, '7')()")
_held("pickle", "", "import pickle\nreturn pickle.loads(pickle.dumps(cancel))('7')")
_held("inspect.unwrap", "", "import inspect\nreturn inspect.unwrap(cancel)('7')")
_held("builtins", "import builtins\nbuiltins.cancel_it = cancel", "return cancel_it('7')")
_held("property whose getter it is", "class P(str):\n    go = property(cancel)", "return P('7').go")
_held("__class_getitem__", "class P:\n    __class_getitem__ = staticmethod(cancel)", "return P['7']")
_held(
    "__del__",
    "class P:\n    def __del__(self): OUT.append(cancel('7'))\nOUT=[]",
    "p = P()\ndel p\nreturn OUT.pop()",
)
_held(
    "weakref.finalize",
    "OUT=[]",
    "class P: pass\np = P()\nweakref.finalize(p, lambda: OUT.append(cancel('7')))\ndel p\nreturn OUT.pop()",
)
_held(
    "signal handler",
    "OUT=[]",
    "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: OUT.append(cancel('7')))\nos.kill(os.getpid(), signal.SIGUSR1)\nreturn OUT.pop()",
)
_held(
    "threading.Timer",
    "OUT=[]",
    "t=threading.Timer(0, lambda: OUT.append(cancel('7')))\nt.start(); t.join()\nreturn OUT.pop()",
)
_held(
    "default_factory",
    "@dataclasses.dataclass\nclass P:\n    x: str = dataclasses.field(default_factory=lambda: cancel('7'))",
    "return P().x",
)
_held(
    "loop.call_soon",
    "",
    "async def go():\n    done = asyncio.get_running_loop().create_future()\n    asyncio.get_running_loop().call_soon(lambda: done.set_result(cancel('7')))\n    return await done\nreturn asyncio.run(go())",
)
_held(
    "sys.setprofile",
    "OUT=[]",
    "def prof(frame, event, arg):\n    sys.setprofile(None)\n    OUT.append(cancel('7'))\nsys.setprofile(prof)\nlen('x')\nsys.setprofile(None)\nreturn OUT.pop()",
)
_held(
    "gc finds it",
    "",
    "import gc\nreturn next(o for o in gc.get_objects() if isinstance(o, types.FunctionType) and o.__name__=='cancel' and o.__module__==__name__)('7')",
)
_shape(
    "function",
    "module __getattr__",
    "cancel",
    "def __getattr__(name):\n    if name == 'cancel': return lambda order_id: real(order_id)\n    raise AttributeError(name)",
    "return sys.modules[__name__].cancel('7')",
    refused="each access makes another",
)
_shape(
    "function",
    "staticmethod object",
    "cancel",
    "@staticmethod\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    since=(3, 10),
)
_shape(
    "function",
    "object with __call__ by a metaclass",
    "cancel",
    "class M(type):\n    def __call__(cls, order_id): return real(order_id)\nclass cancel(metaclass=M): pass",
    "return cancel('7')",
)
_shape(
    "function",
    "singledispatch that is extended in the trial",
    "cancel",
    "@functools.singledispatch\ndef cancel(order_id): return real(order_id)",
    "@cancel.register(str)\ndef _(order_id): return real(order_id)\nreturn cancel('7')",
    refused="it replaced a tool",
)
_table("ChainMap", "TOOLS = collections.ChainMap({'cancel': cancel}, {})", "return TOOLS['cancel']('7')")
_table(
    "ChainMap, later child",
    "TOOLS = collections.ChainMap({'cancel': cancel})",
    "T = TOOLS.new_child({'cancel': lambda order_id: real(order_id)})\nreturn T['cancel']('7')",
)
_table(
    "UserDict, later",
    "TOOLS = collections.UserDict(other=cancel)",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
)
_table(
    "SimpleNamespace",
    "TOOLS = types.SimpleNamespace(cancel=cancel)",
    "return TOOLS.cancel('7')",
    refused="it is a SimpleNamespace",
)
_table(
    "enum of functions",
    "class TOOLS(enum.Enum):\n    CANCEL = enum.member(cancel)",
    "return TOOLS.CANCEL.value('7')",
    refused="is the class TOOLS",
    since=(3, 11),
)
_table(
    "defaultdict, factory",
    "TOOLS = collections.defaultdict(lambda: (lambda order_id: real(order_id)), other=cancel)",
    "return TOOLS['cancel']('7')",
)
_table("weak value dict", "TOOLS = weakref.WeakValueDictionary(cancel=cancel)", "return TOOLS['cancel']('7')")

# --- another function in a tool's place, which may run once ----------------------------------------

_shape(
    "replaced",
    "module attribute replaced",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "def other(order_id): return real(order_id)\nsys.modules[__name__].cancel = other\nreturn cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "global replaced",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "global cancel\ncancel = lambda order_id: real(order_id)\nreturn cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "globals().update",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "globals().update(cancel=lambda order_id: real(order_id))\nreturn cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "class attribute replaced",
    "Shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)",
    "Shop.cancel = lambda self, order_id: real(order_id)\nreturn Shop().cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "__class__ replaced",
    "shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)\nclass Other:\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "shop.__class__ = Other\nreturn shop.cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "__getattribute__ added",
    "shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "Shop.__getattribute__ = lambda self, name: lambda order_id: real(order_id)\nreturn shop.cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "table replaced",
    "TOOLS",
    "def cancel(order_id):\n    return real(order_id)\nTOOLS = {'cancel': cancel}",
    "global TOOLS\nTOOLS = {'cancel': lambda order_id: real(order_id)}\nreturn TOOLS['cancel']('7')",
    refused="it replaced a tool",
)

# --- tools that are made again during a trial -------------------------------------------------------------

FACTORY = "def make():\n    def cancel(order_id, *, note='n'): return real(order_id)\n    return cancel\n"
_shape(
    "made",
    "called as its factory makes it",
    "cancel",
    FACTORY + "cancel = make()",
    "return make()('7')",
    refused="again",
)
_shape(
    "made",
    "put in a listed table",
    "TOOLS",
    FACTORY + "TOOLS = {'cancel': make()}",
    "TOOLS['cancel'] = make()\nreturn TOOLS['cancel']('7')",
)
_shape(
    "made",
    "in a table of a factory",
    "TOOLS",
    "def tools(session):\n    def cancel(order_id): return real(order_id)\n    return {'cancel': cancel, 'seen': session}\nTOOLS = tools('start')",
    "return tools('request')['cancel']('7')",
    refused="again",
)
_shape(
    "made",
    "by a factory in a factory",
    "cancel",
    "def outer():\n    def inner():\n        return lambda order_id: real(order_id)\n    return inner()\ncancel = outer()",
    "return outer()('7')",
    refused="again",
)
_shape(
    "made",
    "async",
    "cancel",
    "def make():\n    async def cancel(order_id): return real(order_id)\n    return cancel\ncancel = make()",
    "return asyncio.run(make()('7'))",
    refused="again",
)
_shape(
    "made",
    "a generator",
    "cancel",
    "def make():\n    def cancel(order_id): yield real(order_id)\n    return cancel\ncancel = make()",
    "return next(make()('7'))",
    refused="again",
)
_shape(
    "made",
    "cached_property of another object",
    "shop.cancel",
    "class Shop:\n    @functools.cached_property\n    def cancel(self): return lambda order_id: real(order_id)\nshop = Shop()",
    "return Shop().cancel('7')",
    refused="again",
)
_shape(
    "made",
    "class that a function makes",
    "shop.cancel",
    "def make():\n    class Shop:\n        def cancel(self, order_id): return real(order_id)\n    return Shop()\nshop = make()",
    "return make().cancel('7')",
    refused="again",
)
_shape(
    "made",
    "global replaced by what its factory makes",
    "TOOLS",
    FACTORY + "TOOLS = {'cancel': make()}",
    "global TOOLS\nTOOLS = {'cancel': make()}\nreturn TOOLS['cancel']('7')",
    refused="it replaced a tool",
)
_shape(
    "made",
    "decorator of tools around another function",
    "cancel",
    "def deco(fn):\n    def wrapper(*args): return fn(*args)\n    return wrapper\n@deco\ndef cancel(order_id): return real(order_id)\ndef shout(text): return text.upper()",
    "assert deco(shout)('a') == 'A'\nreturn cancel('7')",
)
_shape(
    "made",
    "factory of tools and of other functions",
    "cancel",
    "def make(path):\n    def cancel(order_id): return real(order_id) if path == '/cancel' else path\n    return cancel\ncancel, other = make('/cancel'), make('/health')",
    "assert make('/other')('x') == '/other'\nreturn cancel('7')",
)

# --- a tool replaced by a library ---------------------------------------------------------------------------

_shape(
    "replaced",
    "unittest.mock.patch as a context",
    "cancel",
    CANCEL,
    "from unittest import mock\nwith mock.patch(f'{__name__}.cancel', side_effect=real):\n    return cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "unittest.mock.patch.object of a class",
    "Shop.cancel",
    SHOP,
    "from unittest import mock\nwith mock.patch.object(Shop, 'cancel', lambda self, order_id: real(order_id)):\n    return Shop().cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "attribute of an object",
    "shop.cancel",
    SHOP + "shop = Shop()",
    "shop.cancel = lambda order_id: real(order_id)\nreturn shop.cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "function of a tool object",
    "TOOLS",
    CANCEL
    + "@dataclasses.dataclass\nclass Tool:\n    name: str\n    func: object\n    def __call__(self, *args): return self.func(*args)\nTOOLS = [Tool('cancel', cancel)]",
    "TOOLS[0].func = lambda order_id: real(order_id)\nreturn TOOLS[0]('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "function of a tool object with slots",
    "TOOLS",
    CANCEL
    + "class Tool:\n    __slots__ = ('name', 'func')\n    def __init__(self, name, func): self.name, self.func = name, func\nTOOLS = [Tool('cancel', cancel)]",
    "TOOLS[0].func = lambda order_id: real(order_id)\nreturn TOOLS[0].func('7')",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "refusal that is caught",
    "cancel",
    CANCEL,
    "sys.modules[__name__].cancel = lambda order_id: real(order_id)\nfor _ in range(3):\n    try:\n        cancel('7')\n    except BaseException: pass\nreturn ''",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "in a thread",
    "cancel",
    CANCEL,
    "global cancel\ncancel = lambda order_id: real(order_id)\nthread = threading.Thread(target=lambda: cancel('7'))\nthread.start(); thread.join()\nreturn ''",
    refused="it replaced a tool",
)
_shape(
    "replaced",
    "by another table of the same tools",
    "TOOLS",
    CANCEL + "TOOLS = {'cancel': cancel}",
    "global TOOLS\nTOOLS = {**TOOLS, 'again': cancel}\nreturn TOOLS['cancel']('7')",
)

# --- as applications hold tools ------------------------------------------------------------------------------

_held(
    "dependency injection by defaults",
    """
    class Depends:
        def __init__(self, function): self.function = function
    def endpoint(order_id, tool=Depends(cancel)): return tool(order_id)
    def solve(function, *args):
        import inspect
        given = {n: p.default.function for n, p in inspect.signature(function).parameters.items() if isinstance(p.default, Depends)}
        return function(*args, **given)
    """,
    "return solve(endpoint, '7')",
)
_held(
    "dataclass field", "@dataclasses.dataclass\nclass Box:\n    fn: object = cancel", "return Box().fn('7')"
)
_held(
    "entry point of a plugin",
    "",
    "from importlib.metadata import EntryPoint\nreturn EntryPoint('cancel', f'{__name__}:cancel', 'tools').load()('7')",
)
_held(
    "dotted name in a file of tools",
    "",
    "import json\nnames = json.loads(json.dumps({'cancel': f'{__name__}.cancel'}))\nmodule, _, attribute = names['cancel'].rpartition('.')\nreturn getattr(importlib.import_module(module), attribute)('7')",
)
_held(
    "async partial in a gather",
    "async def cancel(order_id): return real(order_id)\nHELD = functools.partial(cancel, '7')",
    "async def go(): return await asyncio.gather(HELD())\nreturn asyncio.run(go())[0]",
)
_held(
    "event bus",
    "BUS = collections.defaultdict(list)\nBUS['cancel'].append(cancel)",
    "return [handler('7') for handler in BUS['cancel']][0]",
)
_held(
    "decorated for tracing at the call",
    "def traced(fn):\n    @functools.wraps(fn)\n    def inner(*args, **kwargs):\n        return fn(*args, **kwargs)\n    return inner",
    "return traced(cancel)('7')",
)
_held(
    "argparse set_defaults",
    "",
    "import argparse\nparser = argparse.ArgumentParser()\nparser.set_defaults(func=cancel)\nreturn parser.parse_args([]).func('7')",
)
_held(
    "XML-RPC dispatcher",
    "",
    "from xmlrpc.server import SimpleXMLRPCDispatcher\nserver = SimpleXMLRPCDispatcher()\nserver.register_function(cancel)\nreturn server._dispatch('cancel', ('7',))",
)
_held(
    "sched",
    "OUT = []",
    "import sched\nplan = sched.scheduler()\nplan.enter(0, 1, lambda: OUT.append(cancel('7')))\nplan.run()\nreturn OUT.pop()",
)
_held("thread-local holder", "", "local = threading.local()\nlocal.fn = cancel\nreturn local.fn('7')")
_held(
    "run_in_executor",
    "",
    "async def go(): return await asyncio.get_running_loop().run_in_executor(None, functools.partial(cancel, order_id='7'))\nreturn asyncio.run(go())",
)
_held(
    "multiprocessing.dummy",
    "",
    "from multiprocessing.dummy import Pool\nwith Pool(1) as pool: return pool.map(cancel, ['7'])[0]",
)
_held(
    "ExitStack callback",
    "OUT = []",
    "import contextlib\nwith contextlib.ExitStack() as stack: stack.callback(lambda: OUT.append(cancel('7')))\nreturn OUT.pop()",
)
_held(
    "lazy reference",
    "class Lazy:\n    def __init__(self, ref): self.ref = ref\n    def __call__(self, *args):\n        module, _, name = self.ref.partition(':')\n        return getattr(importlib.import_module(module), name)(*args)\nHELD = Lazy(f'{__name__}:cancel')",
    "return HELD('7')",
)
_shape(
    "method",
    "found by its name",
    "Shop.cancel",
    SHOP,
    "return getattr(Shop(), 'can' + 'cel')('7')",
)
_shape(
    "method",
    "operator.methodcaller",
    "Shop.cancel",
    SHOP,
    "import operator\nreturn operator.methodcaller('cancel', '7')(Shop())",
)
_shape(
    "method",
    "of an abstract base, implemented below",
    "Base.cancel",
    "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def cancel(self, order_id): ...\nclass Shop(Base):\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_shape(
    "method",
    "of a Protocol's implementation",
    "Shop.cancel",
    "class Cancels(typing.Protocol):\n    def cancel(self, order_id): ...\nclass Shop(Cancels):\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_shape(
    "method",
    "of a descriptor that binds",
    "Shop.cancel",
    "class Bound:\n    def __init__(self, fn): self.fn = fn\n    def __get__(self, obj, cls=None): return self if obj is None else functools.partial(self.fn, obj)\nclass Shop:\n    @Bound\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
    refused="cannot be patched",
)
_table(
    "registry of a metaclass",
    "TOOLS = {}\nclass Meta(type):\n    def __init__(cls, name, bases, space):\n        if 'run' in space: TOOLS[cls.name] = cls\nclass Base(metaclass=Meta):\n    name = 'base'\nclass Cancel(Base):\n    name = 'cancel'\n    def run(self, order_id): return real(order_id)",
    "return TOOLS['cancel']().run('7')",
)
_table(
    "registry of __init_subclass__",
    "TOOLS = {}\nclass Base:\n    def __init_subclass__(cls, **kwargs): TOOLS[cls.__name__] = cls()\nclass cancel(Base):\n    def __call__(self, order_id): return real(order_id)",
    "return TOOLS['cancel']('7')",
)
_table(
    "registry of __init_subclass__, later",
    "TOOLS = {}\nclass Base:\n    def __init_subclass__(cls, **kwargs): TOOLS[cls.__name__] = cls()\nclass other(Base):\n    def __call__(self, order_id): return real(order_id)",
    "class cancel(Base):\n    def __call__(self, order_id): return real(order_id)\nreturn TOOLS['cancel']('7')",
)
_table(
    "tasks with delay, of a queue",
    """
    QUEUE = []
    class Task:
        def __init__(self, fn): self.name, self.run = fn.__name__, fn
        def delay(self, *args): QUEUE.append((self, args))
        def __call__(self, *args): return self.run(*args)
    TOOLS = [Task(cancel)]
    """,
    "TOOLS[0].delay('7')\ntask, args = QUEUE.pop()\nreturn task.run(*args)",
)
_table(
    "tools named in JSON",
    'import json\nTOOLS = json.loads(\'{"cancel": "%s:cancel"}\' % __name__)',
    "module, _, name = TOOLS['cancel'].partition(':')\nreturn getattr(importlib.import_module(module), name)('7')",
)
_table(
    "cmd.Cmd",
    "import cmd\nclass Shell(cmd.Cmd):\n    def do_cancel(self, order_id): return real(order_id)\nTOOLS = {'cancel': Shell().do_cancel}",
    "return TOOLS['cancel']('7')",
)
_shape(
    "replaced",
    "function that ran before",
    "cancel",
    CANCEL + "def other(order_id, dry=False): return '' if dry else real(order_id)",
    "other('7', True)\nsys.modules[__name__].cancel = other\nreturn cancel('7')",
    refused="it replaced a tool",
)

_shape(
    "replaced",
    "in a thread older than the trial",
    "cancel",
    """
    import queue
    WORK, DONE = queue.Queue(), queue.Queue()
    def cancel(order_id): return real(order_id)
    def serve():
        while True: DONE.put(sys.modules[__name__].cancel(WORK.get()))
    threading.Thread(target=serve, daemon=True).start()
    """,
    "sys.modules[__name__].cancel = lambda order_id: real(order_id)\nWORK.put('7')\nreturn DONE.get()",
    refused="it replaced a tool",
)

# --- as packages hold and call tools --------------------------------------------------------------------------

_shape(
    "function",
    "made by exec",
    "cancel",
    "exec('def cancel(order_id):\\n    return real(order_id)')",
    "return cancel('7')",
)
_shape(
    "function",
    "of a module in a zip file",
    "CANCEL",
    """
    import io, zipfile
    from canary import place
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("packed_tools.py", "from canary import real\\ndef cancel(order_id): return real(order_id)\\n")
    place("packed_tools.zip", packed.getvalue())
    sys.path.append(os.path.abspath("packed_tools.zip"))
    import packed_tools
    CANCEL = packed_tools.cancel
    """,
    "del sys.modules['packed_tools']\nimport packed_tools\nreturn packed_tools.cancel('7')",
)
_shape(
    "function",
    "callable object with slots",
    "cancel",
    "class T:\n    name = 'cancel'\n    __slots__ = ('_f',)\n    def __init__(self, f): self._f = f\n    def __call__(self, order_id): return self._f(order_id)\ncancel = T(lambda order_id: real(order_id))",
    "assert cancel('7') == 'answered'\nreturn cancel._f('7')",
    answers=2,
)
_held(
    "background task of an endpoint",
    """
    OUT = []
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from starlette.testclient import TestClient
    async def endpoint(request): return JSONResponse({}, background=BackgroundTask(lambda: OUT.append(cancel("7"))))
    app = Starlette(routes=[Route("/x", endpoint)])
    """,
    "TestClient(app).get('/x')\nreturn OUT.pop()",
    needs="starlette",
)
_held(
    "anyio.to_thread",
    "import anyio.to_thread",
    "return anyio.run(functools.partial(anyio.to_thread.run_sync, cancel, '7'))",
    needs="anyio",
)
_held(
    "anyio.to_process",
    "import anyio.to_process",
    "return anyio.run(functools.partial(anyio.to_process.run_sync, cancel, '7'))",
    needs="anyio",
)
_held(
    "portal of anyio",
    "import anyio.from_thread\nasync def go(order_id): return cancel(order_id)",
    "with anyio.from_thread.start_blocking_portal() as portal:\n    return portal.call(go, '7')",
    needs="anyio",
)
_held(
    "thread with an empty context",
    "",
    "out = []\nthread = threading.Thread(target=lambda: contextvars.Context().run(lambda: out.append(cancel('7'))))\nthread.start(); thread.join()\nreturn out.pop()",
)
_held(
    "task queue with a worker thread since the import",
    """
    import queue
    WORK, DONE, TASKS = queue.Queue(), queue.Queue(), {}
    class Task:
        def __init__(self, fn): TASKS[fn.__name__] = self.fn = fn
        def delay(self, **kwargs): WORK.put((self.fn.__name__, kwargs))
    def serve():
        while True:
            name, kwargs = WORK.get()
            DONE.put(TASKS[name](**kwargs))
    task = Task(cancel)
    TASKS["cancel"] = cancel
    threading.Thread(target=serve, daemon=True).start()
    """,
    "task.delay(order_id='7')\nreturn DONE.get(timeout=10)",
)
_held(
    "multiprocessing manager",
    "import multiprocessing.managers\nclass Shop:\n    def stop(self, order_id): return cancel(order_id)\nclass Manager(multiprocessing.managers.BaseManager): pass\nManager.register('Shop', Shop)",
    "import multiprocessing\nwith Manager(ctx=multiprocessing.get_context('spawn')) as manager:\n    return manager.Shop().stop('7')",
)
_held(
    "joblib's processes",
    "",
    "import joblib\nreturn joblib.Parallel(n_jobs=2)(joblib.delayed(cancel)(one) for one in ['7'])[0]",
    needs="joblib",
)
_held(
    "joblib's processes, through a lambda of the same module",
    "",
    "import joblib\nreturn joblib.Parallel(n_jobs=2)(joblib.delayed(lambda one: cancel(one))(one) for one in ['7'])[0]",
    needs="joblib",
)
_held(
    "cloudpickle by value",
    "import cloudpickle",
    "cloudpickle.register_pickle_by_value(sys.modules[__name__])\nreturn cloudpickle.loads(cloudpickle.dumps(cancel))('7')",
    refused="cannot be sent to another process",
    needs="cloudpickle",
)
_held(
    "cloudpickle by value at import (another process)",
    "import base64, cloudpickle\ncloudpickle.register_pickle_by_value(sys.modules[__name__])\nTEXT = base64.b64encode(cloudpickle.dumps(cancel)).decode()",
    "import subprocess\ncode = f\"import base64, pickle; print(pickle.loads(base64.b64decode('{TEXT}'))('7'), end='')\"\nreturn subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout",
    refused="copied the original code of a tool",
    needs="cloudpickle",
)
_held(
    "weak reference to a method",
    "class Shop:\n    def stop(self, order_id): return cancel(order_id)\nSHOP = Shop()\nHELD = weakref.WeakMethod(SHOP.stop)",
    "return HELD()('7')",
)
_held(
    "ctypes calls it",
    "",
    "import ctypes\ncalls = ctypes.pythonapi.PyObject_CallObject\ncalls.restype, calls.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]\nreturn calls(cancel, ('7',))",
)
_held(
    "callback of ctypes",
    "OUT = []\nimport ctypes\nHELD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda number: OUT.append(cancel(str(number))) or 1)",
    "HELD(7)\nreturn OUT.pop()",
)
_PLUGIN = """
import importlib.util
from canary import place
FILE = os.path.abspath("NAME.py")
place(FILE, b"from canary import real\\ndef cancel(order_id): return real(order_id)\\n")
def load(name):
    spec = importlib.util.spec_from_file_location(name, FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
PLUGIN = load("first")
"""
_shape(
    "holder",
    "plugin loaded by its file, loaded again",
    "PLUGIN.cancel",
    _PLUGIN.replace("NAME", "plugin_one"),
    "return load('second').cancel('7')",
)
_table(
    "plugins by their files, all loaded again",
    _PLUGIN.replace("NAME", "plugin_two") + "TOOLS = {'cancel': PLUGIN.cancel}",
    "TOOLS['cancel'] = load('second').cancel\nreturn TOOLS['cancel']('7')",
)
_shape(
    "decorator",
    "of wrapt",
    "cancel",
    "import wrapt\n@wrapt.decorator\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\n@traced\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    needs="wrapt",
)
_shape(
    "decorator",
    "of wrapt, around a method",
    "Shop.cancel",
    "import wrapt\n@wrapt.decorator\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\nclass Shop:\n    @traced\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
    needs="wrapt",
)
_shape(
    "decorator",
    "of wrapt (with an effect)",
    "cancel",
    "import wrapt\n@wrapt.decorator\ndef audited(wrapped, instance, args, kwargs):\n    real('audit')\n    return wrapped(*args, **kwargs)\n@audited\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    refused="is a FunctionWrapper",
    needs="wrapt",
)
_shape(
    "decorator",
    "proxy of wrapt",
    "cancel",
    "import wrapt\ndef stop(order_id): return real(order_id)\ncancel = wrapt.CallableObjectProxy(stop)\nstop.__name__ = 'cancel'",
    "assert cancel('7') == 'answered'\nreturn stop('7')",
    answers=2,
    needs="wrapt",
)
_shape(
    "decorator",
    "subclass of a proxy of wrapt",
    "cancel",
    CANCEL
    + "import wrapt\nCANCEL = cancel\nclass Lazy(wrapt.ObjectProxy):\n    def __call__(self, *args): return self.__wrapped__(*args)\ncancel = Lazy(cancel)",
    "assert cancel('7') == 'answered'\nreturn CANCEL('7')",
    answers=2,
    needs="wrapt",
)
_shape(
    "decorator",
    "of wrapt, put on during the trial",
    "Shop.cancel",
    SHOP + "import wrapt\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)",
    "wrapt.wrap_function_wrapper(sys.modules[__name__], 'Shop.cancel', traced)\nreturn Shop().cancel('7')",
    needs="wrapt",
)
_shape(
    "decorator",
    "of backoff",
    "cancel",
    "import backoff\n@backoff.on_exception(backoff.expo, ValueError, max_tries=3)\nasync def cancel(order_id): return real(order_id)",
    "return asyncio.run(cancel('7'))",
    needs="backoff",
)
_shape(
    "decorator",
    "pydantic.validate_call",
    "cancel",
    "import pydantic\n@pydantic.validate_call\ndef cancel(order_id: str) -> str: return real(order_id)",
    "assert cancel('7') == 'answered'\nreturn cancel.raw_function('7')",
    answers=2,
    needs="pydantic",
)
_shape(
    "decorator",
    "joblib.Memory",
    "cancel",
    "import joblib, tempfile\n@joblib.Memory(tempfile.mkdtemp(), verbose=0).cache\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    needs="joblib",
)
_shape(
    "method",
    "written from a template for each operation",
    "client.orders.cancel",
    """
    class Orders:
        def _request(self, name, order_id): return real(order_id)
    for name in ("cancel", "refund"):
        exec(f"def {name}(self, order_id): return self._request('{name}', order_id)", space := {})
        setattr(Orders, name, space[name])
    class Client:
        def __init__(self): self.orders = Orders()
    client = Client()
    """,
    "return Client().orders.cancel('7')",
)
_shape(
    "method",
    "of an object that a property makes",
    "client.orders.cancel",
    "class Orders:\n    def cancel(self, order_id): return real(order_id)\nclass Client:\n    @property\n    def orders(self): return Orders()\nclient = Client()",
    "return client.orders.cancel('7')",
)
_shape(
    "method",
    "through a proxy of a context variable",
    "client.cancel",
    """
    class Shop:
        def cancel(self, order_id): return real(order_id)
    class LocalProxy:
        def __init__(self, find): self.__dict__["_find"] = find
        def __getattr__(self, name): return getattr(self._find(), name)
    VAR, FIRST = contextvars.ContextVar("shop"), Shop()
    client = LocalProxy(lambda: VAR.get(FIRST))
    """,
    "VAR.set(Shop())\nreturn client.cancel('7')",
)
_REMOTE = """
class Remote:
    def __init__(self, name): self._name = name
    def __getattr__(self, name): return Remote(f"{self._name}.{name}")
    def __call__(self, order_id=''): return real(order_id or self._name)
"""
_shape(
    "method",
    "of a proxy that answers every name",
    "client.orders.cancel",
    _REMOTE + "client = Remote('shop')",
    "return client.orders.cancel('7')",
    refused="each access makes another",
)
_shape(
    "method",
    "of an XML-RPC server",
    "server.cancel",
    "import xmlrpc.client\nclass Transport(xmlrpc.client.Transport):\n    def request(self, *args, **kwargs): return (real('7'),)\nserver = xmlrpc.client.ServerProxy('http://127.0.0.1:9', transport=Transport())",
    "return server.cancel('7')",
    refused="each access makes another",
)
_table(
    "callable that answers every name",
    _REMOTE + "TOOLS = {'cancel': Remote('cancel'), 'other': cancel}",
    "return TOOLS['cancel']('7')",
)
_LIBRARY = """
from canary import place
os.makedirs("site-packages", exist_ok=True)
place("site-packages/NAME.py", b"from canary import real\\nclass Client:\\n    def cancel(self, order_id): return real(order_id)\\n")
sys.path.append(os.path.abspath("site-packages"))
import NAME as package
client = package.Client()
"""
_shape(
    "method",
    "of another object of an installed package",
    "client.cancel",
    _LIBRARY.replace("NAME", "installed_one"),
    "assert package.Client().cancel('7') == 'answered'\nreturn asyncio.run(asyncio.to_thread(package.Client().cancel, '7'))",
    answers=2,
)
_shape(
    "replaced",
    "object of an installed package",
    "client.cancel",
    _LIBRARY.replace("NAME", "installed_two"),
    "global client\nclient = package.Client()\nreturn client.cancel('7')",
    refused="it replaced a tool",
)
_shape(
    "method",
    "of a pydantic model that is copied",
    "shop.cancel",
    "import pydantic\nclass Shop(pydantic.BaseModel):\n    url: str = ''\n    _client: object = pydantic.PrivateAttr(default=None)\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "return shop.model_copy(deep=True).cancel('7')",
    needs="pydantic",
)
_table(
    "pydantic model with a private function",
    "import pydantic\nclass Tool(pydantic.BaseModel):\n    name: str = 'cancel'\n    _fn: object = pydantic.PrivateAttr(default=None)\n    def model_post_init(self, _): self._fn = lambda order_id: real(order_id)\n    def __call__(self, order_id): return self._fn(order_id)\nTOOLS = [Tool()]",
    "return TOOLS[0]._fn('7')",
    needs="pydantic",
)
_table(
    "pydantic model whose fields are the arguments",
    "import pydantic\nclass Cancel(pydantic.BaseModel):\n    order_id: str\n    note: str = ''\n    def run(self): return real(self.order_id)\nTOOLS = {'cancel': Cancel}",
    "return TOOLS['cancel'](order_id='7').run()",
    needs="pydantic",
)
_table(
    "dataclass whose fields are the arguments",
    "@dataclasses.dataclass\nclass Cancel:\n    order_id: str\n    note: str = ''\n    def run(self): return real(self.order_id)\nTOOLS = {'cancel': Cancel}",
    "return TOOLS['cancel'](order_id='7').run()",
)
_table(
    "methods registered by a decorator in their class",
    "TOOLS = {}\ndef tool(fn):\n    TOOLS[fn.__name__] = fn\n    return fn\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "assert TOOLS['cancel'](Shop(), '7') == 'answered'\nreturn Shop().cancel('7')",
    answers=2,
)
_table(
    "methods registered by __set_name__",
    "TOOLS = {}\nclass tool:\n    def __init__(self, fn): self.fn = fn\n    def __set_name__(self, owner, name):\n        TOOLS[name] = self.fn\n        setattr(owner, name, self.fn)\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_table(
    "descriptor that is called",
    "TOOLS = {}\nclass tool:\n    def __init__(self, fn): self.fn = fn\n    def __set_name__(self, owner, name): TOOLS[name] = self\n    def __get__(self, obj, cls=None): return self if obj is None else functools.partial(self.fn, obj)\n    def __call__(self, *args): return self.fn(*args)\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
_table(
    "decorated methods registered in their class",
    "TOOLS = {}\ndef tool(fn):\n    TOOLS[fn.__name__] = fn\n    return fn\ndef traced(fn):\n    @functools.wraps(fn)\n    def inner(*args): return fn(*args)\n    return inner\nclass Shop:\n    @tool\n    @traced\n    def cancel(self, order_id): return real(order_id)",
    "return TOOLS['cancel'](Shop(), '7')",
)
_table(
    "object with a function that checks",
    "class Tool:\n    name = 'cancel'\n    def __init__(self): self.check = lambda text: text == '7'\n    def __call__(self, order_id): return real(order_id) if self.check(order_id.strip()) else ''\nTOOLS = [Tool()]",
    "assert TOOLS[0].check('7') is True\nreturn TOOLS[0]('7')",
)
_table(
    "dataclass object beside a class of arguments",
    "@dataclasses.dataclass\nclass Cancel:\n    order_id: str\n    client: object = None\n    def run(self): return real(self.order_id)\n@dataclasses.dataclass\nclass Now:\n    name: str\n    def run(self): return real('now')\nTOOLS = {'cancel': Cancel, 'now': Now('now')}",
    "return TOOLS['cancel']('7', object()).run()",
)
_OPERATIONS = """
def send(path, kwargs): return real(kwargs["order_id"])
def build():
    found = {}
    for path in ("cancel", "refund"):
        def call(_path=path, **kwargs): return send(_path, kwargs)
        found[path] = call
    return found
TOOLS = build()
"""
_table("operations of a specification", _OPERATIONS, "return TOOLS['cancel'](order_id='7')")
_table(
    "objects of a specification's operations",
    "class Operation:\n    def __init__(self, name, path): self.name, self.path = name, path\n    def __call__(self, **kwargs): return real(kwargs['order_id'])\nTOOLS = {name: Operation(name, f'/{name}') for name in ('cancel', 'refund')}",
    "assert TOOLS['cancel'](order_id='7') == 'answered'\nreturn Operation('cancel', '/x')(order_id='7')",
    answers=2,
)
_table(
    "copied by pickle and by deepcopy",
    "TOOLS = {'cancel': cancel}",
    "import pickle\nassert pickle.loads(pickle.dumps(TOOLS))['cancel']('7') == 'answered'\nreturn copy.deepcopy(TOOLS)['cancel']('7')",
    answers=2,
)
_table(
    "object that is unpickled",
    "import pickle\nclass Cancel:\n    name = 'cancel'\n    def __call__(self, order_id): return real(order_id)\nTOOLS = [Cancel()]",
    "return pickle.loads(pickle.dumps(TOOLS[0]))('7')",
)
_table(
    "weak proxy of an object",
    SHOP + "shop = Shop()\nTOOLS = {'cancel': weakref.proxy(shop).cancel}",
    "return shop.cancel('7')",
)
_shape(
    "table",
    "of an object made again by default_factory",
    "agent.tools",
    CANCEL
    + "@dataclasses.dataclass\nclass Agent:\n    tools: dict = dataclasses.field(default_factory=lambda: {'cancel': cancel})\nagent = Agent()",
    "return Agent().tools['cancel']('7')",
)

# --- factories that make tools and other functions ---------------------------------------------------------

_CLIENT = """
def method(operation):
    def call(self, *args, **kwargs): return self.send(operation, kwargs)
    call.__name__ = operation
    return call
class Base:
    def send(self, operation, kwargs): return real(operation) if operation == "cancel" else operation
def connect(*operations): return type("Client", (Base,), {one: method(one) for one in operations})()
client = connect("cancel", "get")
"""
_shape(
    "made",
    "with all methods of another client",
    "client.cancel",
    _CLIENT,
    "return connect('cancel').cancel(order_id='7')",
    refused="again",
)
_shape(
    "made",
    "other methods of another client",
    "client.cancel",
    _CLIENT,
    "assert connect('get').get(order_id='7') == 'get'\nreturn client.cancel(order_id='7')",
)
_BOTH = "def make(path):\n    PARTS\n    return cancel\ncancel, other = make('/cancel'), make('/health')"
for _title, _parts, _run in (
    (
        "by a default",
        "def cancel(order_id, /, *rest, _path=path, **more): return real(order_id) if _path == '/cancel' else [order_id, *rest, more]",
        "assert make('/x')(1, 2, a=3) == [1, 2, {'a': 3}]\nreturn make('/cancel')('7')",
    ),
    (
        "with a variable of its own",
        "count = 0\n    def cancel(order_id):\n        nonlocal count\n        count += 1\n        return real(order_id) if path == '/cancel' else count",
        "one = make('/x')\nassert [one(1), one(1)] == [1, 2]\nreturn make('/cancel')('7')",
    ),
    (
        "async",
        "async def cancel(order_id): return real(order_id) if path == '/cancel' else path",
        "assert asyncio.run(make('/x')('7')) == '/x'\nreturn asyncio.run(make('/cancel')('7'))",
    ),
    (
        "a generator",
        "def cancel(order_id):\n        got = yield real(order_id) if path == '/cancel' else path\n        yield got",
        "one = make('/x')('7')\nassert [next(one), one.send(5)] == ['/x', 5]\nreturn next(make('/cancel')('7'))",
    ),
    (
        "an async generator",
        "async def cancel(order_id): yield real(order_id) if path == '/cancel' else path",
        "async def first(one):\n    async for item in one: return item\nassert asyncio.run(first(make('/x')('7'))) == '/x'\nreturn asyncio.run(first(make('/cancel')('7')))",
    ),
    (
        "a method with super()",
        "class Base:\n        def cancel(self, order_id): return order_id\n    class Shop(Base):\n        def cancel(self, order_id): return real(order_id) if path == '/cancel' else super().cancel(order_id)\n    cancel = Shop().cancel",
        "assert make('/x')('8') == '8'\nreturn make('/cancel')('7')",
    ),
):
    _shape(
        "made",
        f"beside other functions ({_title})",
        "cancel",
        _BOTH.replace("PARTS", _parts),
        _run,
        refused="again",
    )

# --- what is not covered: the tool runs ----------------------------------------------------------------------

_CLEAN = """
FOLDER = os.path.dirname(os.path.abspath(__file__))
CODE = f"import sys; sys.path.insert(0, {FOLDER!r}); import {__name__} as m; print(m.cancel('7'))"
"""
_shape(
    "uncovered",
    "a helper behind the tool, called directly",
    "cancel",
    "def post(order_id): return real(order_id)\ndef cancel(order_id): return post(order_id)",
    "return post('7')",
    runs=1,
)
_shape(
    "uncovered",
    "a built-in function put in a tool's place (the trial is refused afterwards)",
    "cancel",
    CANCEL + "from canary import FILE",
    "sys.modules[__name__].cancel = functools.partial(print, file=FILE.open('a'), flush=True)\nreturn str(cancel('7'))",
    runs=1,
)
_shape(
    "uncovered",
    "a Python that Perl starts with a cleaned environment",
    "cancel",
    CANCEL + _CLEAN,
    "import subprocess\nreturn subprocess.run(['perl', '-e', '%ENV = (); exec @ARGV', sys.executable, '-c', CODE], capture_output=True, text=True).stdout.strip()",
    runs=1,
)
_shape(
    "uncovered",
    "a Python that a shell starts with a cleaned environment, by commands from a pipe",
    "cancel",
    CANCEL + _CLEAN,
    "import shlex, subprocess\nreturn subprocess.run(['sh'], input=f'exec env -i {sys.executable} -c {shlex.quote(CODE)}', capture_output=True, text=True).stdout.strip()",
    runs=1,
)
