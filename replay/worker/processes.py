"""Processes that the agent starts: each Python among them patches the same tools, or does not start.

A Python process finds `bootstrap/sitecustomize.py` on its PYTHONPATH before anything of the user's runs. So
that folder, and where the tape is to be asked, are put into the environment of every process, whoever starts
it and whatever environment it is given. A Python that would not look there (`-I`, `-E`, `-S`) is refused.

This module is loaded in every such process, so it imports little.
"""

from __future__ import annotations

import contextvars
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms
BOOTSTRAP = os.path.join(FOLDER, "bootstrap")  # noqa: PTH118
MARK = "REPLAY_WORKER"
"""Environment variable by which the processes of a worker are found when it ends."""
TAPE = "REPLAYDIFF_TAPE"
"""Environment variable: what a process must know, in lines (see `Descendants.text`)."""

TRIAL: contextvars.ContextVar[int | None] = contextvars.ContextVar("replay_trial", default=None)
"""The trial that the running code belongs to."""

_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]?")
_IN_TEXT = re.compile(r"""([^\s;&|()`'"]+)['"]?((?:\s+-[A-Za-z]+)+)""")
"""A word of a shell's text, and the options after it."""
_NAMED = re.compile(r"(?:^|[\s;&|(`'\"/])(?:python|pypy)[\d.]*(?:\s|$)")
_LONGEST_SCRIPT = 1 << 20
"""Characters of a shell's script that are looked at."""
_SHELLS = {"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"}
_CLEARING = ("-i", "-", "--ignore-environment")
"""Options of `env`."""
_ISOLATING = re.compile(
    r"(^|[\s;&|(])(env\s+(-i|-u|-|--ignore-environment)\s|exec\s+-[a-z]*c|PYTHONPATH="
    r"|(unset|export\s+-n|declare\s+\+x|typeset\s+\+x)\s[^;&|]*PYTHONPATH)"
)
_WITH_VALUE = "WXcm"
"""Options of Python that take a value."""


class RefusedProcessError(PermissionError):
    """A process that may not be started."""


