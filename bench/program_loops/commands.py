"""Loops of programs that are no Python: what starts one for so many rounds, and where it comes from.

A program that can be started for no rounds is counted without what that costs: from its first round to its last. The
others are counted whole.
"""

import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import typing


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    title: str
    tools: tuple  # the first that is installed is started
    package: str  # of Debian
    arguments: typing.Callable  # (rounds, folder) -> the words after the tool
    empty: bool = True  # it can be started for no rounds
    drive: typing.Callable = None  # (rounds, folder): what is done while it runs
    behind: str = ""  # preloaded behind the allocator

    def tool(self):
        return next(filter(None, map(shutil.which, self.tools)), None)

    def start(self, rounds, folder):
        return [self.tool(), *self.arguments(rounds, pathlib.Path(folder))]


def octave(body):
    return lambda rounds, _: ["--no-window-system", "--quiet", "--no-init-file", "--eval",
                              f"A = ones(600) / 600; v = ones(2500000, 1); for i = 1:{rounds}; {body}; end"]


def in_r(before, body):
    return lambda rounds, _: ["--vanilla", "-e", f"{before}; for (i in seq_len({rounds})) {{ {body} }}"]


def pictures(rounds, _):
    """Pictures that are made, scaled, blurred and turned one after another, in one process."""
    one = ["(", "-size", "1200x900", "gradient:navy-orange", "-resize", "800x600", "-blur", "0x2", "-rotate", "7", ")"]
    return ["-size", "8x8", "xc:black", *[word for _ in range(rounds) for word in [*one, "+delete"]], "null:"]


def film(rounds, _):
    source = f"testsrc2=size=1280x720:rate=25:duration={rounds * 3 / 25}"
    return ["-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", source, "-threads", "2", "-vf",
            "scale=960:540,gblur=sigma=2,unsharp", "-c:v", "rawvideo", "-f", "null", "-"]


def scene(rounds, folder):
    """A row of spheres, the more the higher the picture."""
    text = "camera { location <0, 2, -9> look_at 0 } light_source { <9, 9, -9> rgb 1 } plane { y, -1 pigment { checker } }\n"
    text += "".join(f"sphere {{ <{i % 7 - 3}, {i // 7 * 0.8 - 1}, {i % 3}>, 0.4 pigment {{ rgb <1, {i / 40:.2f}, 0> }} "
                    "finish { reflection 0.3 } }\n" for i in range(40))
    (folder / "scene.pov").write_text(text)
    return [f"+I{folder / 'scene.pov'}", "+W640", f"+H{24 * rounds}", "-D", "+WT2", f"+O{folder / 'scene.png'}", "+FN"]


def source(rounds, folder):
    """A file of many functions."""
    text = "#include <map>\n#include <string>\n#include <vector>\n"
    text += "".join(f"std::map<std::string, std::vector<int>> f{i}(int n) {{ std::map<std::string, std::vector<int>> all; "
                    f"for (int i = 0; i < n; ++i) {{ all[std::to_string(i * {i})].push_back(i); }} return all; }}\n"
                    for i in range(12 * rounds))
    (folder / "large.cc").write_text(text)
    return ["-std=c++17", "-O1", "-c", str(folder / "large.cc"), "-o", str(folder / "large.o")]


def queries(rounds, folder):
    """Tables of large values that are joined to one and sorted, in memory."""
    text = "CREATE TABLE t (k INTEGER, v BLOB);\n" + rounds * (
        "INSERT INTO t SELECT value, zeroblob(200000) FROM generate_series(1, 20);\n"
        "SELECT length(group_concat(hex(v))) FROM (SELECT v FROM t ORDER BY k DESC);\nDELETE FROM t;\n")
    (folder / "queries.sql").write_text(text)
    return [":memory:", f".read {folder / 'queries.sql'}"]


def perl(rounds, _):
    return ["-MPDL", "-e", f"my $a = sequence(600, 600); my $s; for (1..{rounds}) {{ my $b = sqrt($a + 1) * $a; "
                           "$s = ($b - $b->transpose)->sum }"]


def server(_, folder):
    return ["--port", "0", "--unixsocket", str(folder / "socket"), "--save", "", "--appendonly", "no", "--dir", str(folder),
            "--loglevel", "warning"]


