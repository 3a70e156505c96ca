"""Attempts of a program to have an effect outside its boundary; run as a script inside one.

Each attempt is a function without arguments that may raise. Which of them had an effect is not theirs to say:
the canaries outside know.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios

KNOWN = json.loads(os.environ["CANARIES"])
FILE, FOLDER, PID = KNOWN["file"], KNOWN["folder"], KNOWN["pid"]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
IS_X86 = os.uname().machine == "x86_64"
ATTEMPTS = []


def attempt(function):
    ATTEMPTS.append(function)
    return function


def syscall(x86, arm, *arguments):
    converted = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    returned = LIBC.syscall(ctypes.c_long(x86 if IS_X86 else arm), *converted)
    if returned < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return returned


def address(port, host="127.0.0.1"):
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(host))


# Files


@attempt
def write_a_file():
    with open(FILE, "w") as file:
        file.write("changed")


@attempt
def append_to_a_file():
    with open(FILE, "a") as file:
        file.write("changed")


@attempt
def make_a_file():
    open(f"{FOLDER}/new.made", "w").close()


@attempt
def make_a_folder():
    os.mkdir(f"{FOLDER}/folder.made")


@attempt
def truncate_a_file():
    os.truncate(FILE, 0)


@attempt
def truncate_a_file_by_opening_it_for_reading():
    os.close(os.open(FILE, os.O_RDONLY | os.O_TRUNC))


@attempt
def exchange_files():
    with open("exchanged", "w") as file:
        file.write("changed")
    LIBC.renameat2(-100, b"exchanged", -100, FILE.encode(), 2)


@attempt
def remove_a_file():
    os.remove(FILE)


@attempt
def rename_a_file():
    os.rename(FILE, f"{FOLDER}/renamed.made")


@attempt
def replace_a_file():
    open("mine", "w").close()
    os.replace("mine", FILE)


@attempt
def move_a_file_in():
    os.rename(FILE, "taken")


@attempt
def link_a_file_and_write():
    os.link(FILE, "linked")
    with open("linked", "w") as file:
        file.write("changed")


@attempt
def write_through_a_symbolic_link():
    os.symlink(FILE, "symbolic")
    with open("symbolic", "w") as file:
        file.write("changed")


@attempt
def write_through_proc():
    with open(f"/proc/self/root{FILE}", "w") as file:
        file.write("changed")


@attempt
def write_through_the_root_of_another_process():
    with open(f"/proc/{PID}/root{FILE}", "w") as file:
        file.write("changed")


@attempt
def reopen_a_descriptor_for_writing():
    descriptor = os.open(FILE, os.O_RDONLY)
    with open(f"/proc/self/fd/{descriptor}", "w") as file:
        file.write("changed")


@attempt
def write_through_shared_memory():
    with open(FILE, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:1] = b"X"


@attempt
def link_an_unnamed_file():
    descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY)
    os.link(f"/proc/self/fd/{descriptor}", f"{FOLDER}/unnamed.made", follow_symlinks=True)


@attempt
def change_the_mode():
    os.chmod(FILE, 0o600)


@attempt
def change_the_mode_by_descriptor():
    os.fchmod(os.open(FILE, os.O_RDONLY), 0o600)


@attempt
def change_the_owner():
    os.chown(FILE, 1, 1)


@attempt
def change_the_times():
    os.utime(FILE, (1, 1))


@attempt
def change_flags_of_a_file_that_is_open_for_reading():
    descriptor = os.open(FILE, os.O_RDONLY)
    flags = fcntl.ioctl(descriptor, 0x80086601, b"        ")
    changed = struct.pack("=Q", struct.unpack("=Q", flags)[0] | 0x40)  # no backup by dump(8)
    fcntl.ioctl(descriptor, 0x40086602, changed)
    make_marker("flags of a file were changed")


@attempt
def change_attributes_of_a_file_that_is_open_for_reading():
    descriptor = os.open(FILE, os.O_RDONLY)
    attributes = bytearray(fcntl.ioctl(descriptor, 0x801C581F, b" " * 28))
    attributes[0] |= 0x80  # no backup
    fcntl.ioctl(descriptor, 0x401C5820, bytes(attributes))
    make_marker("attributes of a file were changed")


@attempt
def link_a_descriptor_and_write():
    descriptor = os.open(FILE, os.O_RDONLY)
    syscall(265, 37, descriptor, b"", -100, b"linked by descriptor", 0x1000)
    with open("linked by descriptor", "w") as file:
        file.write("changed")


@attempt
def change_an_attribute():
    os.setxattr(FILE, "user.changed", b"1")


@attempt
def make_a_device():
    os.mknod(f"{FOLDER}/device.made", 0o600 | 0o020000, os.makedev(1, 3))


@attempt
def make_a_disk_and_write():
    disk = next(entry.path for entry in os.scandir("/sys/class/block"))
    with open(f"{disk}/dev") as file:
        major, minor = map(int, file.read().split(":"))
    os.mknod("disk", 0o600 | 0o060000, os.makedev(major, minor))
    os.close(os.open("disk", os.O_RDWR))
    make_marker("a disk was opened for writing")


@attempt
def open_a_disk():
    for entry in os.scandir("/dev"):
        if entry.name.startswith(("sd", "vd", "nvme", "mem", "kmsg", "port")):
            with contextlib.suppress(OSError):
                os.close(os.open(entry.path, os.O_WRONLY))
                make_marker(f"{entry.path} was opened for writing")


@attempt
def write_a_kernel_setting():
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness", "/sys/kernel/profiling"):
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            make_marker(f"{path} was opened for writing")


@attempt
def make_a_control_group():
    os.mkdir("/sys/fs/cgroup/replay-attempt")
    make_marker("a control group was made")


@attempt
def write_to_a_fifo():
    os.write(os.open(KNOWN["fifo"], os.O_WRONLY | os.O_NONBLOCK), b"x")


@attempt
def control_devices():
    for name, request in (
        ("loop-control", 0x4C82),
        ("net/tun", 0x400454CA),
        ("kvm", 0xAE00),
        ("fuse", 0x8004E500),
    ):
        with contextlib.suppress(OSError):
            fcntl.ioctl(os.open(f"/dev/{name}", os.O_RDONLY), request, 0)
            make_marker(f"{name} was controlled")


@attempt
def change_a_terminal():
    descriptor = os.open(KNOWN["terminal"], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    settings = termios.tcgetattr(descriptor)
    settings[3] ^= termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSANOW, settings)
    make_marker("a terminal has other settings")


@attempt
def write_to_a_terminal():
    os.write(os.open(KNOWN["terminal"], os.O_WRONLY | os.O_NOCTTY), b"\x1b]0;title\x07")


def make_marker(text):
    """Report an effect that the canaries cannot see."""
    with open("effects", "a") as file:
        file.write(f"{text}\n")


# Network


@attempt
def connect_by_tcp():
    socket.create_connection(("127.0.0.1", KNOWN["tcp"]), 2)


@attempt
def connect_by_tcp_to_another_loopback_address():
    socket.create_connection(("127.0.0.2", KNOWN["tcp"]), 2)


@attempt
def connect_by_ipv6():
    socket.create_connection(("::1", KNOWN["tcp6"]), 2)


@attempt
def connect_by_a_mapped_address():
    socket.create_connection(("::ffff:127.0.0.1", KNOWN["tcp"]), 2)


@attempt
def connect_to_an_address_of_this_machine():
    if KNOWN["lan"]:
        socket.create_connection((KNOWN["address"], KNOWN["lan"]), 2)


@attempt
def connect_past_python():
    descriptor = LIBC.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    LIBC.connect(descriptor, address(KNOWN["tcp"]), 16)


@attempt
def connect_by_a_first_packet():
    # TCP Fast Open connects without connect(2).
    with socket.socket() as client:
        client.settimeout(2)
        client.sendto(b"x", 0x20000000, ("127.0.0.1", KNOWN["tcp"]))


@attempt
def connect_by_a_first_message():
    with socket.socket() as client:
        client.settimeout(2)
        client.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", KNOWN["tcp"]))


@attempt
def connect_by_several_messages():
    with socket.socket() as client:
        vector = ctypes.create_string_buffer(b"x")
        part = struct.pack("=QQ", ctypes.addressof(vector), 1)
        parts, where = ctypes.create_string_buffer(part), ctypes.create_string_buffer(address(KNOWN["tcp"]))
        header = struct.pack(
            "=QIxxxxQQQQixxxxixxxx",
            ctypes.addressof(where), 16, ctypes.addressof(parts), 1, 0, 0, 0, 0,
        )  # fmt: skip
        syscall(307, 269, client.fileno(), header, 1, 0x20000000)


@attempt
def connect_again_after_a_disconnection():
    with socket.socket() as client:
        client.settimeout(2)
        LIBC.connect(client.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16)
        client.connect(("127.0.0.1", KNOWN["tcp"]))


@attempt
def connect_a_socket_of_ipv6_to_ipv4():
    with socket.socket(socket.AF_INET6) as client:
        LIBC.connect(client.fileno(), address(KNOWN["tcp"]), 16)


@attempt
def connect_with_encryption_set():
    with socket.socket() as client:
        client.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
        client.settimeout(2)
        client.connect(("127.0.0.1", KNOWN["tcp"]))


@attempt
def connect_with_fast_open_set():
    with socket.socket() as client:
        client.setsockopt(socket.IPPROTO_TCP, 30, 1)
        client.settimeout(2)
        client.connect(("127.0.0.1", KNOWN["tcp"]))
        client.send(b"x")


@attempt
def connect_by_multipath_tcp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as client:
        client.settimeout(2)
        client.connect(("127.0.0.1", KNOWN["tcp"]))


@attempt
def connect_by_smc():
    with socket.socket(43, socket.SOCK_STREAM, 0) as client:
        client.settimeout(2)
        client.connect(("127.0.0.1", KNOWN["tcp"]))


@attempt
def send_a_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", KNOWN["udp"]))


@attempt
def send_a_datagram_of_udp_lite():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) as client:
        client.sendto(b"x", ("127.0.0.1", KNOWN["udp"]))


@attempt
def send_a_datagram_over_ipv6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("::ffff:127.0.0.1", KNOWN["udp"]))


@attempt
def send_a_raw_packet():
    for family, kind in ((socket.AF_INET, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW)):
        with contextlib.suppress(OSError):
            socket.socket(family, kind, 255 if family == socket.AF_INET else 0).close()
            if kind == socket.SOCK_RAW and family == socket.AF_PACKET:
                make_marker("a packet socket")


@attempt
def connect_to_the_hypervisor():
    with contextlib.suppress(OSError):
        socket.socket(40, socket.SOCK_STREAM).close()
        make_marker("a VSOCK socket")


@attempt
def use_kernel_crypto():
    with contextlib.suppress(OSError):
        socket.socket(38, socket.SOCK_SEQPACKET).close()
        make_marker("an AF_ALG socket")


@attempt
def connect_to_a_socket_with_a_path():
    for path in (KNOWN["path"], KNOWN["link"], f"/proc/{PID}/root{KNOWN['path']}"):
        with contextlib.suppress(OSError):
            socket.socket(socket.AF_UNIX).connect(path)


@attempt
def connect_to_a_linked_socket():
    with contextlib.suppress(OSError):
        os.symlink(KNOWN["path"], "linked.sock")
    socket.socket(socket.AF_UNIX).connect("linked.sock")


@attempt
def connect_a_paired_socket_to_a_path():
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for path in (KNOWN["datagram_path"], KNOWN["path"]):
        with contextlib.suppress(OSError):
            first.sendto(b"x", path)
        with contextlib.suppress(OSError):
            second.connect(path)
            second.send(b"x")


@attempt
def connect_a_paired_stream_to_a_path():
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        first, second = socket.socketpair(socket.AF_UNIX, kind)
        second.close()
        LIBC.connect(first.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16)
        with contextlib.suppress(OSError):
            first.connect(KNOWN["path"])
            first.send(b"x")


@attempt
def connect_to_an_abstract_socket():
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_UNIX).connect(f"\0{KNOWN['abstract']}")
    first, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    first.connect(f"\0{KNOWN['abstract']}")


@attempt
def connect_a_pair_of_packets_to_a_path():
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    second.close()
    first.connect(KNOWN["path"])
    first.send(b"x")


@attempt
def set_up_io_uring():
    with contextlib.suppress(OSError):
        os.close(syscall(425, 425, 4, ctypes.create_string_buffer(120)))
        make_marker("io_uring was set up")


@attempt
def enter_the_network_of_another_process():
    syscall(308, 268, os.open(f"/proc/{PID}/ns/net", os.O_RDONLY), 0)
    make_marker("another network namespace was entered")


# Other processes


@attempt
def send_a_message():
    LIBC.msgsnd(KNOWN["queue"], struct.pack("l16s", 1, b"changed"), 16, 0o4000)


@attempt
def write_to_shared_memory():
    LIBC.shmat.restype = ctypes.c_void_p
    at = LIBC.shmat(KNOWN["memory"], None, 0)
    if at != ctypes.c_void_p(-1).value:
        ctypes.memset(at, 1, 1)


@attempt
def send_signals():
    for number in (signal.SIGTERM, signal.SIGUSR1):
        for send in (os.kill, os.killpg):
            with contextlib.suppress(OSError):
                send(PID, number)
    with contextlib.suppress(OSError):
        syscall(234, 131, PID, PID, int(signal.SIGUSR1))
    information = struct.pack("=iii116x", int(signal.SIGUSR1), 0, -1)
    with contextlib.suppress(OSError):
        syscall(129, 138, PID, int(signal.SIGUSR1), information)
    with contextlib.suppress(OSError):
        syscall(424, 424, os.pidfd_open(PID), int(signal.SIGUSR1), None, 0)


@attempt
def send_a_signal_through_a_descriptor():
    first, second = socket.socketpair()
    fcntl.fcntl(first, fcntl.F_SETOWN, PID)
    fcntl.fcntl(first, fcntl.F_SETFL, fcntl.fcntl(first, fcntl.F_GETFL) | os.O_ASYNC)
    second.send(b"x")


@attempt
def send_a_signal_through_a_notification():
    for request in (0x400, 0x402):  # of a lease, and of a folder
        descriptor = os.open(".", os.O_RDONLY)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, PID)
        fcntl.fcntl(descriptor, 10, int(signal.SIGUSR1))
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, request, 0x80000004 if request == 0x402 else 0)
        open("notified", "w").close()


@attempt
def write_to_the_settings_of_a_process():
    for name, text in (("oom_score_adj", "500"), ("comm", "x"), ("clear_refs", "1"), ("autogroup", "5")):
        with contextlib.suppress(OSError), open(f"/proc/{PID}/{name}", "w") as file:
            file.write(text)
            file.flush()
            make_marker(f"{name} of a process was changed")


@attempt
def trace_a_process():
    if syscall(101, 117, 16, PID, 0, 0) == 0:
        make_marker("a process was traced")


@attempt
def seize_a_process():
    if syscall(101, 117, 0x4206, PID, 0, 0) == 0:
        make_marker("a process was seized")


@attempt
def write_to_the_memory_of_a_process():
    os.close(os.open(f"/proc/{PID}/mem", os.O_RDWR))
    make_marker("the memory of a process was opened")


@attempt
def read_the_environment_of_a_process():
    with open(f"/proc/{PID}/environ", "rb") as file:
        file.read(1)
    make_marker("the environment of a process was read")


@attempt
def read_the_memory_of_a_process():
    local = struct.pack("=QQ", ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    syscall(310, 270, PID, local, 1, struct.pack("=QQ", 4096, 8), 1, 0)
    make_marker("the memory of a process was read")


@attempt
def take_a_descriptor_of_a_process():
    syscall(438, 438, os.pidfd_open(PID), 1, 0)
    make_marker("a descriptor of a process was taken")


@attempt
def open_a_descriptor_of_a_process():
    os.write(os.open(f"/proc/{PID}/fd/1", os.O_WRONLY), b"x")
    make_marker("a pipe of a process was written to")


@attempt
def change_the_priority_of_a_process():
    os.setpriority(os.PRIO_PROCESS, PID, 15)


@attempt
def change_the_priority_of_all_processes_of_the_user():
    os.setpriority(os.PRIO_USER, 0, 15)


@attempt
def change_the_processors_of_a_process():
    os.sched_setaffinity(PID, {min(os.sched_getaffinity(0))})
    make_marker("the processors of a process were changed")


@attempt
def change_the_scheduling_of_a_process():
    os.sched_setscheduler(PID, os.SCHED_IDLE, os.sched_param(0))
    make_marker("the scheduling of a process was changed")


@attempt
def limit_a_process():
    import resource

    resource.prlimit(PID, resource.RLIMIT_NOFILE, (4, 4))
    make_marker("a limit of a process was changed")


# The boundary itself


@attempt
def unshare_and_mount():
    for flag in (0x10000000, 0x40000000, 0x20000, 0x10020000, 0x80, 0x2000000):
        if LIBC.unshare(flag) == 0:
            make_marker(f"namespaces {flag:#x} were made")


@attempt
def clone_with_namespaces():
    child = syscall(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    make_marker("a process with namespaces was made")


@attempt
def make_a_child_of_the_parent():
    child = syscall(56, 220, 0x8000 | int(signal.SIGCHLD), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    make_marker("a process outside has another child")


@attempt
def clone_with_a_structure():
    arguments = struct.pack("=QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    child = syscall(435, 435, arguments, len(arguments))
    if child == 0:
        os._exit(0)
    make_marker("a process with namespaces was made")


@attempt
def replace_rules_of_landlock():
    rules = syscall(444, 444, struct.pack("=QQQ", 2, 0, 0), 24, 0)
    syscall(445, 445, rules, 1, struct.pack("=Qi", 2, os.open("/", os.O_PATH)), 0)
    syscall(446, 446, rules, 0)
    with open(FILE, "w") as file:
        file.write("changed")


@attempt
def make_mounts_writable():
    for target in (b"/", FOLDER.encode()):
        change = struct.pack("=QQQQ", 0, 1, 0, 0)
        with contextlib.suppress(OSError):
            syscall(442, 442, -100, target, 0x8000, change, len(change))
            make_marker("a mount was made writable")
        if LIBC.mount(None, target, None, 0x20 | 0x1000, None) == 0:
            make_marker("a mount was made writable again")
        if LIBC.umount2(target, 2) == 0:
            make_marker("a mount was taken away")


@attempt
def open_a_detached_mount():
    descriptor = syscall(428, 428, -100, FOLDER.encode(), 1)
    make_marker("a mount was cloned")
    os.close(os.open("new.made", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))


@attempt
def change_the_root():
    if LIBC.chroot(b"/tmp") == 0:
        make_marker("the root was changed")


@attempt
def add_a_key():
    syscall(248, 217, b"user", b"replay-attempt", b"x", 1, -4)
    make_marker("a key was added")


@attempt
def load_bpf():
    syscall(321, 280, 0, ctypes.create_string_buffer(128), 128)
    make_marker("BPF")


@attempt
def watch_performance():
    syscall(298, 241, ctypes.create_string_buffer(struct.pack("=II", 1, 128), 128), 0, -1, -1, 0)
    make_marker("performance events")


@attempt
def open_a_file_by_its_handle():
    handle = ctypes.create_string_buffer(struct.pack("=Ii128s", 128, 0, b""), 136)
    mount_id = ctypes.c_int()
    LIBC.syscall(
        ctypes.c_long(303 if IS_X86 else 264), -100, FILE.encode(), handle, ctypes.byref(mount_id), 0
    )
    with open(f"/proc/self/fd/{syscall(304, 265, os.open('/', 0), handle, 2)}", "w") as file:
        file.write("changed")


@attempt
def use_system_calls_of_x32():
    if IS_X86:
        descriptor = LIBC.syscall(ctypes.c_long(0x40000000 + 41), 1, 1, 0)
        if descriptor >= 0:
            make_marker("an x32 system call")


@attempt
def type_into_the_terminal():
    for entry in os.scandir("/dev/pts"):
        with contextlib.suppress(OSError):
            descriptor = os.open(entry.path, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(descriptor, 0x5412, b"x")
            make_marker("text was typed into a terminal")


@attempt
def regain_privileges():
    for program in ("/usr/bin/sudo", "/bin/su", "/usr/bin/su"):
        if os.access(program, os.X_OK):
            subprocess.run(
                [program, "-c", f"touch {FOLDER}/root.made"], stdin=subprocess.DEVNULL,
                capture_output=True, timeout=5,
            )  # fmt: skip
    os.setuid(0)
    open(f"{FOLDER}/uid.made", "w").close()


@attempt
def load_a_library_that_was_written():
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(f"open({FILE!r}, 'w').write('changed')")
        file.flush()
        subprocess.run([sys.executable, file.name], capture_output=True, timeout=20)


def main(names):
    """Make these attempts, or every one; print the name of each as it begins."""
    for function in ATTEMPTS:
        if names and function.__name__ not in names:
            continue
        print(function.__name__, flush=True)
        with contextlib.suppress(Exception):
            function()


if __name__ == "__main__":
    if sys.argv[1:] == ["daemon"]:
        del sys.argv[1]
        if os.fork():
            os.wait()
            sys.exit()
        os.setsid()
        if os.fork():
            os._exit(0)
    main(sys.argv[1:])
    print("finished", flush=True)
