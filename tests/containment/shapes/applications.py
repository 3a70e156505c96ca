"""Tools as applications hold them."""

from __future__ import annotations

from tests.containment.shapes.corpus import CANCEL, SHOP, held, shape, table

held(
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
held("dataclass field", "@dataclasses.dataclass\nclass Box:\n    fn: object = cancel", "return Box().fn('7')")
held(
    "entry point of a plugin",
    "",
    "from importlib.metadata import EntryPoint\nreturn EntryPoint('cancel', f'{__name__}:cancel', 'tools').load()('7')",
)
held(
    "dotted name in a file of tools",
    "",
    "import json\nnames = json.loads(json.dumps({'cancel': f'{__name__}.cancel'}))\nmodule, _, attribute = names['cancel'].rpartition('.')\nreturn getattr(importlib.import_module(module), attribute)('7')",
)
held(
    "async partial in a gather",
    "async def cancel(order_id): return real(order_id)\nHELD = functools.partial(cancel, '7')",
    "async def go(): return await asyncio.gather(HELD())\nreturn asyncio.run(go())[0]",
)
held(
    "event bus",
    "BUS = collections.defaultdict(list)\nBUS['cancel'].append(cancel)",
    "return [handler('7') for handler in BUS['cancel']][0]",
)
held(
    "decorated for tracing at the call",
    "def traced(fn):\n    @functools.wraps(fn)\n    def inner(*args, **kwargs):\n        return fn(*args, **kwargs)\n    return inner",
    "return traced(cancel)('7')",
)
held(
    "argparse set_defaults",
    "",
    "import argparse\nparser = argparse.ArgumentParser()\nparser.set_defaults(func=cancel)\nreturn parser.parse_args([]).func('7')",
)
held(
    "XML-RPC dispatcher",
    "",
    "from xmlrpc.server import SimpleXMLRPCDispatcher\nserver = SimpleXMLRPCDispatcher()\nserver.register_function(cancel)\nreturn server._dispatch('cancel', ('7',))",
)
held(
    "sched",
    "OUT = []",
    "import sched\nplan = sched.scheduler()\nplan.enter(0, 1, lambda: OUT.append(cancel('7')))\nplan.run()\nreturn OUT.pop()",
)
held("thread-local holder", "", "local = threading.local()\nlocal.fn = cancel\nreturn local.fn('7')")
held(
    "run_in_executor",
    "",
    "async def go(): return await asyncio.get_running_loop().run_in_executor(None, functools.partial(cancel, order_id='7'))\nreturn asyncio.run(go())",
)
held(
    "multiprocessing.dummy",
    "",
    "from multiprocessing.dummy import Pool\nwith Pool(1) as pool: return pool.map(cancel, ['7'])[0]",
)
held(
    "ExitStack callback",
    "OUT = []",
    "import contextlib\nwith contextlib.ExitStack() as stack: stack.callback(lambda: OUT.append(cancel('7')))\nreturn OUT.pop()",
)
held(
    "lazy reference",
    "class Lazy:\n    def __init__(self, ref): self.ref = ref\n    def __call__(self, *args):\n        module, _, name = self.ref.partition(':')\n        return getattr(importlib.import_module(module), name)(*args)\nHELD = Lazy(f'{__name__}:cancel')",
    "return HELD('7')",
)
shape(
    "method",
    "found by its name",
    "Shop.cancel",
    SHOP,
    "return getattr(Shop(), 'can' + 'cel')('7')",
)
shape(
    "method",
    "operator.methodcaller",
    "Shop.cancel",
    SHOP,
    "import operator\nreturn operator.methodcaller('cancel', '7')(Shop())",
)
shape(
    "method",
    "of an abstract base, implemented below",
    "Base.cancel",
    "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def cancel(self, order_id): ...\nclass Shop(Base):\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
shape(
    "method",
    "of a Protocol's implementation",
    "Shop.cancel",
    "class Cancels(typing.Protocol):\n    def cancel(self, order_id): ...\nclass Shop(Cancels):\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
shape(
    "method",
    "of a descriptor that binds",
    "Shop.cancel",
    "class Bound:\n    def __init__(self, fn): self.fn = fn\n    def __get__(self, obj, cls=None): return self if obj is None else functools.partial(self.fn, obj)\nclass Shop:\n    @Bound\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
table(
    "registry of a metaclass",
    "TOOLS = {}\nclass Meta(type):\n    def __init__(cls, name, bases, space):\n        if 'run' in space: TOOLS[cls.name] = cls\nclass Base(metaclass=Meta):\n    name = 'base'\nclass Cancel(Base):\n    name = 'cancel'\n    def run(self, order_id): return real(order_id)",
    "return TOOLS['cancel']().run('7')",
)
table(
    "registry of __init_subclass__",
    "TOOLS = {}\nclass Base:\n    def __init_subclass__(cls, **kwargs): TOOLS[cls.__name__] = cls()\nclass cancel(Base):\n    def __call__(self, order_id): return real(order_id)",
    "return TOOLS['cancel']('7')",
)
table(
    "registry of __init_subclass__, later",
    "TOOLS = {}\nclass Base:\n    def __init_subclass__(cls, **kwargs): TOOLS[cls.__name__] = cls()\nclass other(Base):\n    def __call__(self, order_id): return real(order_id)",
    "class cancel(Base):\n    def __call__(self, order_id): return real(order_id)\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
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
table(
    "tools named in JSON",
    'import json\nTOOLS = json.loads(\'{"cancel": "%s:cancel"}\' % __name__)',
    "module, _, name = TOOLS['cancel'].partition(':')\nreturn getattr(importlib.import_module(module), name)('7')",
)
table(
    "cmd.Cmd",
    "import cmd\nclass Shell(cmd.Cmd):\n    def do_cancel(self, order_id): return real(order_id)\nTOOLS = {'cancel': Shell().do_cancel}",
    "return TOOLS['cancel']('7')",
)
shape(
    "replaced",
    "function that ran before",
    "cancel",
    CANCEL + "def other(order_id, dry=False): return '' if dry else real(order_id)",
    "other('7', True)\nsys.modules[__name__].cancel = other\nreturn cancel('7')",
    passes=True,
)

shape(
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
    answers=1,
)
