"""Nothing that a program tries behind a boundary has an effect, in either kind, as root and as another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.boundary.canaries import Canaries
from tests.boundary.running import AVAILABLE, NOBODY, SYSTEM_PYTHON, run
from tests.boundary.table import ATTEMPTS

USERS = [None, NOBODY] if os.getuid() == 0 and os.access(SYSTEM_PYTHON, os.X_OK) else [None]

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system builds no boundary")


@pytest.fixture(params=AVAILABLE)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("how", ["itself", "daemon"])
def test_no_attempt_in_python_has_an_effect(
    kind: str, canaries: Canaries, folder: Path, user: int | None, how: str
) -> None:
    script = folder / "attempts.py"
    shutil.copy(ATTEMPTS, script)
    ended = run(
        kind,
        [
            sys.executable if user is None else SYSTEM_PYTHON,
            "-I",
            str(script),
            *([how] if how == "daemon" else []),
        ],
        folder,
        environment={**canaries.environment(), "HOME": str(folder)},
        user=user,
    )
    assert "finished" in ended.out, (ended.out.splitlines()[-1:], ended.err)
    assert canaries.effects() == []
    effects = folder / "effects"
    assert not effects.exists() or effects.read_text() == ""


SHELL = r"""
echo changed > "$FILE"; echo changed >> "$FILE"; rm -f "$FILE"; mv "$FILE" taken; touch -d @1 "$FILE"; chmod 600 "$FILE"
ln -s "$FILE" symbolic; echo changed > symbolic; cp /etc/hostname "$FOLDER/copied.made"; truncate -s 0 "$FILE"; tee "$FILE" < /dev/null
exec 3<>"/dev/tcp/127.0.0.1/$TCP"; exec 4<>"/dev/udp/127.0.0.1/$UDP" && echo x >&4
kill -TERM "$PID"; kill -USR1 -- "-$PID"; renice 5 "$PID"
for program in curl wget nc; do
  command -v $program > /dev/null && timeout 2 $program "http://127.0.0.1:$TCP/" < /dev/null
  command -v curl > /dev/null && timeout 2 curl --noproxy '*' -s "http://127.0.0.1:$TCP/" --unix-socket "$SOCKET"
  command -v curl > /dev/null && timeout 2 curl --noproxy '*' -s "http://127.0.0.1:$TCP/"
done
(setsid sh -c 'echo changed > "$FILE"' &) ; nohup sh -c 'echo changed > "$FILE"' > /dev/null; sleep 0.2
unshare -Urmn sh -c 'mount -o remount,rw / ; echo changed > "$FILE"'; nsenter -t "$PID" -m -n sh -c 'echo changed > "$FILE"'
mount -o remount,rw,bind /; umount -l "$FOLDER"; chroot / sh -c 'echo changed > "$FILE"'; echo x > "$FIFO" &
echo finished
"""

NODE = r"""
const fs = require("fs"), net = require("net"), dgram = require("dgram"), child = require("child_process");
const known = JSON.parse(process.env.CANARIES);
const tries = [
  () => fs.writeFileSync(known.file, "changed"), () => fs.appendFileSync(known.file, "x"), () => fs.unlinkSync(known.file),
  () => fs.renameSync(known.file, known.folder + "/renamed.made"), () => fs.chmodSync(known.file, 0o600),
  () => fs.utimesSync(known.file, 1, 1), () => fs.mkdirSync(known.folder + "/node.made"),
  () => process.kill(known.pid, "SIGTERM"), () => child.execSync(`echo changed > ${known.file}`, {stdio: "ignore"}),
  () => net.connect(known.tcp, "127.0.0.1").on("error", () => {}), () => net.connect(known.path).on("error", () => {}),
  () => net.connect(known.link).on("error", () => {}), () => net.connect("\0" + known.abstract).on("error", () => {}),
  () => dgram.createSocket("udp4").on("error", () => {}).send("x", known.udp, "127.0.0.1"),
  () => fetch(`http://127.0.0.1:${known.tcp}/`).catch(() => {}),
];
for (const one of tries) { try { one(); } catch (error) {} }
setTimeout(() => { console.log("finished"); process.exit(0); }, 300);
"""

COMPILED = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void reach(int family, int kind, const struct sockaddr *address, socklen_t length) {
    int client = socket(family, kind, 0);
    if (connect(client, address, length) == 0 && write(client, "x", 1)) {}
    sendto(client, "x", 1, MSG_FASTOPEN, address, length);
    close(client);
}

int main(void) {
    const char *file = getenv("FILE");
    struct sockaddr_in tcp = {AF_INET, htons(atoi(getenv("TCP"))), {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in udp = {AF_INET, htons(atoi(getenv("UDP"))), {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un path = {AF_UNIX, ""};
    strncpy(path.sun_path, getenv("SOCKET"), sizeof path.sun_path - 1);
    for (int generation = 0; generation < 3; generation++) {
        int descriptor = open(file, O_WRONLY | O_TRUNC);
        if (descriptor >= 0 && write(descriptor, "changed", 7)) {}
        chmod(file, 0600);
        unlink(file);
        kill(atoi(getenv("PID")), SIGTERM);
        reach(AF_INET, SOCK_STREAM, (struct sockaddr *)&tcp, sizeof tcp);
        reach(AF_INET, SOCK_DGRAM, (struct sockaddr *)&udp, sizeof udp);
        reach(AF_UNIX, SOCK_STREAM, (struct sockaddr *)&path, sizeof path);
        if (generation == 0 && fork()) { usleep(300000); puts("finished"); return 0; }
        if (generation == 1) setsid();
        if (generation == 1 && fork()) _exit(0);
    }
#if defined(__x86_64__)
    /* As a process of 32 bits would: unlink(2) is 10 there, connect(2) goes through socketcall(2), 102. */
    long result;
    static char low[4096];
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(10), "b"((unsigned)(unsigned long)strcpy(low, file)) : "memory");
#endif
    return 0;
}
"""