class Descendants:
    """The settings passed on to child processes. There is one instance per process."""

    def __init__(
        self,
        address: str,
        secret: str,
        modules: Iterable[tuple[str, str]],
        *,
        is_ready: bool,
        trial: Callable[[], int | None],
        refuse: Callable[[str], object],
    ) -> None:
        """Store the settings for child processes.

        Args:
            address: of the socket at which tool calls are answered.
            secret: proves that a process was started from here.
            modules: names and files of modules that hold tools.
            is_ready: the tools of the agent are patched; while they are not, `modules` may lack some.
            trial: the trial that the running code belongs to.
            refuse: called with why a process is not started.
        """
        self.address, self.secret, self.modules, self.is_ready = address, secret, list(modules), is_ready
        self.here_only = ""
        """Why no other Python may be started; empty where it may."""
        self._trial, self._refuse = trial, refuse
        self._mark = {name: os.environ[name] for name in (MARK,) if name in os.environ}

    @property
    def text(self) -> str:
        """Return the settings for another process, as lines.

        Address; secret; `ready` or `early`; trial or nothing; then a module a line: name, tab, file.
        """
        trial = self._trial()
        lines = [
            self.address,
            self.secret,
            "ready" if self.is_ready else "early",
            "" if trial is None else str(trial),
        ]
        return "\n".join([*lines, *("\t".join(module) for module in self.modules)])

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process that is given this one."""
        paths = [path for path in given.get("PYTHONPATH", "").split(os.pathsep) if path and path != BOOTSTRAP]
        own = {"PYTHONPATH": os.pathsep.join([BOOTSTRAP, *paths]), TAPE: self.text}
        return {**given, **self._mark, **own}

    def install(self) -> None:
        """See to every process that is started from now on."""
        import _posixsubprocess
        import posix

        self.renew()
        fork_exec = _posixsubprocess.fork_exec
        execve, posix_spawn, system = posix.execve, posix.posix_spawn, posix.system
        posix_spawnp = getattr(posix, "posix_spawnp", posix_spawn)

        def started(*args: Any) -> Any:
            """`fork_exec`: its arguments are positional, the environment the sixth."""
            # The first of the folders of PATH that has the program is the one that counts.
            there = [program for program in args[1] if os.access(program, os.X_OK)]
            self.check((there or args[0])[0], args[0])
            env = dict(_pair(one) for one in args[5]) if args[5] is not None else dict(os.environ)
            listed = [os.fsencode(f"{key}={value}") for key, value in self.environment(env).items()]
            return fork_exec(*args[:5], listed, *args[6:])  # type: ignore[call-arg]

        def run_instead(path: Any, argv: Any, env: Any = None) -> Any:
            self.check(path, argv)
            return execve(path, argv, self.environment(_texts(os.environ if env is None else env)))

        def spawned(path: Any, argv: Any, env: Any, **options: Any) -> Any:
            self.check(path, argv)
            return posix_spawn(
                path, argv, self.environment(_texts(os.environ if env is None else env)), **options
            )

        def spawned_by_name(path: Any, argv: Any, env: Any, **options: Any) -> Any:
            self.check(path, argv)
            return posix_spawnp(
                path, argv, self.environment(_texts(os.environ if env is None else env)), **options
            )

        def through_shell(command: Any) -> Any:
            self.check("/bin/sh", ["sh", "-c", command])
            self.renew()
            return system(command)

        instead = {
            "execv": run_instead,
            "execve": run_instead,
            "posix_spawn": spawned,
            "posix_spawnp": spawned_by_name,
            "system": through_shell,
        }
        for module in (os, posix):
            for name, function in instead.items():
                setattr(module, name, function)
        _posixsubprocess.fork_exec = started
        subprocess: Any = sys.modules.get("subprocess")
        if hasattr(subprocess, "_fork_exec"):
            subprocess._fork_exec = started

    def renew(self) -> None:
        """Put the settings for child processes into this process's environment, for those that native code
        starts."""
        os.environ.update(self.environment(dict(os.environ)))

    def check(self, program: Any, argv: Any) -> None:
        """Refuse to start a Python that ignores its environment.

        Raises:
            RefusedProcessError: it is one.
        """
        words = [
            os.fsdecode(word) if isinstance(word, (str, bytes, os.PathLike)) else str(word) for word in argv
        ]
        reason = _why_not(os.fsdecode(program), words)
        if not reason and self.here_only and _starts_python(os.fsdecode(program), words):
            reason = self.here_only
        if reason:
            sentence = f"it starts {' '.join(words)[:200]}, {reason}, where replay cannot answer its tools"
            self._refuse(sentence)
            raise RefusedProcessError(f"replay refuses this process: {sentence}")


class InTrial:
    """A function for another process, which belongs to the trial that sent it there."""

    def __init__(self, function: Callable[..., Any], trial: int | None, *, as_error: bool) -> None:
        self.function, self.trial, self.as_error = function, trial, as_error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        context = contextvars.copy_context()
        try:
            return context.run(self._run, args, kwargs)
        except BaseException as error:
            if self.as_error and not isinstance(error, Exception):
                # A pool waits for ever for a process that ends by anything but an `Exception`.
                raise RuntimeError(f"{type(error).__name__}: {error}") from None
            raise

    def _run(self, args: Any, kwargs: Any) -> Any:
        TRIAL.set(self.trial)
        return self.function(*args, **kwargs)


def carry_trial_into_pools(
    others: dict[str, Callable[[], None]], descendants: Descendants, update: Any
) -> None:
    """Have the tasks of process pools, and the processes of `multiprocessing`, know their trial.

    Args:
        others: gets what is to be done once a module is imported.
        descendants: the settings that other processes get.
        update: takes in the settings that came from the process that made this one.
    """

    def pool() -> None:
        cls = sys.modules["multiprocessing.pool"].Pool

        def sends(name: str) -> Any:
            plain = getattr(cls, name)

            def method(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
                return plain(self, InTrial(func, descendants._trial(), as_error=True), *args, **kwargs)

            return method

        for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
            setattr(cls, name, sends(name))

    def executor() -> None:
        cls = sys.modules["concurrent.futures.process"].ProcessPoolExecutor
        submit = cls.submit

        def method(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            return submit(self, InTrial(fn, descendants._trial(), as_error=False), *args, **kwargs)

        cls.submit = method

    def spawn() -> None:
        module: Any = sys.modules["multiprocessing.spawn"]
        get_preparation_data, prepare = module.get_preparation_data, module.prepare

        def with_tape(*args: Any) -> Any:
            data = get_preparation_data(*args)
            if str(data.get("init_main_from_path", "")).startswith(FOLDER):
                # The main module of a worker is ours, and no part of the agent.
                del data["init_main_from_path"]
            return {**data, TAPE: descendants.text}

        def prepared(data: Any) -> Any:
            text = data.pop(TAPE, None)
            if text is not None:
                update(text)
            return prepare(data)

        module.get_preparation_data, module.prepare = with_tape, prepared

    def interpreters() -> None:
        # Python 3.13.0 raises no event for a second interpreter, and 3.12 does not survive its refusal.
        def create(*_: Any, **__: Any) -> None:
            sentence = "it starts a second interpreter in its process, where no tool is answered"
            descendants._refuse(sentence)
            raise RefusedProcessError(f"replay refuses this: {sentence}")

        for name in ("_interpreters", "_xxsubinterpreters"):
            if name in sys.modules:
                vars(sys.modules[name])["create"] = create

    acts = {
        "_interpreters": interpreters,
        "_xxsubinterpreters": interpreters,
        "multiprocessing.pool": pool,
        "concurrent.futures.process": executor,
        "multiprocessing.spawn": spawn,
    }
    for name, act in acts.items():
        if name in sys.modules:
            act()
        else:
            others[name] = act


def _why_not(program: str, words: list[str]) -> str:
    """Why a process cannot be answered; empty where it can, or is none of Python's."""
    name = os.path.basename(program or words[0])  # noqa: PTH119
    first = _shebang(program)
    if first:
        return _why_not(first[0], [*first, program])
    if name in _SHELLS:
        return _why_not_text(_shell_text(words[1:]))
    clears = any(word in _CLEARING or word.startswith("-u") for word in words[1:])
    if name == "env" and clears and any(_is_python(word) for word in words[1:]):
        return "a Python with another environment"
    for index, word in enumerate([program, *words[1:]]):
        if _is_python(word) and _isolated(words[index + 1 :]):
            return "an isolated Python"
    return ""


