"""Start a program behind a boundary of the operating system (Linux), so that nothing it does has an effect.

    main(["CHANNEL", "kind=namespaces", "KEY=VALUE", …, "--", "PROGRAM", "ARGUMENT", …])

The process confines itself and becomes the program. Everything that the program starts inherits the boundary,
whatever its language, and nothing inside can undo it. There are two kinds:

`namespaces`   Namespaces of its own for users, mounts, network and System V IPC. Every mount is read-only but
               for the folders named by `write`. Folders named by `private` (`/tmp`, caches) are
               copy-on-write: what is written there is seen inside only and vanishes with the process. The
               only network is a loopback device, on which our own servers listen. Landlock is added where the
               kernel has it.
`landlock`     For kernels that give no namespaces to users: Landlock refuses to write outside the `write`
               folders and to connect to any TCP port but the named ones. There is no private copy: `/tmp` and
               caches are read-only, and the engine points TMPDIR to a folder of the process.

In both, a seccomp filter refuses sockets with a path (`socketpair` works), VSOCK and all other families but
IPv4, IPv6 and routing information; io_uring, ptrace and other processes' memory, new namespaces, mounts,
keys, kernel modules, BPF; 32-bit and x32 system calls; and system calls younger than this table. `landlock`
also refuses datagrams, System V IPC and POSIX message queues, which `namespaces` isolates. All capabilities
are given up.

Keys, each may be repeated:

`kind`         `namespaces` or `landlock`
`write`        a folder or file that the program may write to; must exist
`private`      a folder that becomes copy-on-write for this process (`namespaces` only); skipped if it is
               missing. With ` UPPER WORK`, separated by tabs, what is written goes to UPPER; else, and where
               the kernel lays no overlay over it, to memory
`overlay`      `LOWER UPPER WORK`, separated by tabs: LOWER is seen with what is written, which goes to UPPER
               (`namespaces` only)
`listen`       `ADDRESS PORT`: inside, a socket listens there and is passed to the engine through CHANNEL
               (`namespaces` only)
`connect`      a TCP port that the program may connect to (`landlock` only)
`serve`        a TCP port that the program may listen at and connect to (`landlock` only)
`host`         `ADDRESS NAME`: inside, /etc/hosts has this line (`namespaces` only)
`folder`       where the program starts; default: the current folder

CHANNEL, a Unix socket, gets one message: `ok ABI` (the Landlock ABI, 0 for none) with the listening sockets,
or
`failed: why`. Without a program the boundary is built only to see whether the kernel allows it.

The outer side is `replay/agents/boundary.py`. Only the standard library is imported.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# <linux/sched.h>
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
ALL_NAMESPACES = 0x7E020000
"""Every CLONE_NEW flag of clone(2)."""
CLONE_NEWTIME = 0x80
"""A flag of unshare(2) alone; to clone(2) it is part of a signal's number."""
CLONE_PARENT = 0x8000
"""Makes a child of the process that started this one, which is outside."""
# <linux/mount.h>
MS_REMOUNT, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x20, 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 0x2
AT_FDCWD, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW, MOUNT_ATTR_RDONLY = -100, 0x8000, 0x100, 0x1
# <linux/if.h>, <linux/sockios.h>
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8913, 0x8914, 0x8916, 0x1
# <linux/prctl.h>
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 24, 38, 22, 2
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

# <linux/landlock.h>
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH, RULE_NET_PORT = 1, 2
FS_WRITE_FILE, FS_MAKE_AND_REMOVE = 1 << 1, 0x1FF0
FS_REFER, FS_TRUNCATE, FS_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FS_OF_FILES = FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV
"""Rights that a rule for a single file may name."""
NET_BIND_TCP, NET_CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1, 2
ABI_REFER, ABI_TRUNCATE, ABI_TCP, ABI_IOCTL, ABI_SCOPES = 2, 3, 4, 5, 6
"""The Landlock ABI in which each came; ABI_TCP is that of Linux 6.7, ABI_SCOPES that of 6.12."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "dri", "kfd", "shm")
"""Below /dev: what a program may write to, beside NVIDIA's devices."""
SCRATCH = "/dev/shm"  # noqa: S108 - a mount of our own, private to the process
HOSTS = "/etc/hosts"