def _variables(canaries: Canaries) -> dict[str, str]:
    """The canaries for programs that read no JSON."""
    return {
        **canaries.environment(), "FILE": str(canaries.file), "FOLDER": str(canaries.folder),
        "TCP": str(canaries.tcp), "UDP": str(canaries.udp), "PID": str(canaries.victim.pid),
        "SOCKET": canaries.path, "FIFO": canaries.fifo,
    }  # fmt: skip


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("language", ["shell", "node", "compiled"])
def test_no_attempt_in_another_language_has_an_effect(
    kind: str, canaries: Canaries, folder: Path, user: int | None, language: str
) -> None:
    program = {"shell": "bash", "node": "node", "compiled": "gcc"}[language]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    source = folder / {"shell": "try.sh", "node": "try.js", "compiled": "try.c"}[language]
    source.write_text({"shell": SHELL, "node": NODE, "compiled": COMPILED}[language])
    argv = [program, str(source)]
    if language == "compiled":
        argv = [str(folder / "try")]
        # Where addresses have 32 bits, as a call of a 32-bit process needs them.
        subprocess.run(["gcc", "-w", "-no-pie", "-o", argv[0], str(source)], check=True)
    ended = run(kind, argv, folder, environment=_variables(canaries), user=user)
    assert "finished" in ended.out, ended.err
    assert canaries.effects() == []


@pytest.mark.parametrize(
    "name",
    [
        "write_a_file", "truncate_a_file", "remove_a_file", "change_the_mode", "change_the_times",
        "write_to_a_fifo", "connect_by_tcp", "connect_by_ipv6", "connect_by_a_first_packet", "send_a_datagram",
        "connect_to_a_linked_socket", "connect_to_an_abstract_socket", "connect_a_paired_socket_to_a_path",
        "send_a_message", "write_to_shared_memory", "send_signals", "change_the_priority_of_a_process",
    ],
)  # fmt: skip
def test_the_canaries_notice_the_same_attempt_without_a_boundary(
    canaries: Canaries, folder: Path, name: str
) -> None:
    (folder / "attempts.py").write_text(ATTEMPTS.read_text())
    environment = {**os.environ, **canaries.environment()}
    subprocess.run([sys.executable, "attempts.py", name], cwd=folder, env=environment, check=True)
    if name == "connect_by_a_first_packet" and not canaries.effects():
        pytest.skip("this kernel has TCP Fast Open switched off")
    if name == "connect_by_ipv6" and not canaries.tcp6:
        pytest.skip("no IPv6 here")
    assert canaries.effects() != []
