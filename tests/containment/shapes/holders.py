"""Who holds a named function."""

from __future__ import annotations

from tests.containment.shapes.corpus import held, shape, table

held("module alias", "other = cancel", "return other('7')")
held("late import", "", "from importlib import import_module\nreturn import_module(__name__).cancel('7')")
held("dict value", "HELD = {'a': cancel}", "return HELD['a']('7')")
held("dict key", "HELD = {cancel: 'schema'}", "return next(iter(HELD))('7')")
held("list", "HELD = [cancel]", "return HELD[0]('7')")
held("set", "HELD = {cancel}", "return next(iter(HELD))('7')")
held("frozenset", "HELD = frozenset([cancel])", "return next(iter(HELD))('7')")
held("deque", "HELD = collections.deque([cancel])", "return HELD[0]('7')")
held("five nested tuples", "HELD = (((((cancel,),),),),)", "return HELD[0][0][0][0][0]('7')")
held(
    "NamedTuple",
    "class Entry(typing.NamedTuple):\n    fn: object\nHELD = Entry(cancel)",
    "return HELD.fn('7')",
)
held(
    "frozen dataclass with slots",
    "@dataclasses.dataclass(frozen=True)\nclass E:\n    __slots__ = ('fn',)\n    fn: object\nHELD = E(cancel)",
    "return HELD.fn('7')",
)
held("enum member", "class E(enum.Enum):\n    A = (cancel,)", "return E.A.value[0]('7')")
held("mappingproxy", "HELD = types.MappingProxyType({'a': cancel})", "return HELD['a']('7')")
held("default argument", "def go(fn=cancel, *, also=cancel): return fn('7')", "return go()")
held(
    "closure of another function",
    "def outside():\n    held = cancel\n    return lambda: held('7')\nGO = outside()",
    "return GO()",
)
held("partial", "HELD = functools.partial(cancel, '7')", "return HELD()")
held("partial as an argument", "HELD = functools.partial(lambda fn: fn('7'), cancel)", "return HELD()")
held("lru_cache", "HELD = functools.lru_cache(cancel)", "return HELD('7')")
held("context variable", "VAR = contextvars.ContextVar('v', default=cancel)", "return VAR.get()('7')")
held("weak reference", "HELD = weakref.ref(cancel)", "return HELD()('7')")
held("map", "HELD = [map(cancel, ['7']) for _ in range(2)]", "return next(HELD.pop())")
held(
    "suspended generator",
    "def gen():\n    fn = cancel\n    yield\n    yield fn('7')\nG = [gen(), gen()]\nfor one in G: next(one)",
    "return next(G.pop())",
)
held(
    "copy with the same code",
    "HELD = types.FunctionType(cancel.__code__, globals())",
    "return HELD('7')",
    passes=True,
)
held("copy made later", "", "return types.FunctionType(cancel.__code__, globals())('7')")
held("copy.copy and deepcopy", "", "return copy.deepcopy(copy.copy(cancel))('7')")
held(
    "copy of code that was kept",
    "CODE = cancel.__code__",
    "return types.FunctionType(CODE, globals())('7')",
    passes=True,
)
held("static method", "class Kept:\n    go = staticmethod(cancel)", "return Kept.go('7')")
held(
    "thread",
    "",
    """
    found = []
    thread = threading.Thread(target=lambda: found.append(cancel("7")))
    thread.start(); thread.join()
    return found[0]
""",
)
held(
    "thread pool",
    "",
    """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(cancel, "7").result()
""",
)
held(
    "gather",
    "",
    """
    async def go(): return await asyncio.gather(asyncio.to_thread(cancel, "7"))
    return asyncio.run(go())[0]
""",
)
held(
    "exec of the module's source",
    "SOURCE = open(__file__).read()",
    "space = {'__name__': 'other', '__file__': __file__}\nexec(SOURCE, space)\nreturn space['cancel']('7')",
    passes=True,
)
held(
    "runpy of the module's file",
    "",
    "import runpy\nreturn runpy.run_path(__file__)['cancel']('7')",
    passes=True,
)
held(
    "module loaded again under another name",
    "",
    """
    spec = importlib.util.spec_from_file_location("loaded_again", __file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cancel("7")
""",
)
held("importlib.reload", "", "return importlib.reload(sys.modules[__name__]).cancel('7')")
held(
    "module forgotten and imported again",
    "",
    "del sys.modules[__name__]\nreturn importlib.import_module(__name__).cancel('7')",
)
held("replaced between trials", "", "return globals()['cancel']('7')")
held(
    "a coroutine that was made at import",
    "async def stop(order_id): return real(order_id)\nWAITING = stop('7')\ncancel = stop",
    "return asyncio.run(WAITING)",
    passes=True,
)

