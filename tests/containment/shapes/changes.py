"""Tools that come later, are replaced, or are made again during a trial."""

from __future__ import annotations

from tests.containment.shapes.corpus import CANCEL, SHOP, shape, table

LATER = "def impl(order_id): return real(order_id)\n"
table(
    "added to a dict later",
    LATER + "TOOLS = {'other': cancel}",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "dict.update later",
    "TOOLS = {'other': cancel}",
    "TOOLS.update(cancel=lambda order_id: real(order_id))\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "|= later",
    "TOOLS = {'other': cancel}",
    "global TOOLS\nTOOLS |= {'cancel': lambda order_id: real(order_id)}\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "setdefault later",
    "TOOLS = {'other': cancel}",
    "return TOOLS.setdefault('cancel', lambda order_id: real(order_id))('7')",
    passes=True,
)
table(
    "dict.__setitem__ later",
    "TOOLS = {'other': cancel}",
    "dict.__setitem__(TOOLS, 'cancel', lambda order_id: real(order_id))\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "added through another name",
    "TOOLS = {'other': cancel}\nHELD = (TOOLS,)\ndef add(name, fn, to=TOOLS): to[name] = fn",
    "add('cancel', lambda order_id: real(order_id))\nassert HELD[0] is TOOLS\nreturn HELD[0]['cancel']('7')",
    passes=True,
)
table(
    "appended to a list later",
    "TOOLS = [LATER]".replace("LATER", "lambda order_id: ''"),
    "def cancel(order_id): return real(order_id)\nTOOLS.append(cancel)\nreturn TOOLS[-1]('7')",
    passes=True,
)
table(
    "+= to a list later",
    "TOOLS = [cancel]",
    "global TOOLS\ndef cancel(order_id): return real(order_id)\nTOOLS += [cancel]\nreturn TOOLS[-1]('7')",
    passes=True,
)
table(
    "list slice later",
    "TOOLS = [cancel]",
    "def cancel(order_id): return real(order_id)\nTOOLS[1:] = [cancel]\nreturn TOOLS[1]('7')",
    passes=True,
)
table(
    "added to a set later",
    "TOOLS = {cancel}",
    "def cancel(order_id): return real(order_id)\nTOOLS.add(cancel)\nreturn [one('7') for one in TOOLS if one is cancel][0]",
    passes=True,
)
table(
    "added to a deque later",
    "TOOLS = collections.deque([cancel])",
    "def cancel(order_id): return real(order_id)\nTOOLS.append(cancel)\nreturn TOOLS[-1]('7')",
    passes=True,
)
table(
    "added to a nested list later",
    "TOOLS = {'orders': [cancel]}",
    "def cancel(order_id): return real(order_id)\nTOOLS['orders'].append(cancel)\nreturn TOOLS['orders'][-1]('7')",
    passes=True,
)
table(
    "added to a subclass of dict later",
    "class Registry(dict): pass\nTOOLS = Registry(other=cancel)",
    "TOOLS['cancel'] = lambda order_id: real(order_id)\nreturn TOOLS['cancel']('7')",
    passes=True,
)
table(
    "a built-in added later",
    "TOOLS = {'cancel': cancel}",
    "TOOLS['remove'] = os.remove\nreturn TOOLS['remove']('/nowhere')",
    passes=True,
)
table(
    "held in a context variable, added later",
    "TOOLS = {'cancel': cancel}\nVAR = contextvars.ContextVar('v')\nVAR.set(TOOLS)",
    "return VAR.get()['cancel']('7')",
    answers=1,
)

shape(
    "replaced",
    "module attribute replaced",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "def other(order_id): return real(order_id)\nsys.modules[__name__].cancel = other\nreturn cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "global replaced",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "global cancel\ncancel = lambda order_id: real(order_id)\nreturn cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "globals().update",
    "cancel",
    "def cancel(order_id):\n    return real(order_id)\n",
    "globals().update(cancel=lambda order_id: real(order_id))\nreturn cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "class attribute replaced",
    "Shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)",
    "Shop.cancel = lambda self, order_id: real(order_id)\nreturn Shop().cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "__class__ replaced",
    "shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)\nclass Other:\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "shop.__class__ = Other\nreturn shop.cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "__getattribute__ added",
    "shop.cancel",
    "class Shop:\n    def cancel(self, order_id): return real(order_id)\nshop = Shop()",
    "Shop.__getattribute__ = lambda self, name: lambda order_id: real(order_id)\nreturn shop.cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "table replaced",
    "TOOLS",
    "def cancel(order_id):\n    return real(order_id)\nTOOLS = {'cancel': cancel}",
    "global TOOLS\nTOOLS = {'cancel': lambda order_id: real(order_id)}\nreturn TOOLS['cancel']('7')",
    passes=True,
)

