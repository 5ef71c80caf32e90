"""The measuring half of elastic.sh: a program that takes memory in the group, and what the server does meanwhile.

usage: elastic.py GROUP PORT SERVER (try N JSON WRITER MIB S | visits SECONDS MIB S STAY EVERY | hits MIB S | idle NAME)
"""

import glob
import json
import os
import socket
import subprocess
import sys
import time

GROUP, PORT, SERVER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# What `elastic.sh hits` reads, bytes a second.
READ_PER_S = 200 << 20
HOG = """
import mmap, os, sys, time
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
mib, seconds, stay = (float(word) for word in sys.argv[2:5])
steps, taken = 64, []
begun = time.monotonic()
for step in range(steps):
    memory = mmap.mmap(-1, int(mib / steps) << 20)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    taken.append(memory)
    time.sleep(max(0, begun + (step + 1) * seconds / steps - time.monotonic()))
time.sleep(stay)
"""


def hog(mib, seconds, stay):
    return subprocess.Popen([sys.executable, "-c", HOG, GROUP, str(mib), str(seconds), str(stay)])


def metrics():
    with socket.create_connection(("127.0.0.1", PORT), timeout=10) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        text = b""
        while part := connection.recv(1 << 16):
            text += part
    found = {}
    for line in text.decode().splitlines():
        if line.startswith("forebay_"):
            name, _, value = line.rpartition(" ")
            found[name.removeprefix("forebay_")] = float(value)
    return found


def group_number(file, name=None):
    for line in open(f"{GROUP}/{file}"):
        words = line.split()
        if name is None or words[0] == name:
            return int(words[-1])
    return 0


class Steps:
    """Each lower target, and when the cache was within it."""

    def __init__(self):
        self.target, self.waiting, self.took, self.turns = None, [], [], 0

    def look(self):
        now, seen = time.monotonic(), metrics()
        target, over = seen["memory_target_bytes"], seen["memory_over_bytes"]
        if self.target is not None and target < self.target:
            self.waiting.append((now, target))
        self.target = target
        self.took += [now - since for since, goal in self.waiting if target + over <= goal]
        self.waiting = [it for it in self.waiting if target + over > it[1]]
        return seen


def one_try(number, file, writer, mib, seconds):
    steps, kills = Steps(), group_number("memory.oom_control", "oom_kill")
    full = steps.look()["memory_target_bytes"]
    program = hog(mib, seconds, 2)
    least = full
    while not os.path.exists("written.done") or program.poll() is None:
        least = min(least, steps.look()["memory_target_bytes"])
        time.sleep(0.01)
    job = json.load(open(file))["jobs"][0]
    longest = job["write"]["clat_ns"]["max"] / 1e6
    kills = group_number("memory.oom_control", "oom_kill") - kills
    print(
        f"  try {number}: {full / 2**20:.0f} -> {least / 2**20:.0f} MiB in {len(steps.took)} steps, "
        f"given back within {max(steps.took, default=0):.3f} s ({len(steps.waiting)} not), longest write "
        f"{longest:.0f} ms, killed {kills}, program ended with {program.returncode}, errors {job['error']}",
        flush=True,
    )


def visits(length, mib, seconds, stay, every):
    steps, begun, program, count = Steps(), time.monotonic(), None, 0
    while (passed := time.monotonic() - begun) < length:
        if passed >= count * every:
            program, count = hog(mib, seconds, stay - seconds), count + 1
        seen = steps.look()
        time.sleep(0.05)
    print(
        f"  {count} visits in {length:.0f} s: {seen['memory_turns_total']:.0f} changes of direction, given back "
        f"within {max(steps.took, default=0):.3f} s, killed {group_number('memory.oom_control', 'oom_kill')}, "
        f"last program ended with {program.wait()}",
        flush=True,
    )


def share(before, after, seconds):
    """The part of what was read at a fixed rate that did not come from the image."""
    missed = (after["pgpgin_total"] - before["pgpgin_total"]) * 4096
    return max(0, 1 - missed / (READ_PER_S * seconds))


def hits(mib, seconds):
    rows, before = [], metrics()
    time.sleep(10)
    usual, program = share(before, metrics(), 10), hog(mib, seconds, 10)
    program.wait()
    gone, before, back = time.monotonic(), metrics(), None
    looked = gone
    while (passed := time.monotonic() - gone) < 75:
        time.sleep(1)
        after, now = metrics(), time.monotonic()
        part = share(before, after, now - looked)
        rows.append((passed, part, after["memory_target_bytes"]))
        if part >= 0.95 * usual:
            back = back or passed + 1
        else:
            back = None
        before, looked = after, now
    print(f"  hits before {usual:.3f}; 95 % of them for good {back and round(back)} s after the program had gone")
    for passed, part, target in rows[::10]:
        print(f"  {passed:5.0f} s: hits {part:.3f}, {target / 2**20:.0f} MiB")


def idle(name):
    def cost():
        ran = switches = 0
        for task in glob.glob(f"/proc/{SERVER}/task/*"):
            ran += int(open(f"{task}/schedstat").read().split()[0])
            for line in open(f"{task}/status"):
                if line.startswith("voluntary_ctxt"):
                    switches += int(line.split()[1])
        return ran, switches

    (ran, woke) = cost()
    time.sleep(60)
    (ran_after, woke_after) = cost()
    print(f"  {name}: {(ran_after - ran) / 1e6:.2f} ms of processor in 60 s, {woke_after - woke} wakes", flush=True)


def main():
    what, words = sys.argv[4], sys.argv[5:]
    if what == "try":
        number, file, writer, mib, seconds = words
        one_try(number, file, writer, float(mib), float(seconds))
    elif what == "visits":
        visits(*(float(word) for word in words))
    elif what == "hits":
        hits(*(float(word) for word in words))
    else:
        idle(words[0])


main()
