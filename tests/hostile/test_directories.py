"""Commands in a directory full of traps: whatever lies there, nothing of it is executed unless it is named.

Every module that could be imported, of Python and of all that is installed, has a namesake there that leaves
a mark when it is executed. Each command runs once, and all that is asserted of it is read from that run.
"""

import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest
import typer

from tests.cli.test_submission import free_ports
from tests.support.proxy import recording_proxy
from ttray.cli.app import COMMANDS as EXISTING
from ttray.cli.app import app

ROOT = Path(__file__).parents[2]
INSTALLED = {name for name in packages_distributions() if name.isidentifier()}
NAMESAKES = INSTALLED | set(sys.stdlib_module_names) | {"sitecustomize", "usercustomize", "ttray", "conftest"}
MARK = """
with open({marks!r}, "a") as file:
    file.write(__name__ + "\\n")
"""
TRAP = MARK + 'raise ImportError("a trap")'
EVIL = MARK + "def start(): pass"
PLUGIN = """
[gymnasium.envs]
__root__ = evil:start
[torch.backends]
evil = evil:start
[matplotlib.backend]
evil = evil
"""
MINE = """
import gymnasium, matplotlib, numpy, torch
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Mine-v0", CartPoleEnv)
"""
SMALL = ("--horizon", "10", "--budget", "60")
CART = ("--env", "CartPole-v1", *SMALL)
REACHER = ("--env", "Reacher-v5", *SMALL)  # MuJoCo starts an interpreter
ONCE = ("--iterations", "1", "--directory")
COMMANDS = {
    "plan": ("--preset", "dam-fast"),
    "train": (*REACHER, *ONCE, "trained", "--env-runners", "1"),
    "evaluate": ("trained", "--to", "9", "--directory", "kept", "--plot", "narrowing.png"),
    "rank": ("trained", "trained/checkpoints/000001", "--max-budget", "60", "--directory", "ranked"),
    "export": ("trained", "--to", "onnx"),
    "report": ("trained",),
    "collect": ("batch.parquet", "--policy", "trained"),
    "ope": ("batch.parquet", "--policy", "trained", "--max-reward", "9"),
    "compare": (*CART, *ONCE, "compared", "--seeds", "1", "--env-runners", "0"),
    "soak": (*CART, "--minutes", "0.001", "--nodes", "0", "--env-runners", "1"),
    "submit": ("--working-dir", "sent", "--", "plan"),
    "service start": ("lab", "--env-runners", "1"),
    "service status": ("lab",),
    "service stop": ("lab",),
}
# These load next to nothing, or show how a process of its own begins.
ALONE = {"plan", "evaluate", "report", "submit"}


# Arguments, by what they are in these commands.
RUN, POLICY, HOME = {"trained": "--directory"}, {"trained": "--policy"}, {"~/.ttray/services": "~/.ttray"}
OF_SERVICE = HOME | {f"~/.ttray/services/lab.{suffix}": "~/.ttray" for suffix in ("json", "log")}
PLACES = {
    "plan": {},
    "train": RUN,
    "evaluate": {"trained": "POLICY", "kept": "--directory", "narrowing.png": "--plot"},
    "rank": {"trained": "POLICY", "ranked": "--directory"},
    "export": {"trained": "POLICY", "policy.onnx": "--output"},
    "report": {"trained": "RUNS", "report.html": "--html"},
    "collect": POLICY | {"batch.parquet": "OUTPUT"},
    "ope": POLICY | {"batch.parquet": "TABLES"},
    "compare": {"compared": "--directory"},
    "soak": {"runs/soak-CartPole-v1-TTPOIS-0.99-0": "--directory"},
    "submit": {"sent": "--working-dir"},
    "service start": OF_SERVICE,
    "service status": OF_SERVICE,
    "service stop": OF_SERVICE,
}
# Of Ray and Matplotlib; the page says so below its table.
AT_HOME = {"~/ray_bootstrap_config.yaml", "~/.ray/auth_token", "~/.config/matplotlib", "~/.cache/matplotlib"}
TTRAY = (Path(sys.executable).with_name("ttray"),)
UNSET = ("PYTHONPATH", "RAY_ADDRESS", "RAY_AUTH_TOKEN", "TTRAY_RUNS", "no_proxy", "NO_PROXY")
SYSTEM = ("/etc", "/usr", "/lib", "/lib64", "/proc", "/sys", "/dev")
INSTALLATION = {
    *SYSTEM,
    *(os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, matplotlib.get_cachedir())),
    sys.prefix,
    *(place for place in sys.path if "site-packages" in place),
    matplotlib.get_cachedir(),
}
SCRATCH = Path(tempfile.gettempdir())  # Ray's session, and files of a moment