FACTORY = "def make():\n    def cancel(order_id, *, note='n'): return real(order_id)\n    return cancel\n"
shape(
    "made",
    "called as its factory makes it",
    "cancel",
    FACTORY + "cancel = make()",
    "return make()('7')",
    answers=1,
)
shape(
    "made",
    "put in a listed table",
    "TOOLS",
    FACTORY + "TOOLS = {'cancel': make()}",
    "TOOLS['cancel'] = make()\nreturn TOOLS['cancel']('7')",
)
shape(
    "made",
    "in a table of a factory",
    "TOOLS",
    "def tools(session):\n    def cancel(order_id): return real(order_id)\n    return {'cancel': cancel, 'seen': session}\nTOOLS = tools('start')",
    "return tools('request')['cancel']('7')",
    answers=1,
)
shape(
    "made",
    "by a factory in a factory",
    "cancel",
    "def outer():\n    def inner():\n        return lambda order_id: real(order_id)\n    return inner()\ncancel = outer()",
    "return outer()('7')",
    answers=1,
)
shape(
    "made",
    "async",
    "cancel",
    "def make():\n    async def cancel(order_id): return real(order_id)\n    return cancel\ncancel = make()",
    "return asyncio.run(make()('7'))",
    answers=1,
)
shape(
    "made",
    "a generator",
    "cancel",
    "def make():\n    def cancel(order_id): yield real(order_id)\n    return cancel\ncancel = make()",
    "return next(make()('7'))",
    answers=1,
)
shape(
    "made",
    "cached_property of another object",
    "shop.cancel",
    "class Shop:\n    @functools.cached_property\n    def cancel(self): return lambda order_id: real(order_id)\nshop = Shop()",
    "return Shop().cancel('7')",
    answers=1,
)
shape(
    "made",
    "class that a function makes",
    "shop.cancel",
    "def make():\n    class Shop:\n        def cancel(self, order_id): return real(order_id)\n    return Shop()\nshop = make()",
    "return make().cancel('7')",
    answers=1,
)
shape(
    "made",
    "global replaced by what its factory makes",
    "TOOLS",
    FACTORY + "TOOLS = {'cancel': make()}",
    "global TOOLS\nTOOLS = {'cancel': make()}\nreturn TOOLS['cancel']('7')",
    answers=1,
)
shape(
    "made",
    "decorator of tools around another function",
    "cancel",
    "def deco(fn):\n    def wrapper(*args): return fn(*args)\n    return wrapper\n@deco\ndef cancel(order_id): return real(order_id)\ndef shout(text): return text.upper()",
    "assert deco(shout)('a') == 'A'\nreturn cancel('7')",
)
shape(
    "made",
    "factory of tools and of other functions",
    "cancel",
    "def make(path):\n    def cancel(order_id): return real(order_id) if path == '/cancel' else path\n    return cancel\ncancel, other = make('/cancel'), make('/health')",
    "assert make('/other')('x') == '/other'\nreturn cancel('7')",
)

shape(
    "replaced",
    "unittest.mock.patch as a context",
    "cancel",
    CANCEL,
    "from unittest import mock\nwith mock.patch(f'{__name__}.cancel', side_effect=real):\n    return cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "unittest.mock.patch.object of a class",
    "Shop.cancel",
    SHOP,
    "from unittest import mock\nwith mock.patch.object(Shop, 'cancel', lambda self, order_id: real(order_id)):\n    return Shop().cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "attribute of an object",
    "shop.cancel",
    SHOP + "shop = Shop()",
    "shop.cancel = lambda order_id: real(order_id)\nreturn shop.cancel('7')",
    passes=True,
)
shape(
    "replaced",
    "function of a tool object",
    "TOOLS",
    CANCEL
    + "@dataclasses.dataclass\nclass Tool:\n    name: str\n    func: object\n    def __call__(self, *args): return self.func(*args)\nTOOLS = [Tool('cancel', cancel)]",
    "TOOLS[0].func = lambda order_id: real(order_id)\nreturn TOOLS[0]('7')",
    passes=True,
)
shape(
    "replaced",
    "function of a tool object with slots",
    "TOOLS",
    CANCEL
    + "class Tool:\n    __slots__ = ('name', 'func')\n    def __init__(self, name, func): self.name, self.func = name, func\nTOOLS = [Tool('cancel', cancel)]",
    "TOOLS[0].func = lambda order_id: real(order_id)\nreturn TOOLS[0].func('7')",
    passes=True,
)
shape(
    "replaced",
    "refusal that is caught",
    "cancel",
    CANCEL,
    "sys.modules[__name__].cancel = lambda order_id: real(order_id)\nfor _ in range(3):\n    try:\n        cancel('7')\n    except BaseException: pass\nreturn ''",
    passes=True,
)
shape(
    "replaced",
    "in a thread",
    "cancel",
    CANCEL,
    "global cancel\ncancel = lambda order_id: real(order_id)\nthread = threading.Thread(target=lambda: cancel('7'))\nthread.start(); thread.join()\nreturn ''",
    passes=True,
)
shape(
    "replaced",
    "by another table of the same tools",
    "TOOLS",
    CANCEL + "TOOLS = {'cancel': cancel}",
    "global TOOLS\nTOOLS = {**TOOLS, 'again': cancel}\nreturn TOOLS['cancel']('7')",
)

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
shape(
    "made",
    "with all methods of another client",
    "client.cancel",
    _CLIENT,
    "return connect('cancel').cancel(order_id='7')",
    passes=True,
)
shape(
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
    shape(
        "made",
        f"beside other functions ({_title})",
        "cancel",
        _BOTH.replace("PARTS", _parts),
        _run,
        passes=True,
    )