def clients(rounds, folder):
    """Values of 0.5 to 4 MB are lengthened and read, each in a key of its own that then goes."""
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as line:
        for _ in range(1000):
            if line.connect_ex(str(path)) == 0:
                break
            time.sleep(0.01)
        replies = line.makefile("rb")

        def ask(*words):
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            line.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            first = replies.readline()
            return replies.read(int(first[1:]) + 2) if first.startswith(b"$") else first

        for _ in range(rounds):
            for size in (500_000, 1_000_000, 4_000_000):
                ask("SETRANGE", f"key{size}", 0, b"x" * size)
                ask("SETRANGE", f"key{size}", size, b"y" * (size // 2))
                if len(ask("GET", f"key{size}")) != size + size // 2 + 2:
                    raise SystemExit("redis has not what it was given")
                ask("DEL", f"key{size}")
        line.sendall(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")


# Debian's redis is linked with jemalloc: the C library is put before that.
COMMANDS = (
    Command("octave_matrices", "octave, products of matrices", ("octave-cli",), "octave", octave("B = A * A; C = B + A; s = C(1, 1)")),
    Command("octave_vectors", "octave, vectors of 20 MB", ("octave-cli",), "octave", octave("w = v * 2 + 1; s = w(1)")),
    Command("r_vectors", "R, vectors", ("Rscript",), "r-base-core", in_r("v <- runif(1e6)", "w <- sqrt(v * 2 + 1); s <- sum(w[w > 1.2])")),
    Command("r_lm", "R, linear models", ("Rscript",), "r-base-core",
            in_r("d <- data.frame(x = runif(1e5), y = runif(1e5), z = runif(1e5))", "m <- lm(z ~ x + y, d); s <- coef(m)[1]")),
    Command("r_matrices", "R, matrices", ("Rscript",), "r-base-core", in_r("m <- matrix(runif(360000), 600)", "s <- sum(crossprod(m) + t(m))")),
    Command("imagemagick", "ImageMagick", ("convert-im6.q16", "magick", "convert"), "imagemagick", pictures),
    Command("ffmpeg", "ffmpeg, filters", ("ffmpeg",), "ffmpeg", film, empty=False),
    Command("redis", "redis, large values", ("redis-server",), "redis-server", server, drive=clients, behind="libc.so.6"),
    Command("gcc", "gcc, a large file", ("g++",), "g++", source),
    Command("povray", "povray, a picture", ("povray",), "povray", scene, empty=False),
    Command("sqlite", "sqlite, large values", ("sqlite3",), "sqlite3", queries),
    Command("perl", "perl with PDL", ("perl",), "pdl", perl),
)


# Starts a program and tells what it used. A process' peak is at least what its parent had as it was started, so this one
# is small: 9 MiB.
STARTER = """
import os, sys
place, out = sys.argv[1], os.O_CREAT | os.O_WRONLY
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_OPEN, fd, place + "/" + str(fd), out, 0o600) for fd in (1, 2)])
_, status, used = os.wait4(pid, 0)
print(status, used.ru_minflt, used.ru_stime, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def run(command, rounds, environment):
    """What one process of the command used: page faults, seconds of system and processor time, its peak in MiB."""
    environment = dict(environment)
    if command.behind:
        environment["LD_PRELOAD"] = " ".join(filter(None, [environment.get("LD_PRELOAD"), command.behind]))
    settings = [f"{name}={value}" for name, value in environment.items() if os.environ.get(name) != value]
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        words = ["/usr/bin/env", *settings, *command.start(rounds, folder)]
        starter = subprocess.Popen([sys.executable, "-I", "-S", "-c", STARTER, folder, *words], stdout=subprocess.PIPE, text=True)
        if command.drive is not None:
            command.drive(rounds, pathlib.Path(folder))
        status, *used = starter.communicate()[0].split()
        if status != "0":
            raise SystemExit(f"{command.name}: {' '.join(words)[:300]} failed:\n"
                             f"{pathlib.Path(folder, '2').read_text(errors='replace')[-500:]}")
    return dict(zip(("faults", "system", "processor", "peak"), map(float, used)))
