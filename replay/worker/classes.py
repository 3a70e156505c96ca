"""Classes whose methods are tools: what takes a method's place later, in a subclass or object, is patched."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import kinds
else:
    kinds = sys.modules["_replaydiff_worker_kinds"]


class ClassWatch:
    """The methods that are tools, and the hooks that see what takes their place."""

    def __init__(
        self,
        patch_method: Callable[[type, str, str | None], None],
        patch_attribute: Callable[[Any, str, str], None],
    ) -> None:
        """Make one that watches nothing yet.

        Args:
            patch_method: patches a method of a class: class, attribute, name of the tool.
            patch_attribute: patches what an object holds in a method's place: value, name of the tool, path.
        """
        self._patch_method, self._patch_attribute = patch_method, patch_attribute
        self._methods: dict[tuple[type, str], str | None] = {}

    def install(self) -> None:
        """See the classes that are made from now on."""
        build = builtins.__build_class__

        @functools.wraps(build)
        def build_class(*args: Any, **kwargs: Any) -> Any:
            cls = build(*args, **kwargs)
            self._new_class(cls)
            return cls

        builtins.__build_class__ = build_class

    def watch(self, cls: type, attribute: str, name: str | None) -> None:
        """Watch a method of a class.

        Args:
            cls: the class.
            attribute: the method.
            name: of the tool; None where it is the method's own.
        """
        if (cls, attribute) in self._methods:
            return
        if not any(known is cls for known, _ in self._methods):
            self._watch_subclasses(cls)
        self._methods[cls, attribute] = name
        self._watch_objects(cls, attribute, name or attribute)

    def _watch_subclasses(self, cls: type) -> None:
        """Have subclasses announce themselves that no `class` statement makes."""
        base: Any = cls
        own = base.__dict__.get("__init_subclass__")

        def announce(sub: Any, **kwargs: Any) -> None:
            if own is not None:
                own.__get__(None, sub)(**kwargs)
            else:
                super(base, sub).__init_subclass__(**kwargs)
            self._new_class(sub)

        # A class that takes no attributes has its subclasses looked for before every trial.
        with contextlib.suppress(AttributeError, TypeError):
            hook: Any = announce
            base.__init_subclass__ = classmethod(hook)

    def _new_class(self, cls: Any) -> None:
        if not isinstance(cls, type):
            return
        for (base, attribute), name in list(self._methods.items()):
            if cls is not base and base in cls.__mro__ and attribute in cls.__dict__:
                self._patch_method(cls, attribute, name)

    def _watch_objects(self, cls: type, attribute: str, name: str) -> None:
        """Patch what objects hold in the method's place, now and later."""
        for one in gc.get_objects():
            # Not `isinstance`, which asks the object itself.
            held = getattr(one, "__dict__", None) if issubclass(type(one), cls) else None
            if isinstance(held, dict) and attribute in held:
                self._patch_attribute(held[attribute], name, f"{cls.__qualname__}.{attribute} of an object")
        if not any(_stores(one, attribute) for one in [*cls.__mro__, *kinds.subclasses(cls)]):
            return
        base: Any = cls
        plain = base.__setattr__

        def set_attribute(this: Any, key: str, value: Any) -> None:
            if key == attribute:
                self._patch_attribute(value, name, f"{type(this).__qualname__}.{attribute} of an object")
            plain(this, key, value)

        with contextlib.suppress(AttributeError, TypeError):
            base.__setattr__ = set_attribute


def _stores(cls: type, attribute: str) -> bool:
    """Whether a method of a class may set this attribute."""
    raws = [kinds.code_of(raw) for raw in vars(cls).values()]
    codes = [raw.__code__ for raw in raws if type(raw) is types.FunctionType]
    return any(
        instruction.opname == "STORE_ATTR" and instruction.argval == attribute
        for code in codes
        if attribute in kinds.names_in(code)
        for instruction in dis.get_instructions(code)
    )