# <linux/filter.h>, <linux/seccomp.h>, <linux/audit.h>
LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
ALLOW, ERROR, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets of `struct seccomp_data`; an argument has eight bytes, the lower half first."""
X32 = 0x40000000
"""System call numbers from here on are those of x32."""
YOUNGEST = 470
"""The last system call this filter has been checked against (Linux 6.18); later ones do not exist inside."""
MSG_FASTOPEN = 0x20000000
"""A flag of sendto(2) and others that connects, past Landlock's look at connect(2)."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Requests of ioctl(2) that type into a terminal."""
EPERM, ENOSYS, EACCES, ENOTTY = 1, 38, 13, 25

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Numbers of system calls on x86_64 and aarch64 (None: it has none), by what the filter does with them.
REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "setns": (308, 268), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "bpf": (321, 280), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "syslog": (103, 116), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
"""Never possible inside."""
SHARED_WITH_ALL: Mapping[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
"""Reach other processes where there is no namespace for System V IPC and message queues."""
METADATA: Mapping[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
"""Change mode, owner, times or attributes of a file, which Landlock does not look at. Where mounts do not
protect them, they return success and change nothing: many programs set them on files of their own."""
SYSTEM_CALLS: Mapping[str, tuple[int | None, int | None]] = {
    **REFUSED, **SHARED_WITH_ALL, **METADATA,
    "socket": (41, 198), "socketpair": (53, 199), "sendto": (44, 206), "sendmsg": (46, 211),
    "sendmmsg": (307, 269), "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97),
    "ioctl": (16, 29), "utimensat": (280, 88), "prlimit64": (302, 261), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}  # fmt: skip
"""All that the filter looks at; of the others, it looks at the arguments."""
ABOUT_ITSELF = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setscheduler": 0, "sched_setparam": 0,
    "sched_setattr": 0, "sched_setaffinity": 0, "migrate_pages": 0, "move_pages": 0,
}  # fmt: skip
"""System calls that may be about another process → the argument that must be 0, the caller."""
ABOUT_A_PROCESS = {"setpriority": 0, "ioprio_set": 1}
"""System calls that may be about all processes of a user → the first argument that means one process."""
KINDS_OF_FILE_REQUESTS = (0x66, 0x76, 0x58, 0x72, 0x94, 0xF5)
"""The second byte of those requests of ioctl(2) that are about files and file systems (`f`, `v`, `X`, FAT's,
Btrfs's, F2FS's). Some change a file that is open for reading alone."""
HARMLESS_FILE_REQUESTS = (
    0x80086601, 0x801C581F, 0x80087601, 0xC020660B, 0x40049409, 0x4020940D, 0xC0189436,
)  # fmt: skip
"""GETFLAGS, FSGETXATTR, GETVERSION and FIEMAP read; FICLONE, FICLONERANGE and FIDEDUPERANGE write to
a file that is open for writing."""
FLAGS_OF_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""System calls that can connect by a flag → the argument with the flags."""


class BoundaryError(Exception):
    """The kernel refuses a part of the boundary; the text says which."""


def main(arguments: list[str]) -> None:
    """Build the boundary, report it, and become the program."""
    split = arguments.index("--")
    channel = socket.socket(fileno=int(arguments[0]))
    keys: dict[str, list[str]] = {}
    for argument in arguments[1:split]:
        key, _, value = argument.partition("=")
        keys.setdefault(key, []).append(value)
    try:
        listeners, abi = confine(keys)
    except BoundaryError as error:
        channel.sendall(f"failed: {error}".encode())
        sys.exit(1)
    socket.send_fds(channel, [f"ok {abi}".encode()], [listener.fileno() for listener in listeners])
    channel.close()
    for listener in listeners:
        listener.close()
    program = arguments[split + 1 :]
    if not program:
        return
    try:
        os.execvp(program[0], program)  # noqa: S606 - the program of the version, without a shell
    except OSError as error:
        sys.exit(f"{program[0]} cannot be started: {error.strerror}")


def confine(keys: Mapping[str, list[str]]) -> tuple[list[socket.socket], int]:
    """Move this process behind the boundary.

    Args:
        keys: what the module's text describes.

    Returns:
        The sockets that listen inside, and the Landlock ABI, 0 where the kernel has none.

    Raises:
        BoundaryError: the kernel refuses a part of it.
    """
    [kind] = keys["kind"]
    system = _System()
    folder = os.path.abspath(keys.get("folder", ["."])[0])
    listeners: list[socket.socket] = []
    if kind == "namespaces":
        listeners = _enter_namespaces(system, keys)
    elif system.landlock_abi < ABI_TCP:
        raise BoundaryError(
            f"Landlock has no rules for TCP (ABI {system.landlock_abi}; Linux 6.7 has them, ABI {ABI_TCP})"
        )
    os.chdir(folder)
    _drop_capabilities(system, keep=(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH))
    if system.landlock_abi:
        ports = None
        if kind != "namespaces":
            ports = {int(port): NET_CONNECT_TCP for port in keys.get("connect", ())}
            ports.update({int(port): NET_CONNECT_TCP | NET_BIND_TCP for port in keys.get("serve", ())})
            # A port that the kernel chooses: nothing outside expects anybody there.
            ports[0] = NET_BIND_TCP
        writable = [*keys.get("write", ()), *(line.split("\t")[0] for line in keys.get("overlay", ()))]
        if kind == "namespaces":
            writable += (line.split("\t")[0] for line in keys.get("private", ()))
            writable.append("/dev/pts")  # terminals of its own
        _restrict(system, writable, ports)
    _filter(system, shared_with_all=kind != "namespaces")
    return listeners, system.landlock_abi


class _System:
    """The system calls that Python has no function for."""

    def __init__(self) -> None:
        self.machine = os.uname().machine
        if sys.platform != "linux" or self.machine not in AUDIT_ARCH:
            raise BoundaryError(f"it needs Linux on {' or '.join(AUDIT_ARCH)}, and this is {self.machine}")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        version = self._libc.syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), CREATE_RULESET_VERSION)
        self.landlock_abi: int = max(version, 0)

    def number(self, name: str) -> int | None:
        """Return the number of a system call on this machine; None where it has no such call."""
        return SYSTEM_CALLS[name][list(AUDIT_ARCH).index(self.machine)]

    def call(self, what: str, number: int, *arguments: object) -> int:
        """Make a system call by its number.

        Raises:
            BoundaryError: it failed; `what` says what it was for.
        """
        return self._checked(what, self._libc.syscall(ctypes.c_long(number), *arguments))

    def unshare(self, what: str, flags: int) -> None:
        """Move this process to new namespaces."""
        self._checked(what, self._libc.unshare(flags))

    def prctl(self, what: str, option: int, *arguments: object) -> None:
        """Change a property of this process."""
        padded = [
            ctypes.c_ulong(argument) if isinstance(argument, int) else argument
            for argument in (*arguments, 0, 0, 0, 0)[:4]
        ]
        self._checked(what, self._libc.prctl(option, *padded))

    def mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        """Mount a file system.

        Raises:
            BoundaryError: the kernel refuses it.
        """
        texts = [os.fsencode(text) if text else None for text in (source, target, kind)]
        returned = self._libc.mount(*texts, ctypes.c_ulong(flags), os.fsencode(data) or None)
        self._checked(f"a mount at {target}", returned)

    def unmount(self, target: str) -> None:
        """Take a mount away from where it is; what uses it keeps it."""
        self._checked(f"taking away {target}", self._libc.umount2(os.fsencode(target), MNT_DETACH))

    def set_read_only(self, target: str, *, recursive: bool = False, clear: bool = False) -> None:
        """Change whether what is mounted at a path can be written to."""
        change = struct.pack(
            "=QQQQ", 0 if clear else MOUNT_ATTR_RDONLY, MOUNT_ATTR_RDONLY if clear else 0, 0, 0
        )
        number, flags = self.number("mount_setattr"), AT_RECURSIVE if recursive else 0
        if number is not None:
            path = os.fsencode(target)
            self.call("read-only mounts", number, AT_FDCWD, path, flags, change, ctypes.c_size_t(len(change)))

    def make_writable(self, target: str) -> bool:
        """Return whether what is mounted at a path could be made writable: what was not before stays so."""
        try:
            self.set_read_only(target, recursive=True, clear=True)
        except BoundaryError:
            return False
        return True

    def _checked(self, what: str, returned: int) -> int:
        if returned < 0:
            raise BoundaryError(f"{what}: {os.strerror(ctypes.get_errno())}")
        return returned


# Namespaces


def _enter_namespaces(system: _System, keys: Mapping[str, list[str]]) -> list[socket.socket]:
    """Leave the network, the mounts and the IPC that are shared with others; return what listens inside."""
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC
    system.unshare("namespaces for users, mounts, network and IPC", flags)
    try:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        listeners = _listen([line.rsplit(" ", 1) for line in keys.get("listen", ())])
    except OSError as error:
        raise BoundaryError(f"setting up the namespaces: {error.strerror}") from None
    system.mount("none", "/", "", MS_REC | MS_PRIVATE)
    # Before everything is read-only, since the kernel lays no overlay over what it may not write to.
    overlaid: list[str] = []
    for line in keys.get("overlay", ()):
        lower, upper, work = line.split("\t")
        _overlay(system, lower, upper, work)
        overlaid.append(lower)
    in_memory: list[str] = []
    for line in keys.get("private", ()):
        folder, *layers = line.split("\t")
        is_overlaid = bool(layers) and _is_overlaid(system, folder, *layers)
        (overlaid if is_overlaid else in_memory).append(folder)
    paths = (*overlaid, *keys.get("write", ()))
    descriptors = [(path, os.open(path, os.O_PATH)) for path in paths]
    system.set_read_only("/", recursive=True)
    system.mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700")
    for number, private in enumerate(in_memory):
        _make_private(system, private, f"{SCRATCH}/{number}")
    _add_hosts(system, keys.get("host", ()))
    for path, descriptor in descriptors:
        if not os.path.lexists(path):  # below a folder that is empty inside
            os.makedirs(path if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.path.dirname(path))
            if not os.path.isdir(path):
                os.close(os.open(path, os.O_CREAT))
        system.mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)
        os.close(descriptor)
        system.make_writable(path)
    system.unmount(SCRATCH)
    system.mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    if os.path.isdir("/dev/pts"):
        system.mount(
            "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"
        )
    return listeners


def _listen(addresses: Iterable[list[str]]) -> list[socket.socket]:
    """Bring the loopback device up, give it these addresses, and listen there."""
    listeners = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))
        for number, (address, port) in enumerate(addresses):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if family is socket.AF_INET6 and address != "::1":
                with socket.socket(family, socket.SOCK_DGRAM) as control6:
                    packed = socket.inet_pton(family, address)
                    fcntl.ioctl(control6, SIOCSIFADDR, struct.pack("=16sIi", packed, 128, 1))
            elif family is socket.AF_INET and not address.startswith("127."):
                name = f"lo:{number}".encode()
                packed = socket.inet_aton(address)
                fcntl.ioctl(control, SIOCSIFADDR, struct.pack("=16sHH4s16x", name, family, 0, packed))
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.bind((address, int(port)))
            listener.listen(128)
            listeners.append(listener)
    return listeners


def _make_private(system: _System, folder: str, scratch: str) -> None:
    """Make a folder copy-on-write; what is written is kept in memory, and is gone with this process."""
    if not os.path.isdir(folder):
        return
    upper, work = f"{scratch}/upper", f"{scratch}/work"
    for path in (scratch, upper, work):
        os.mkdir(path)
    # Not over every file system, nor where another one is mounted below.
    if not _is_overlaid(system, folder, upper, work):
        _show_in_memory(system, folder)


def _show_in_memory(system: _System, folder: str) -> None:
    """Mount memory over a folder, and in it what the folder contains, read-only."""
    before, names = os.open(folder, os.O_PATH), os.listdir(folder)
    mode = stat.S_IMODE(os.fstat(before).st_mode)
    system.mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")
    for name in names:
        source, target = f"/proc/self/fd/{before}/{name}", os.path.join(folder, name)
        kind = stat.S_IFMT(os.lstat(source).st_mode)
        if kind == stat.S_IFLNK:
            os.symlink(os.readlink(source), target)
        elif kind in (stat.S_IFDIR, stat.S_IFREG):
            if kind == stat.S_IFDIR:
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT))
            system.mount(source, target, "", MS_BIND | MS_REC)
    os.close(before)


def _is_overlaid(system: _System, folder: str, upper: str, work: str) -> bool:
    """Lay an overlay over a private folder; return whether the kernel did."""
    if not os.path.isdir(folder):
        return False
    os.chmod(upper, stat.S_IMODE(os.stat(folder).st_mode))
    try:
        _overlay(system, folder, upper, work)
    except BoundaryError:
        return False
    return True


def _overlay(system: _System, lower: str, upper: str, work: str) -> None:
    """Show a folder with what is written to it, which goes to another one."""
    layers = [f"{name}={_escaped(path)}" for name, path in (("lowerdir", lower), ("upperdir", upper))]
    # What is written need not outlive a crash of the machine, so nothing waits for the disk.
    options = ",".join([*layers, f"workdir={_escaped(work)}", "userxattr", "volatile"])
    system.mount("overlay", lower, "overlay", MS_NOSUID | MS_NODEV, options)


def _escaped(path: str) -> str:
    """Return a path as the options of a mount have it."""
    for character in "\\,:":
        path = path.replace(character, f"\\{character}")
    return path


def _add_hosts(system: _System, lines: list[str] | tuple[()]) -> None:
    """Have names lead to addresses of our own inside."""
    if not lines or not os.path.exists(HOSTS):
        return
    with open(HOSTS, encoding="utf-8", errors="surrogateescape") as file:
        before = file.read()
    file_with_hosts = f"{SCRATCH}/hosts"
    with open(file_with_hosts, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("".join(f"{line}\n" for line in lines) + before)
    os.chmod(file_with_hosts, 0o644)
    system.mount(file_with_hosts, os.path.realpath(HOSTS), "", MS_BIND)
    system.set_read_only(os.path.realpath(HOSTS))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


# Privileges, Landlock


def _drop_capabilities(system: _System, *, keep: tuple[int, ...]) -> None:
    """Leave the program no capability but these, also where its user is root, and no way to a new one."""
    system.prctl("giving up privileges", PR_SET_NO_NEW_PRIVS, 1)
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        status = dict(line.split(":", 1) for line in file)
    if not int(status["CapEff"], 16):
        return  # of a user without any: exec(2) gives it none
    system.prctl("giving up capabilities", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(last + 1):
        if capability not in keep:
            system.prctl("giving up capabilities", PR_CAPBSET_DROP, capability)


def _restrict(system: _System, writable: Iterable[str], ports: Mapping[int, int] | None) -> None:
    """Have Landlock refuse to write elsewhere, to connect elsewhere, and to signal others.

    Args:
        system: makes the calls.
        writable: folders and files that may be written to.
        ports: TCP port → what may be done with it; None for anything with any.

    Raises:
        BoundaryError: the kernel refuses it.
    """
    abi = system.landlock_abi
    files = FS_WRITE_FILE | FS_MAKE_AND_REMOVE
    files |= FS_REFER if abi >= ABI_REFER else 0
    files |= FS_TRUNCATE if abi >= ABI_TRUNCATE else 0
    files |= FS_IOCTL_DEV if abi >= ABI_IOCTL else 0
    network = 0 if ports is None else NET_BIND_TCP | NET_CONNECT_TCP
    scopes = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if abi >= ABI_SCOPES else 0
    attributes = struct.pack("=QQQ", files, network, scopes)
    attributes = attributes[: 24 if abi >= ABI_SCOPES else 16 if abi >= ABI_TCP else 8]
    create = (attributes, ctypes.c_size_t(len(attributes)), 0)
    ruleset = system.call("a Landlock ruleset", 444, *create)
    for path in _writable_paths(writable):
        descriptor = os.open(path, os.O_PATH)
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = struct.pack("=Qi", files if is_folder else files & FS_OF_FILES, descriptor)
        system.call(f"a Landlock rule for {path}", 445, ruleset, RULE_PATH_BENEATH, rule, 0)
        os.close(descriptor)
    for port, rights in (ports or {}).items():
        rule = struct.pack("=QQ", rights, port)
        system.call(f"a Landlock rule for port {port}", 445, ruleset, RULE_NET_PORT, rule, 0)
    system.call("Landlock", 446, ruleset, 0)
    os.close(ruleset)


def _writable_paths(named: Iterable[str]) -> Iterator[str]:
    """Yield the named paths that exist, and the devices that every program may write to."""
    devices = [f"/dev/{name}" for name in DEVICES]
    devices += [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia")]
    for path in (*named, *devices):
        if os.path.exists(path):
            yield path


# The filter of system calls


def _filter(system: _System, *, shared_with_all: bool) -> None:
    """Refuse system calls, from now on and in every program that is started.

    Args:
        system: makes the calls.
        shared_with_all: network, IPC and files are those of the whole machine, not of namespaces.

    Raises:
        BoundaryError: the kernel refuses it.
    """
    program = b"".join(_instructions(system, shared_with_all=shared_with_all))
    code = ctypes.create_string_buffer(program)
    description = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    holder = ctypes.create_string_buffer(description)
    system.prctl("a filter of system calls", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, holder)


def _instructions(system: _System, *, shared_with_all: bool) -> Iterator[bytes]:
    """Yield the program of the filter: each system call that is not named is allowed."""
    yield _instruction(LOAD, ARCHITECTURE)
    yield _instruction(JUMP_EQUAL, AUDIT_ARCH[system.machine], skip_if_true=1)
    yield _instruction(RETURN, KILL_PROCESS)
    yield _instruction(LOAD, NUMBER)
    yield _instruction(JUMP_ABOVE, YOUNGEST, skip_if_false=1)  # x32 has the numbers far above
    yield _refusal(ENOSYS)
    yield from _refuse(system, ["clone3"], ENOSYS)  # its flags cannot be read; libraries fall back to clone
    yield from _refuse(system, REFUSED, EPERM)
    if shared_with_all:
        yield from _refuse(system, SHARED_WITH_ALL, EPERM)
        # Whoever sets the time of a path to now creates the file where that fails (`pathlib.Path.touch`), and
        # takes it for there where it does not. Other times are ignored.
        now = _if_equal(2, 0, _unless(1, [0], [_refusal(EPERM)]))
        yield from _for_call(system, "utimensat", [*now, _refusal(0)])
        yield from _refuse(system, METADATA, 0)
        # Requests which could change a file that is not open for writing.
        kinds = _refuse_equal(1, [kind << 8 for kind in KINDS_OF_FILE_REQUESTS], ENOTTY, mask=0xFF00)
        yield from _for_call(system, "ioctl", _unless(1, HARMLESS_FILE_REQUESTS, kinds))
    yield from _where_any_bit(system, "clone", 0, ALL_NAMESPACES | CLONE_PARENT, EPERM)
    yield from _where_any_bit(system, "unshare", 0, ALL_NAMESPACES | CLONE_NEWTIME, EPERM)
    for name, argument in FLAGS_OF_SENDING.items():
        yield from _where_any_bit(system, name, argument, MSG_FASTOPEN, EPERM)
    for name, argument in ABOUT_ITSELF.items():
        yield from _where_any_bit(system, name, argument, 0xFFFFFFFF, EPERM)
    for name, value in ABOUT_A_PROCESS.items():
        yield from _for_call(system, name, _unless(0, [value], [_refusal(EPERM)]))
    yield from _for_call(system, "ioctl", _refuse_equal(1, (TIOCSTI, TIOCLINUX), EPERM))
    yield from _for_call(system, "socket", _socket_rules(shared_with_all=shared_with_all))
    yield from _for_call(system, "socketpair", _pair_rules())
    yield _instruction(RETURN, ALLOW)


def _refuse(system: _System, names: Iterable[str], error: int) -> Iterator[bytes]:
    for name in names:
        yield from _for_call(system, name, [_refusal(error)])


def _where_any_bit(system: _System, name: str, argument: int, bits: int, error: int) -> Iterator[bytes]:
    """Refuse a call where any of these bits of an argument is set."""
    test = [
        _instruction(LOAD, ARGUMENTS + 8 * argument),
        _instruction(JUMP_ANY_BIT, bits, skip_if_false=1),
        _refusal(error),
    ]
    return _for_call(system, name, test)


def _refuse_equal(argument: int, values: Iterable[int], error: int, *, mask: int = 0) -> list[bytes]:
    """Return instructions that refuse a call by the value of an argument, or of its masked bits."""
    test = [_instruction(LOAD, ARGUMENTS + 8 * argument)]
    test += [_instruction(AND, mask)] if mask else []
    for value in values:
        test += [_instruction(JUMP_EQUAL, value, skip_if_false=1), _refusal(error)]
    return test


def _if_equal(argument: int, value: int, body: list[bytes]) -> list[bytes]:
    """Return instructions that are those of `body` where an argument has a value, and none elsewhere."""
    load = _instruction(LOAD, ARGUMENTS + 8 * argument)
    return [load, _instruction(JUMP_EQUAL, value, skip_if_false=len(body)), *body]


def _unless(argument: int, values: Sequence[int], body: list[bytes], *, mask: int = 0) -> list[bytes]:
    """Return instructions that are those of `body` where an argument has none of these values."""
    test = [_instruction(LOAD, ARGUMENTS + 8 * argument)]
    test += [_instruction(AND, mask)] if mask else []
    for following, value in zip(reversed(range(len(values))), values):  # noqa: B905 - Python 3.9
        test.append(_instruction(JUMP_EQUAL, value, skip_if_true=following + len(body)))
    return [*test, *body]


def _socket_rules(*, shared_with_all: bool) -> list[bytes]:
    """Return instructions that allow sockets of the families which the boundary covers, and no others."""
    refusal, netlink = [_refusal(EACCES)], 16
    rules = _unless(0, [socket.AF_INET, socket.AF_INET6, netlink], refusal)
    # Routing information, read by `getaddrinfo` and others; changing it takes a capability.
    rules += _if_equal(0, netlink, _unless(2, [0], refusal))
    if not shared_with_all:
        return rules
    # Landlock's rules are for TCP alone, not for MPTCP or SCTP.
    streams = _unless(1, [socket.SOCK_STREAM], refusal, mask=0xF)
    return rules + _unless(0, [netlink], [*streams, *_unless(2, [0, socket.IPPROTO_TCP], refusal)])


def _pair_rules() -> list[bytes]:
    """Return instructions that allow pairs of connected streams.

    A pair of datagram sockets is refused: each may still send to any address.
    """
    refusal, streams = [_refusal(EACCES)], [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]
    return [*_unless(0, [socket.AF_UNIX], refusal), *_unless(1, streams, refusal, mask=0xF)]


def _for_call(system: _System, name: str, instructions: Iterable[bytes]) -> Iterator[bytes]:
    """Yield instructions that only a system call of this name comes to; others go past them."""
    number = system.number(name)
    if number is None:
        return
    body = list(instructions)
    if len(body) > 1:
        body.append(_instruction(LOAD, NUMBER))
    yield _instruction(JUMP_EQUAL, number, skip_if_false=len(body))
    yield from body


def _refusal(error: int) -> bytes:
    return _instruction(RETURN, ERROR | error)


def _instruction(code: int, value: int, *, skip_if_true: int = 0, skip_if_false: int = 0) -> bytes:
    """Return an instruction; a jump skips so many of the following ones."""
    return struct.pack("=HBBI", code, skip_if_true, skip_if_false, value)
