#!/usr/bin/env python3
"""The same loads through Forebay, s3backer and rclone, at one server of S3 that takes 10 ms more for each request.

usage: docs/demos/bucket-loads.py FOREBAY [ROUNDS]

FOREBAY is the program, built with --release. Each program has a cache of 256 MiB and is used through a file of FUSE, ours
by NBD and nbdfuse. Needs versitygw, nbdfuse, s3backer, rclone and curl. Prints medians and spreads; the first line of a load is
its time, the second what went through the line: times that the written bytes went up, MiB down, and requests.
"""

import asyncio
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

DELAY_S = 0.010
MIB = 1 << 20
SIZE = 1024 * MIB


class Line:
    """A proxy on a thread of its own that delays each request, and counts."""

    def __init__(self, far_port):
        self.far_port, self.up, self.down, self.requests = far_port, 0, 0, 0
        started = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(started)), daemon=True).start()
        started.wait()

    async def serve(self, started):
        server = await asyncio.start_server(self.connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await server.serve_forever()

    async def connect(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.far_port)
        except OSError:  # it has not started
            return writer.close()
        turn = {"is_asked": False}

        async def pump(source, sink, is_up):
            try:
                while piece := await source.read(256 << 10):
                    # The first bytes of a request, and of its answer.
                    if is_up and not turn["is_asked"]:
                        turn["is_asked"] = True
                        self.requests += 1
                    elif not is_up and turn["is_asked"]:
                        turn["is_asked"] = False
                        await asyncio.sleep(DELAY_S)
                    if is_up:
                        self.up += len(piece)
                    else:
                        self.down += len(piece)
                    sink.write(piece)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, far_writer, True), pump(far_reader, writer, False))


class Program:
    """A program that offers a file over the bucket; each time over a new volume, unless it `is_again`."""

    def __init__(self, scratch, name, number, forebay, endpoint):
        self.scratch, self.name, self.forebay, self.endpoint = scratch, name, forebay, endpoint
        self.prefix = f"{name}-{number}"
        self.mount = os.path.join(scratch, f"mount-{self.prefix}")
        os.makedirs(self.mount)
        self.processes = []

    def run(self, *words, **more):
        log = open(os.path.join(self.scratch, f"{self.prefix}.log"), "ab")
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, **more)
        self.processes.append(process)
        return process

    def start(self, is_again=False):
        self.processes = []
        if self.name == "forebay":
            socket, self.path = os.path.join(self.scratch, f"{self.prefix}.sock"), os.path.join(self.mount, "nbd")
            if os.path.exists(socket):
                os.unlink(socket)
            create = ["--take-over"] if is_again else ["--create", "1G"]
            self.run(self.forebay, "serve", "nbd", f"s3://loads/{self.prefix}", *create, "--memory", "256M", "--socket", socket)
            wait_for(lambda: os.path.exists(socket))
            self.run("nbdfuse", self.path, f"nbd+unix:///?socket={socket}")
        elif self.name == "s3backer":
            self.path = os.path.join(self.mount, "file")
            self.run("s3backer", f"--baseURL={self.endpoint}/", "--accessId=k", "--accessKey=secretsecret", "--size=1G",
                     "--blockSize=64k", "--blockCacheSize=4096", f"--prefix={self.prefix}/", "--listBlocks", "--directIO",
                     "-f", "loads", self.mount, *(["--force"] if is_again else []))
        else:
            self.path = os.path.join(self.mount, "file")
            config = {"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": self.endpoint, "ACCESS_KEY_ID": "k",
                      "SECRET_ACCESS_KEY": "secretsecret", "REGION": "us-east-1"}
            variables = {f"RCLONE_CONFIG_FAR_{key}": value for key, value in config.items()}
            self.cache = tempfile.mkdtemp(dir=self.scratch)
            self.run("rclone", "mount", f"far:loads/{self.prefix}", self.mount, "--cache-dir", self.cache,
                     "--vfs-cache-mode", "writes", "--vfs-cache-max-size", "256M", "--vfs-write-back", "1s",
                     env={**os.environ, **variables})
        wait_for(lambda: os.path.ismount(self.mount) or os.path.ismount(self.path))
        if self.name == "rclone" and not is_again:
            with open(self.path, "wb") as file:
                file.truncate(128 * MIB)
        return os.open(self.path, os.O_RDWR)

    def end(self, file, how=signal.SIGTERM):
        if how == signal.SIGKILL:
            for process in self.processes:
                process.kill()
        close(file)
        if self.name == "rclone" and how != signal.SIGKILL:
            arrived = os.path.join(self.scratch, "far/loads", self.prefix, "file")
            wait_for(lambda: os.path.exists(arrived) and os.path.getsize(arrived) == 128 * MIB)
        target = self.path if os.path.ismount(self.path) else self.mount
        subprocess.run(["fusermount", "-uz", target] if how == signal.SIGKILL else ["fusermount", "-u", target], check=False)
        for process in reversed(self.processes):
            # The others write what they have when they are unmounted, and end by themselves.
            if self.name == "forebay":
                process.send_signal(how)
            process.wait()


def close(file):
    try:
        os.close(file)
    except OSError:
        pass


def wait_for(is_there, longest_s=60):
    until = time.monotonic() + longest_s
    while not is_there():
        if time.monotonic() > until:
            raise TimeoutError("a program does not start")
        time.sleep(0.02)


