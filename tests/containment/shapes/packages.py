"""Tools as packages hold and call them."""

from __future__ import annotations

from tests.containment.shapes.corpus import CANCEL, SHOP, held, shape, table

shape(
    "function",
    "made by exec",
    "cancel",
    "exec('def cancel(order_id):\\n    return real(order_id)')",
    "return cancel('7')",
)
shape(
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
shape(
    "function",
    "callable object with slots",
    "cancel",
    "class T:\n    name = 'cancel'\n    __slots__ = ('_f',)\n    def __init__(self, f): self._f = f\n    def __call__(self, order_id): return self._f(order_id)\ncancel = T(lambda order_id: real(order_id))",
    "assert cancel('7') == 'answered'\nreturn cancel._f('7')",
    passes=True,
)
held(
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
held(
    "anyio.to_thread",
    "import anyio.to_thread",
    "return anyio.run(functools.partial(anyio.to_thread.run_sync, cancel, '7'))",
    needs="anyio",
)
held(
    "anyio.to_process",
    "import anyio.to_process",
    "return anyio.run(functools.partial(anyio.to_process.run_sync, cancel, '7'))",
    needs="anyio",
)
held(
    "portal of anyio",
    "import anyio.from_thread\nasync def go(order_id): return cancel(order_id)",
    "with anyio.from_thread.start_blocking_portal() as portal:\n    return portal.call(go, '7')",
    needs="anyio",
)
held(
    "thread with an empty context",
    "",
    "out = []\nthread = threading.Thread(target=lambda: contextvars.Context().run(lambda: out.append(cancel('7'))))\nthread.start(); thread.join()\nreturn out.pop()",
)
held(
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
held(
    "multiprocessing manager",
    "import multiprocessing.managers\nclass Shop:\n    def stop(self, order_id): return cancel(order_id)\nclass Manager(multiprocessing.managers.BaseManager): pass\nManager.register('Shop', Shop)",
    "import multiprocessing\nwith Manager(ctx=multiprocessing.get_context('spawn')) as manager:\n    return manager.Shop().stop('7')",
)
held(
    "joblib's processes",
    "",
    "import joblib\nreturn joblib.Parallel(n_jobs=2)(joblib.delayed(cancel)(one) for one in ['7'])[0]",
    needs="joblib",
)
held(
    "joblib's processes, through a lambda of the same module",
    "",
    "import joblib\nreturn joblib.Parallel(n_jobs=2)(joblib.delayed(lambda one: cancel(one))(one) for one in ['7'])[0]",
    needs="joblib",
)
held(
    "cloudpickle by value",
    "import cloudpickle",
    "cloudpickle.register_pickle_by_value(sys.modules[__name__])\nreturn cloudpickle.loads(cloudpickle.dumps(cancel))('7')",
    refused="cannot be sent to another process",
    needs="cloudpickle",
)
held(
    "cloudpickle by value at import (another process)",
    "import base64, cloudpickle\ncloudpickle.register_pickle_by_value(sys.modules[__name__])\nTEXT = base64.b64encode(cloudpickle.dumps(cancel)).decode()",
    "import subprocess\ncode = f\"import base64, pickle; print(pickle.loads(base64.b64decode('{TEXT}'))('7'), end='')\"\nreturn subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout",
    passes=True,
    needs="cloudpickle",
)
held(
    "weak reference to a method",
    "class Shop:\n    def stop(self, order_id): return cancel(order_id)\nSHOP = Shop()\nHELD = weakref.WeakMethod(SHOP.stop)",
    "return HELD()('7')",
)
held(
    "ctypes calls it",
    "",
    "import ctypes\ncalls = ctypes.pythonapi.PyObject_CallObject\ncalls.restype, calls.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]\nreturn calls(cancel, ('7',))",
)
held(
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
shape(
    "holder",
    "plugin loaded by its file, loaded again",
    "PLUGIN.cancel",
    _PLUGIN.replace("NAME", "plugin_one"),
    "return load('second').cancel('7')",
)
table(
    "plugins by their files, all loaded again",
    _PLUGIN.replace("NAME", "plugin_two") + "TOOLS = {'cancel': PLUGIN.cancel}",
    "TOOLS['cancel'] = load('second').cancel\nreturn TOOLS['cancel']('7')",
)
shape(
    "decorator",
    "of wrapt",
    "cancel",
    "import wrapt\n@wrapt.decorator\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\n@traced\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    needs="wrapt",
)
shape(
    "decorator",
    "of wrapt, around a method",
    "Shop.cancel",
    "import wrapt\n@wrapt.decorator\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\nclass Shop:\n    @traced\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
    needs="wrapt",
)
shape(
    "decorator",
    "of wrapt (with an effect)",
    "cancel",
    "import wrapt\n@wrapt.decorator\ndef audited(wrapped, instance, args, kwargs):\n    real('audit')\n    return wrapped(*args, **kwargs)\n@audited\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    passes=True,
    needs="wrapt",
)
shape(
    "decorator",
    "proxy of wrapt",
    "cancel",
    "import wrapt\ndef stop(order_id): return real(order_id)\ncancel = wrapt.CallableObjectProxy(stop)\nstop.__name__ = 'cancel'",
    "assert cancel('7') == 'answered'\nreturn stop('7')",
    answers=2,
    needs="wrapt",
)
shape(
    "decorator",
    "subclass of a proxy of wrapt",
    "cancel",
    CANCEL
    + "import wrapt\nCANCEL = cancel\nclass Lazy(wrapt.ObjectProxy):\n    def __call__(self, *args): return self.__wrapped__(*args)\ncancel = Lazy(cancel)",
    "assert cancel('7') == 'answered'\nreturn CANCEL('7')",
    answers=2,
    needs="wrapt",
)
shape(
    "decorator",
    "of wrapt, put on during the trial",
    "Shop.cancel",
    SHOP + "import wrapt\ndef traced(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)",
    "wrapt.wrap_function_wrapper(sys.modules[__name__], 'Shop.cancel', traced)\nreturn Shop().cancel('7')",
    needs="wrapt",
)
shape(
    "decorator",
    "of backoff",
    "cancel",
    "import backoff\n@backoff.on_exception(backoff.expo, ValueError, max_tries=3)\nasync def cancel(order_id): return real(order_id)",
    "return asyncio.run(cancel('7'))",
    needs="backoff",
)
shape(
    "decorator",
    "pydantic.validate_call",
    "cancel",
    "import pydantic\n@pydantic.validate_call\ndef cancel(order_id: str) -> str: return real(order_id)",
    "assert cancel('7') == 'answered'\nreturn cancel.raw_function('7')",
    answers=2,
    needs="pydantic",
)
shape(
    "decorator",
    "joblib.Memory",
    "cancel",
    "import joblib, tempfile\n@joblib.Memory(tempfile.mkdtemp(), verbose=0).cache\ndef cancel(order_id): return real(order_id)",
    "return cancel('7')",
    needs="joblib",
)
shape(
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
shape(
    "method",
    "of an object that a property makes",
    "client.orders.cancel",
    "class Orders:\n    def cancel(self, order_id): return real(order_id)\nclass Client:\n    @property\n    def orders(self): return Orders()\nclient = Client()",
    "return client.orders.cancel('7')",
)
shape(
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
shape(
    "method",
    "of a proxy that answers every name",
    "client.orders.cancel",
    _REMOTE + "client = Remote('shop')",
    "return client.orders.cancel('7')",
    passes=True,
)
shape(
    "method",
    "of an XML-RPC server",
    "server.cancel",
    "import xmlrpc.client\nclass Transport(xmlrpc.client.Transport):\n    def request(self, *args, **kwargs): return (real('7'),)\nserver = xmlrpc.client.ServerProxy('http://127.0.0.1:9', transport=Transport())",
    "return server.cancel('7')",
    passes=True,
)
table(
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
shape(
    "method",
    "of another object of an installed package",
    "client.cancel",
    _LIBRARY.replace("NAME", "installed_one"),
    "assert package.Client().cancel('7') == 'answered'\nreturn asyncio.run(asyncio.to_thread(package.Client().cancel, '7'))",
    answers=2,
    passes=True,
)
shape(
    "replaced",
    "object of an installed package",
    "client.cancel",
    _LIBRARY.replace("NAME", "installed_two"),
    "global client\nclient = package.Client()\nreturn client.cancel('7')",
    passes=True,
)
shape(
    "method",
    "of a pydantic model that is copied",
    "shop.cancel",
    "import pydantic\nclass Shop(pydantic.BaseModel):\n    url: str = ''\n    _client: object = pydantic.PrivateAttr(default=None)\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "return shop.model_copy(deep=True).cancel('7')",
    needs="pydantic",
)
table(
    "pydantic model with a private function",
    "import pydantic\nclass Tool(pydantic.BaseModel):\n    name: str = 'cancel'\n    _fn: object = pydantic.PrivateAttr(default=None)\n    def model_post_init(self, _): self._fn = lambda order_id: real(order_id)\n    def __call__(self, order_id): return self._fn(order_id)\nTOOLS = [Tool()]",
    "return TOOLS[0]._fn('7')",
    needs="pydantic",
)
table(
    "pydantic model whose fields are the arguments",
    "import pydantic\nclass Cancel(pydantic.BaseModel):\n    order_id: str\n    note: str = ''\n    def run(self): return real(self.order_id)\nTOOLS = {'cancel': Cancel}",
    "return TOOLS['cancel'](order_id='7').run()",
    needs="pydantic",
)
table(
    "dataclass whose fields are the arguments",
    "@dataclasses.dataclass\nclass Cancel:\n    order_id: str\n    note: str = ''\n    def run(self): return real(self.order_id)\nTOOLS = {'cancel': Cancel}",
    "return TOOLS['cancel'](order_id='7').run()",
)
table(
    "methods registered by a decorator in their class",
    "TOOLS = {}\ndef tool(fn):\n    TOOLS[fn.__name__] = fn\n    return fn\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "assert TOOLS['cancel'](Shop(), '7') == 'answered'\nreturn Shop().cancel('7')",
    answers=2,
)
table(
    "methods registered by __set_name__",
    "TOOLS = {}\nclass tool:\n    def __init__(self, fn): self.fn = fn\n    def __set_name__(self, owner, name):\n        TOOLS[name] = self.fn\n        setattr(owner, name, self.fn)\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
table(
    "descriptor that is called",
    "TOOLS = {}\nclass tool:\n    def __init__(self, fn): self.fn = fn\n    def __set_name__(self, owner, name): TOOLS[name] = self\n    def __get__(self, obj, cls=None): return self if obj is None else functools.partial(self.fn, obj)\n    def __call__(self, *args): return self.fn(*args)\nclass Shop:\n    @tool\n    def cancel(self, order_id): return real(order_id)",
    "return Shop().cancel('7')",
)
table(
    "decorated methods registered in their class",
    "TOOLS = {}\ndef tool(fn):\n    TOOLS[fn.__name__] = fn\n    return fn\ndef traced(fn):\n    @functools.wraps(fn)\n    def inner(*args): return fn(*args)\n    return inner\nclass Shop:\n    @tool\n    @traced\n    def cancel(self, order_id): return real(order_id)",
    "return TOOLS['cancel'](Shop(), '7')",
)
table(
    "object with a function that checks",
    "class Tool:\n    name = 'cancel'\n    def __init__(self): self.check = lambda text: text == '7'\n    def __call__(self, order_id): return real(order_id) if self.check(order_id.strip()) else ''\nTOOLS = [Tool()]",
    "assert TOOLS[0].check('7') is True\nreturn TOOLS[0]('7')",
)
table(
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
table("operations of a specification", _OPERATIONS, "return TOOLS['cancel'](order_id='7')")
table(
    "objects of a specification's operations",
    "class Operation:\n    def __init__(self, name, path): self.name, self.path = name, path\n    def __call__(self, **kwargs): return real(kwargs['order_id'])\nTOOLS = {name: Operation(name, f'/{name}') for name in ('cancel', 'refund')}",
    "assert TOOLS['cancel'](order_id='7') == 'answered'\nreturn Operation('cancel', '/x')(order_id='7')",
    answers=2,
)
table(
    "copied by pickle and by deepcopy",
    "TOOLS = {'cancel': cancel}",
    "import pickle\nassert pickle.loads(pickle.dumps(TOOLS))['cancel']('7') == 'answered'\nreturn copy.deepcopy(TOOLS)['cancel']('7')",
    answers=2,
)
table(
    "object that is unpickled",
    "import pickle\nclass Cancel:\n    name = 'cancel'\n    def __call__(self, order_id): return real(order_id)\nTOOLS = [Cancel()]",
    "return pickle.loads(pickle.dumps(TOOLS[0]))('7')",
)
table(
    "weak proxy of an object",
    SHOP + "shop = Shop()\nTOOLS = {'cancel': weakref.proxy(shop).cancel}",
    "return shop.cancel('7')",
)
shape(
    "table",
    "of an object made again by default_factory",
    "agent.tools",
    CANCEL
    + "@dataclasses.dataclass\nclass Agent:\n    tools: dict = dataclasses.field(default_factory=lambda: {'cancel': cancel})\nagent = Agent()",
    "return Agent().tools['cancel']('7')",
)
