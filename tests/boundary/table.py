"""The table of docs/security.md: what each kind of boundary covers, and the attempts that show it.

`python -m tests.boundary.table` makes the attempts of each row behind each kind, and writes the table anew.
Every attempt of `attempts.py` belongs to a row, and `test_effects.py` makes all of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.boundary.canaries import canaries
from tests.boundary.running import AVAILABLE, run

ATTEMPTS = Path(__file__).with_name("attempts.py")
PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- boundary: begin -->", "<!-- boundary: end -->"


@dataclass(frozen=True)
class Row:
    """What is covered, how each kind covers it, and the attempts that show it."""

    what: str
    namespaces: str
    landlock: str
    attempts: tuple[str, ...]


ROWS = (
    Row(
        "files outside of the trial's folder: contents, names",
        "read-only; `/tmp` and caches are private copies",
        "read-only; `TMPDIR` is a private folder",
        (
            "write_a_file", "append_to_a_file", "make_a_file", "make_a_folder", "truncate_a_file", "truncate_a_file_by_opening_it_for_reading", "exchange_files",
            "remove_a_file", "rename_a_file", "replace_a_file", "move_a_file_in", "link_a_file_and_write",
            "link_a_descriptor_and_write",
            "write_through_a_symbolic_link", "write_through_proc",
            "write_through_the_root_of_another_process", "reopen_a_descriptor_for_writing",
            "write_through_shared_memory", "link_an_unnamed_file", "open_a_file_by_its_handle",
            "load_a_library_that_was_written",
        ),
    ),
    Row(
        "their mode, owner, times, attributes, flags",
        "read-only",
        "a change reports success and changes nothing (of flags: fails), in the trial's folder too",
        (
            "change_flags_of_a_file_that_is_open_for_reading",
            "change_attributes_of_a_file_that_is_open_for_reading",
            "change_the_mode", "change_the_mode_by_descriptor", "change_the_owner", "change_the_times",
            "change_an_attribute",
        ),
    ),
    Row(
        "devices, kernel settings, control groups, FIFOs, terminals",
        "refused",
        "refused",
        (
            "make_a_device", "make_a_disk_and_write", "open_a_disk", "write_a_kernel_setting",
            "make_a_control_group", "write_to_a_fifo", "control_devices", "change_a_terminal",
            "write_to_a_terminal", "type_into_the_terminal",
        ),
    ),
    Row(
        "TCP to other machines and to services of this one",
        "no route",
        "refused by port",
        (
            "connect_by_tcp", "connect_by_tcp_to_another_loopback_address", "connect_by_ipv6",
            "connect_by_a_mapped_address", "connect_to_an_address_of_this_machine", "connect_past_python",
            "connect_by_a_first_packet", "connect_by_a_first_message", "connect_by_several_messages",
            "connect_with_fast_open_set", "connect_again_after_a_disconnection", "connect_a_socket_of_ipv6_to_ipv4", "connect_with_encryption_set", "enter_the_network_of_another_process",
        ),
    ),
    Row(
        "datagrams, look-ups of names, multipath TCP, raw packets",
        "no route",
        "refused",
        (
            "connect_by_multipath_tcp", "connect_by_smc", "send_a_datagram", "send_a_datagram_over_ipv6", "send_a_datagram_of_udp_lite",
            "send_a_raw_packet",
        ),
    ),
    Row(
        "Unix sockets with a path (hard links too) and abstract ones, VSOCK, others, io_uring",
        "refused; pairs of streams work",
        "refused; pairs of streams work",
        (
            "connect_to_the_hypervisor", "use_kernel_crypto", "connect_to_a_socket_with_a_path",
            "connect_to_a_linked_socket", "connect_a_paired_socket_to_a_path",
            "connect_a_paired_stream_to_a_path", "connect_to_an_abstract_socket",
            "connect_a_pair_of_packets_to_a_path", "set_up_io_uring",
        ),
    ),
    Row(
        "System V IPC, POSIX message queues",
        "private",
        "refused",
        ("send_a_message", "write_to_shared_memory"),
    ),
    Row(
        "signals to other processes",
        "refused (Linux 6.12 or later)",
        "refused (Linux 6.12 or later)",
        ("send_signals", "send_a_signal_through_a_descriptor", "send_a_signal_through_a_notification"),
    ),
    Row(
        "memory, descriptors, environment, settings, priority and limits of other processes; ptrace",
        "refused",
        "refused",
        (
            "trace_a_process", "seize_a_process", "write_to_the_memory_of_a_process",
            "read_the_environment_of_a_process", "read_the_memory_of_a_process",
            "take_a_descriptor_of_a_process", "open_a_descriptor_of_a_process",
            "change_the_priority_of_a_process", "change_the_priority_of_all_processes_of_the_user",
            "change_the_processors_of_a_process", "change_the_scheduling_of_a_process", "limit_a_process", "write_to_the_settings_of_a_process",
        ),
    ),
    Row(
        "the boundary itself: namespaces, mounts, keys, BPF, privileges, 32-bit and x32 calls",
        "refused",
        "refused",
        (
            "unshare_and_mount", "clone_with_namespaces", "make_a_child_of_the_parent", "clone_with_a_structure", "make_mounts_writable",
            "open_a_detached_mount", "change_the_root", "add_a_key", "load_bpf", "replace_rules_of_landlock", "watch_performance",
            "use_system_calls_of_x32", "regain_privileges",
        ),
    ),
)  # fmt: skip


def measured(row: Row) -> int:
    """Return how many effects the attempts of a row have, behind every kind that this system builds."""
    effects = 0
    for kind in AVAILABLE:
        with canaries() as running, tempfile.TemporaryDirectory(prefix="trial-") as folder:
            script = shutil.copy(ATTEMPTS, folder)
            environment = {**running.environment(), "HOME": folder}
            ended = run(
                kind, [sys.executable, "-I", script, *row.attempts], Path(folder), environment=environment
            )
            assert "finished" in ended.out, ended.err
            effects += len(running.effects())
    return effects


def with_table(page: str, effects: Callable[[Row], int]) -> str:
    """Return the page with the table as it is now.

    Args:
        page: the text of the page.
        effects: returns how many effects the attempts of a row have.
    """
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    lines = ["| what | `namespaces` | `landlock` | attempts | effects |", "|---|---|---|--:|--:|"]
    lines += [
        f"| {row.what} | {row.namespaces} | {row.landlock} | {len(row.attempts)} | {effects(row)} |"
        for row in ROWS
    ]
    return "\n".join([before + BEGIN, *lines, END + after])


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), measured))