held(
    "ctypes makes a function of kept code",
    "CODE = cancel.__code__",
    "import ctypes\nnew = ctypes.pythonapi.PyFunction_New\nnew.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]\nreturn new(CODE, globals())('7')",
    passes=True,
)
held(
    "marshalled code",
    "import marshal\nBYTES = marshal.dumps(cancel.__code__)",
    "return types.FunctionType(marshal.loads(BYTES), globals())('7')",
    passes=True,
)
held(
    "code.replace kept",
    "CODE = cancel.__code__.replace(co_name='other')",
    "return types.FunctionType(CODE, globals())('7')",
    passes=True,
)
held(
    "exec of kept code",
    "def act(): return real('7')\ncancel = act\nCODE = act.__code__",
    "exec(CODE)\nreturn 'answered'",
    passes=True,
)
shape(
    "holder",
    "cached_property of the object",
    "shop.cancel",
    "class Shop:\n    @functools.cached_property\n    def cancel(self): return lambda order_id: real(order_id)\nshop = Shop()",
    "return shop.cancel('7')",
)
held("__get__", "", "return cancel.__get__('7')()")
held("types.MethodType", "", "return types.MethodType(cancel, '7')()")
held("pickle", "", "import pickle\nreturn pickle.loads(pickle.dumps(cancel))('7')")
held("inspect.unwrap", "", "import inspect\nreturn inspect.unwrap(cancel)('7')")
held("builtins", "import builtins\nbuiltins.cancel_it = cancel", "return cancel_it('7')")
held("property whose getter it is", "class P(str):\n    go = property(cancel)", "return P('7').go")
held("__class_getitem__", "class P:\n    __class_getitem__ = staticmethod(cancel)", "return P['7']")
held(
    "__del__",
    "class P:\n    def __del__(self): OUT.append(cancel('7'))\nOUT=[]",
    "p = P()\ndel p\nreturn OUT.pop()",
)
held(
    "weakref.finalize",
    "OUT=[]",
    "class P: pass\np = P()\nweakref.finalize(p, lambda: OUT.append(cancel('7')))\ndel p\nreturn OUT.pop()",
)
held(
    "signal handler",
    "OUT=[]",
    "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: OUT.append(cancel('7')))\nos.kill(os.getpid(), signal.SIGUSR1)\nreturn OUT.pop()",
)
held(
    "threading.Timer",
    "OUT=[]",
    "t=threading.Timer(0, lambda: OUT.append(cancel('7')))\nt.start(); t.join()\nreturn OUT.pop()",
)
held(
    "default_factory",
    "@dataclasses.dataclass\nclass P:\n    x: str = dataclasses.field(default_factory=lambda: cancel('7'))",
    "return P().x",
)
held(
    "loop.call_soon",
    "",
    "async def go():\n    done = asyncio.get_running_loop().create_future()\n    asyncio.get_running_loop().call_soon(lambda: done.set_result(cancel('7')))\n    return await done\nreturn asyncio.run(go())",
)
held(
    "sys.setprofile",
    "OUT=[]",
    "def prof(frame, event, arg):\n    sys.setprofile(None)\n    OUT.append(cancel('7'))\nsys.setprofile(prof)\nlen('x')\nsys.setprofile(None)\nreturn OUT.pop()",
)
held(
    "gc finds it",
    "",
    "import gc\nreturn next(o for o in gc.get_objects() if isinstance(o, types.FunctionType) and o.__name__=='cancel' and o.__module__==__name__)('7')",
)
shape(
    "function",
    "module __getattr__",
    "cancel",
    "def __getattr__(name):\n    if name == 'cancel': return lambda order_id: real(order_id)\n    raise AttributeError(name)",
    "return sys.modules[__name__].cancel('7')",
    answers=1,
)
shape(
    "function",
    "staticmethod object",
    "cancel",
    "@staticmethod\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    since=(3, 10),
)
shape(
    "function",
    "object with __call__ by a metaclass",
    "cancel",
    "class M(type):\n    def __call__(cls, order_id): return real(order_id)\nclass cancel(metaclass=M): pass",
    "return cancel('7')",
)
shape(
    "function",
    "singledispatch that is extended in the trial",
    "cancel",
    "@functools.singledispatch\ndef cancel(order_id): return real(order_id)",
    "@cancel.register(str)\ndef _(order_id): return real(order_id)\nreturn cancel('7')",
    answers=1,
)
table("ChainMap", "TOOLS = collections.ChainMap({'cancel': cancel}, {})", "return TOOLS['cancel']('7')")
table(
    "ChainMap, later child",
    "TOOLS = collections.ChainMap({'cancel': cancel})",
    "T = TOOLS.new_child({'cancel': lambda order_id: real(order_id)})\nreturn T['cancel']('7')",
    passes=True,
)
table(
    "UserDict, later",
    "TOOLS = collections.UserDict(other=cancel)",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "SimpleNamespace",
    "TOOLS = types.SimpleNamespace(cancel=cancel)",
    "return TOOLS.cancel('7')",
)
table(
    "enum of functions",
    "class TOOLS(enum.Enum):\n    CANCEL = enum.member(cancel)",
    "return TOOLS.CANCEL.value('7')",
    refused="is the class TOOLS",
    since=(3, 11),
)
table(
    "defaultdict, factory",
    "TOOLS = collections.defaultdict(lambda: (lambda order_id: real(order_id)), other=cancel)",
    "return TOOLS['cancel']('7')",
    passes=True,
)
table("weak value dict", "TOOLS = weakref.WeakValueDictionary(cancel=cancel)", "return TOOLS['cancel']('7')")

held(
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
held(
    "its code in another function",
    "CODE = cancel.__code__",
    "def other(order_id): pass\nother.__code__ = CODE\nreturn other('7')",
    passes=True,
)
held(
    "its code replaced",
    "",
    "def other(order_id): return real(order_id)\ncancel.__code__ = other.__code__\nreturn cancel('7')",
    passes=True,
)
held(
    "its source compiled again",
    "",
    "import inspect\nspace = {'real': real}\nexec(inspect.getsource(cancel), space)\nreturn space['cancel']('7')",
    passes=True,
)
held(
    "a second interpreter",
    "",
    "name = '_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters'\nimportlib.import_module(name).create()\nreturn 'started'",
    passes=True,
)
held(
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
    passes=True,
)