class Traps:
    """A directory of traps, and what commands left of them."""

    def __init__(self, place, names=NAMESAKES, home=None):
        self.directory, self.home, self.marks = place / "stranger", home or place / "home", place / "marks"
        self.directory.mkdir()
        self.home.mkdir(exist_ok=True)
        self.environ = {key: value for key, value in os.environ.items() if key not in UNSET} | {
            "HOME": str(self.home),
            "MPLCONFIGDIR": matplotlib.get_cachedir(),  # the fonts of this machine are known there
            "PYTHONPATH": str(ROOT / "tests" / "support" / "audit"),
        }
        self._parent = None
        for name in names:
            (self.directory / f"{name}.py").write_text(TRAP.format(marks=str(self.marks)))
        (self.directory / "evil.py").write_text(EVIL.format(marks=str(self.marks)))
        plugin = self.directory / "evil-1.0.dist-info"
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        (plugin / "entry_points.txt").write_text(PLUGIN)
        (self.directory / "pyproject.toml").write_text('[tool.ttray]\nenvironment = "evil:X-v0"\n')
        (self.directory / ".env").write_text("PYTHONSTARTUP=evil.py\nTTRAY_RUNS=elsewhere\n")
        (self.directory / "matplotlibrc").write_text("backend: module://evil\ntext.usetex: True\n")
        (self.directory / "mine.py").write_text(MINE)
        (self.directory / "sent").mkdir()
        (self.directory / "sent" / "code.py").touch()

    def run(self, name, *arguments, by=TTRAY, **environ):
        """How a command ended, what its interpreters did, and what is new in the directory and at home."""
        log, before = self.log(name), self._files()
        done = subprocess.run(
            [*by, *name.split(), *arguments],
            cwd=self.directory,
            env=self.environ | environ | {"AUDIT_LOG": str(log)},
            capture_output=True,
            text=True,
            timeout=250,
        )
        return done, self.seen(name), self._files() - before

    def fork(self, name, *arguments, **environ):
        """The same of a fork of an interpreter that has loaded most of what commands need."""
        log, before = self.log(name), self._files()
        if self._parent is None:
            self._parent = subprocess.Popen(
                [sys.executable, "-P", ROOT / "tests" / "support" / "forked_commands.py"],
                cwd=self.directory,
                env=self.environ | {"AUDIT_LOG": str(self.log("parent"))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        words = [*name.split(), *arguments]
        self._parent.stdin.write(json.dumps([words, environ, str(log)]) + "\n")
        self._parent.stdin.flush()
        code = int(self._parent.stdout.readline())
        said, paths = (Path(f"{log}.{what}").read_text() for what in ("said", "paths"))
        # What was loaded before cannot be loaded from elsewhere: so it is asked where the command would look.
        assert not {str(self.directory), ""} & set(json.loads(paths))
        done = SimpleNamespace(returncode=code, stdout=said, stderr="")
        return done, self.seen("parent") + self.seen(name), self._files() - before

    def log(self, name):
        return self.directory.parent / f"{name}.log"

    def seen(self, name):
        return [json.loads(line) for line in self.log(name).read_text().splitlines()]

    def close(self):
        if self._parent is not None:
            self._parent.communicate(timeout=60)

    def _files(self):
        places = (*self.directory.iterdir(), *self.directory.glob("runs/*"), *self.home.glob("*/*"))
        return {place for place in places if place.name != "runs"}

    def sprung(self):
        return self.marks.read_text().split() if self.marks.exists() else []


@pytest.fixture(scope="module")
def traps(tmp_path_factory):
    found = Traps(tmp_path_factory.mktemp("traps"))
    yield found
    found.close()


@dataclass
class Told:
    """A command, what its interpreters did, what it has made, and what proxies were asked for."""

    name: str
    seen: list
    made: set
    asked: list

    def __post_init__(self):
        self.places = PLACES[self.name]

    def all(self, what):
        return [found for event in self.seen if event is not None for done, found in [event] if done == what]


def run(name, traps):
    arguments = COMMANDS[name]
    if name == "submit":
        (port,) = free_ports(1)
        arguments = ("--address", f"127.0.0.1:{port}", *arguments)
    with recording_proxy() as (proxy, asked):
        done, seen, made = (traps.run if name in ALONE else traps.fork)(name, *arguments, **proxy)
    # Nobody is there to take a job; so few rows may prove nothing.
    assert done.returncode in {"submit": (1,), "ope": (0, 3)}.get(name, (0,)), done.stdout + done.stderr
    return Told(name, seen, made, asked)


@pytest.fixture(scope="module")
def service(traps, tmp_path_factory):
    """What `ttray service` does by its three commands; and, on its Ray, a command that names a module."""
    found = {"service start": run("service start", traps)}
    try:
        found["service status"] = run("service status", traps)
        found["own module"] = collect_in_own_environment(tmp_path_factory.mktemp("own"), traps.home)
    finally:
        found["service stop"] = run("service stop", traps)
    return found


def collect_in_own_environment(place, home):
    """By `python -m ttray`, with a worker: what a module of one's own is found before, and after."""
    # It is before packages without an __init__.py, such as Google's, and before an editable ttray.
    there = {name for name in NAMESAKES - {"ttray"} if (spec := PathFinder.find_spec(name)) and spec.origin}
    # And Python looks here first for what it needs to begin with ttray.
    begin = [sys.executable, "-c", "import runpy, ttray.__main__, sys; print(*sys.modules)"]
    begun = subprocess.run(begin, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    traps = Traps(place, there - set(begun), home)
    address = json.loads((home / ".ttray/services/lab.json").read_text())["address"]
    joining = {"RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
    words = ("mine.parquet", "--env", "mine:Mine-v0", *SMALL, "--env-runners", "1")
    done, seen, _ = traps.run("collect", *words, by=(sys.executable, "-m", "ttray"), **joining)
    assert done.returncode == 0, done.stderr
    return traps, seen


@pytest.fixture(scope="module", params=COMMANDS)
def told(request, traps):
    """A command of each name, in this order."""
    name = request.param
    return request.getfixturevalue("service")[name] if name.startswith("service ") else run(name, traps)


def commands_of_the_help():
    """Those of `ttray --help`, and of the help of each that has others."""
    every = typer.main.get_command(app).commands
    for name in EXISTING:
        below = getattr(every[name], "commands", {"": every[name]})
        yield from ((f"{name} {each}".strip(), command) for each, command in below.items())


def test_every_command_of_the_help_is_tried():
    assert {name for name, _ in commands_of_the_help()} == set(COMMANDS)


def test_nothing_in_a_directory_is_executed(told, traps):
    assert traps.sprung() == []
    executed = [path for path in told.all("executed") if not path.startswith("<")]
    assert len(executed) > 50  # the hook has seen something
    assert [path for path in executed if not Path(path).is_relative_to(ROOT) and not is_installed(path)] == []


# What the page calls things that commands do.
NOTHING, RAY, LOOPBACK, STAYS = "nothing", "Ray", "loopback, Ray", "a process that stays"
JOB = "the command, the token, `--working-dir`; to `--address`"


def documented(command):
    """The cells of a command's row: what it sends, where it listens, what it reads, writes, starts, runs."""
    text = (ROOT / "docs" / "reference" / "security.md").read_text()
    (row,) = re.findall(rf"^\| `{command}` \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in row.split(" | ")]


def words(found):
    return ", ".join(f"`{word}`" for word in sorted(found)) or NOTHING


def is_installed(path):
    return any(Path(path).is_relative_to(place) for place in INSTALLATION)


def test_the_page_says_what_a_command_sends_and_to_whom(told):
    strangers = [where for where in told.all("called") if not ipaddress.ip_address(where[0]).is_loopback]
    names = {host for host, _ in told.all("asked for")}
    assert strangers == []
    assert names <= {"127.0.0.1", "localhost", None}
    assert told.asked == []
    assert documented(told.name)[0] == (JOB if told.name == "submit" else NOTHING)
    assert told.name != "submit" or told.all("called")


def test_the_page_says_where_a_command_listens(told):
    # urllib3 binds a socket for a moment, to learn whether there is IPv6.
    found = {address for address, port in told.all("listened") if (address, port) != ("::1", 0)}
    assert all(ipaddress.ip_address(address).is_loopback for address in found)
    assert documented(told.name)[1] == (LOOPBACK if found else NOTHING)


def test_the_page_says_what_a_command_reads(told, traps):
    found = set()
    for path in map(Path, filter(None, told.all("read"))):
        if path.is_relative_to(traps.directory):
            if path != traps.directory:
                first, *below = path.relative_to(traps.directory).parts
                found.add(f"{first}/{below[0]}" if first == "runs" else first)
        elif path.is_relative_to(traps.home):
            found.add(f"~/{path.relative_to(traps.home)}")
        else:
            assert is_installed(path) or path.is_relative_to(ROOT) or path.is_relative_to(SCRATCH), path
    if told.name == "ope":
        found.add("batch.parquet")  # Arrow opens it, which Python does not see
    found -= {"matplotlibrc"} | AT_HOME  # for which Matplotlib and Ray look by themselves
    named = {told.places.get(each, each) for each in found}
    assert documented(told.name)[2] == words(named)


def test_the_page_says_what_a_command_writes(told, traps):
    found = {
        path.relative_to(traps.directory).as_posix()
        if path.is_relative_to(traps.directory)
        else f"~/{path.relative_to(traps.home).as_posix()}"
        for path in told.made
    }
    assert documented(told.name)[3] == words({told.places.get(each, each) for each in found - AT_HOME})


def test_the_page_says_what_a_command_starts(told):
    started = told.all("started")
    stays = [each for each in started if each[1:4] == ["-P", "-m", "ttray.service.resident"]]
    programs = {
        (Path(name).name, *[each for each in arguments if each != "-u"][:1])
        for name, *arguments in (each for each in started if each not in stays)
    }
    # Of fonts and of GLFW's version; the page says so below its table.
    found = {program for program in programs if program[0] != "fc-list" and program[1] != "-c"}
    of_python = {"monitor.py", "log_monitor.py", "main.py", "default_worker.py", "agent.py"}
    of_ray = {"gcs_server", "raylet"} | of_python
    assert {name for name, *_ in found} <= {"gcs_server", "raylet", Path(sys.executable).name}
    assert all(program[0] in of_ray or Path(program[1]).name in of_ray for program in found)
    said = [RAY] * bool(found) + [STAYS] * bool(stays)
    assert documented(told.name)[4] == (", ".join(said) or NOTHING)


@pytest.mark.parametrize(("name", "command"), [*commands_of_the_help()])
def test_the_page_says_how_a_command_is_told_to_run_code(name, command):
    options = {option for parameter in command.params for option in parameter.opts}
    found = options & {"--env", "--module", "--trust"}
    assert documented(name)[5] == words(found)


def test_a_module_that_is_named_is_found_after_all_that_is_installed(service):
    traps, seen = service["own module"]
    assert ["read", str(traps.directory / "mine.py")] in seen
    assert set(traps.sprung()) <= {"evil"}  # who names a module of a directory takes the plug-ins of it