def scattered(file, dice, mib=64, flush=64):
    """4 KiB at random, an fsync after each 64."""
    page = bytes(range(256)) * 16
    for number in range(mib * 256):
        os.pwrite(file, dice.randbytes(16) + page[16:], dice.randrange(SIZE // 16 // 4096) * 4096)
        if (number + 1) % flush == 0:
            os.fsync(file)
    return mib


def in_a_row(file, dice, mib=128):
    """1 MiB after the other, one fsync."""
    for number in range(mib):
        os.pwrite(file, dice.randbytes(MIB), number * MIB)
    os.fsync(file)
    return mib


def small_commits(file, dice, pages=512):
    """One page after the other, an fsync after each."""
    for number in range(pages):
        os.pwrite(file, dice.randbytes(4096), number * 4096)
        os.fsync(file)
    return pages / 256


def mixed(file, dice, calls=8192):
    """In 64 MiB that are there: seven reads of 4 KiB for three writes, an fsync after each 100 calls."""
    for number in range(calls):
        at = dice.randrange(64 * 256) * 4096
        if dice.random() < 0.7:
            os.pread(file, 4096, at)
        else:
            os.pwrite(file, dice.randbytes(4096), at)
        if number % 100 == 99:
            os.fsync(file)
    return calls * 0.3 / 256


def read_back(file, mib=128):
    for number in range(mib):
        if len(os.pread(file, MIB, number * MIB)) != MIB:
            raise OSError("a short read")


def lost_pages(program, dice):
    """Writes 1,000 pages with an fsync at the end, kills the program, and looks for them in the bucket."""
    file, pages = program.start(), {}
    for _ in range(1000):
        number = dice.randrange(16384)
        pages[number] = dice.randbytes(4096)
        os.pwrite(file, pages[number], number * 4096)
    os.fsync(file)
    program.end(file, signal.SIGKILL)
    # What a lost machine had on its disk is lost too.
    if program.name == "rclone":
        shutil.rmtree(program.cache)
    try:
        file = program.start(is_again=True)
    except (OSError, TimeoutError):
        return len(pages)
    lost = sum(os.pread(file, 4096, number * 4096) != page for number, page in pages.items())
    program.end(file)
    return lost


def show(values, digits):
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def main():
    forebay, rounds = os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    scratch = tempfile.mkdtemp(prefix="forebay-loads-")
    os.makedirs(os.path.join(scratch, "far", "loads"))
    far_port = random.randrange(20000, 40000)
    far = subprocess.Popen(["versitygw", "--port", f"127.0.0.1:{far_port}", "posix", os.path.join(scratch, "far")],
                           env={**os.environ, "ROOT_ACCESS_KEY": "k", "ROOT_SECRET_KEY": "secretsecret"},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    line = Line(far_port)
    endpoint = f"http://127.0.0.1:{line.port}"
    os.environ.update(AWS_ALLOW_HTTP="true", AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="k",
                      AWS_SECRET_ACCESS_KEY="secretsecret", AWS_ENDPOINT=endpoint)
    os.environ.pop("AWS_CA_BUNDLE", None)  # rclone does not start with it
    subprocess.run(["curl", "-s", "--retry", "60", "--retry-delay", "1", "--retry-connrefused", endpoint], stdout=subprocess.DEVNULL,
                   check=False)
    names, seen = ("forebay", "s3backer", "rclone"), {}
    loads = (scattered, in_a_row, small_commits, mixed)
    number = 0
    try:
        for turn in range(rounds):
            # Which of them is first changes.
            for name in names[turn % 3:] + names[:turn % 3]:
                for load in loads:
                    number += 1
                    dice = random.Random(number)
                    program = Program(scratch, name, number, forebay, endpoint)
                    file = program.start()
                    if load is mixed:
                        in_a_row(file, dice, 64)
                    up, down, requests, began = line.up, line.down, line.requests, time.monotonic()
                    mib = load(file, dice)
                    took = time.monotonic() - began
                    time.sleep(3)  # rclone sends what it has after a while
                    figures = (took, (line.up - up) / mib / MIB, (line.down - down) / MIB, line.requests - requests)
                    seen.setdefault((load.__name__, name), []).append(figures)
                    program.end(file)
                    if load is in_a_row:
                        file, began = program.start(is_again=True), time.monotonic()
                        read_back(file)
                        seen.setdefault(("read_cold", name), []).append((time.monotonic() - began,))
                        program.end(file)
                    print(load.__name__, name, [round(one, 2) for one in figures], file=sys.stderr, flush=True)
                number += 1
                program = Program(scratch, name, number, forebay, endpoint)
                seen.setdefault(("lost_pages", name), []).append((lost_pages(program, random.Random(number)),))
        for load, name in sorted(seen):
            turns = list(zip(*seen[load, name]))
            print(f"{load}, {name}: {show(turns[0], 0 if load == 'lost_pages' else 1)}{'' if load == 'lost_pages' else ' s'}")
            if len(turns) > 1:
                print(f"  up {show(turns[1], 1)} x, down {show(turns[2], 0)} MiB, requests {show(turns[3], 0)}")
    finally:
        far.kill()
        subprocess.run(f"grep -o '{scratch}[^ ]*' /proc/mounts | xargs -rn1 fusermount -uz", shell=True, check=False)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