def _starts_python(program: str, words: list[str]) -> bool:
    """Whether a process is a Python, or a shell or another program that is given one to start."""
    if any(_is_python(word) for word in [program, *words]):
        return True
    first = _shebang(program)
    if first:
        return _starts_python(first[0], first)
    return any(_NAMED.search(word) for word in words[1:])


def _shell_text(words: list[str]) -> str:
    """What a shell is to run: the text after `-c`, also in a cluster such as `-lc`, or that of a file."""
    for index, word in enumerate(words):
        if not word.startswith(("-", "+")):
            try:
                with open(word, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    return file.read(_LONGEST_SCRIPT)
            except OSError:
                return ""
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            return " ".join(words[index + 1 :])
    return ""


def _why_not_text(text: str) -> str:
    names_python = re.search(r"(python|pypy)", text.replace("PYTHONPATH", "")) is not None
    for word, options in _IN_TEXT.findall(text):
        is_python = names_python if word.startswith("$") else _is_python(word)
        if is_python and _isolated(options.split()):
            return "an isolated Python"
    if names_python and _ISOLATING.search(text):
        return "a Python with another environment"
    return ""


def _is_python(word: str) -> bool:
    if not word or word.startswith("-"):
        return False
    names = {os.path.basename(word)}  # noqa: PTH119
    if "/" in word:
        names.add(os.path.basename(os.path.realpath(word)))  # noqa: PTH119
    return word == sys.executable or any(_PYTHON.fullmatch(name) for name in names) or _is_copy(word)


def _is_copy(word: str) -> bool:
    """Whether a program is a copy of this Python under another name."""
    if "/" not in word:
        return False
    try:
        return os.path.getsize(word) == os.path.getsize(os.path.realpath(sys.executable))  # noqa: PTH202
    except OSError:
        return False


def _isolated(options: list[str]) -> bool:
    """Whether options of Python keep it from `sitecustomize` or from its environment."""
    skip = False
    for word in options:
        if skip:
            skip = False
            continue
        if not word.startswith("-") or word == "-":
            return False
        if word.startswith("--"):
            skip = word == "--check-hash-based-pycs"
            continue
        for index, letter in enumerate(word[1:], start=1):
            if letter in "IES":
                return True
            if letter in _WITH_VALUE:
                if letter in "cm":
                    return False
                skip = index == len(word) - 1
                break
    return False


def _shebang(program: str) -> list[str]:
    """The words of a script's first line; empty where it is no script."""
    folders = [""] if "/" in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, program)  # noqa: PTH118
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            try:
                with open(path, "rb") as file:  # noqa: PTH123
                    line = file.readline(256)
            except OSError:
                return []
            return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    return []


def _pair(entry: Any) -> tuple[str, str]:
    key, _, value = os.fsdecode(entry).partition("=")
    return key, value


def _texts(env: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(key): os.fsdecode(value) for key, value in env.items()}
