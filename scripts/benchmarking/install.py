"""Gets the peers and the tools, each by its own ordinary client, into one cache directory; system packages only as
root. What cannot be had is remembered with the reason."""

import json
import os
import shutil
import subprocess

from .processes import last_line, note

# Program: Debian package.
PACKAGES = {
    "bwrap": "bubblewrap", "firejail": "firejail", "runc": "runc", "socat": "socat", "rg": "ripgrep", "npm": "npm",
    "gcc": "gcc", "make": "make", "nginx": "nginx-light", "curl": "curl", "wrk": "wrk", "ab": "apache2-utils",
}
CRATES = {"hakoniwa": "hakoniwa-cli", "sandlock": "sandlock-cli", "nono": "nono-cli"}
# What a crate links to: file that shows it is there, package.
LIBRARIES = {"hakoniwa": [("seccomp.h", "libseccomp-dev")]}
SRT = "@anthropic-ai/sandbox-runtime"


class Missing(Exception):
    """Not to be had here; the message is the reason, one line."""


class Shelf:
    """Where peers are found, and installed if they may be."""

    def __init__(self, directory, only_from_path):
        self.directory, self.only_from_path = os.path.abspath(directory), only_from_path
        # Servers and mount tools are often not on an ordinary user's path.
        self.path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
        self.asked, self.updated = {}, False

    def which(self, program):
        found = shutil.which(program, path=self.path)
        return found and os.path.abspath(found)

    def run(self, command, **more):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "npm_config_cache": f"{self.directory}/npm-cache",
                       # A web server's package must not start its service.
                       "RUNLEVEL": "1", "SYSTEMD_OFFLINE": "1", **more}
        # Not here: the project's own settings for cargo and npm are not meant for the peers.
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.lower().startswith(("error", "e: ", "npm error"))]
            raise Missing(f"{command[0]} {command[1]} failed: {last_line(done.stderr or done.stdout) if not errors else errors[0][:300]}")

    def once(self, key, get):
        """The answer to every question is kept, also a refusal."""
        if key not in self.asked:
            try:
                self.asked[key] = get()
            except (Missing, OSError) as error:
                self.asked[key] = Missing(str(error))
        if isinstance(self.asked[key], Missing):
            raise self.asked[key]
        return self.asked[key]

    def program(self, name):
        """A program of the system."""
        return self.once(name, lambda: self.which(name) or self.from_package(name))

    def from_package(self, name):
        self.install_package(PACKAGES[name], f"{name} is not on PATH")
        return self.which(name) or self.refuse(f"{PACKAGES[name]} is installed, but {name} is not on PATH")

    def refuse(self, reason):
        raise Missing(reason)

    def install_package(self, package, why):
        if self.only_from_path:
            self.refuse(why)
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            self.refuse(f"{why}; it is installed only by root with apt-get")
        note(f"-- installing {package}")
        if not self.updated:
            self.updated = True
            try:
                self.run(["apt-get", "update", "-qq"])
            except Missing as error:
                note(f"   {error}; going on with the lists that are there")
        self.run(["apt-get", "install", "-y", "-qq", "--no-remove", "--no-install-recommends", package])

    def crate(self, name):
        """A program that comes as a crate."""
        return self.once(name, lambda: self.from_crate(name))

    def from_crate(self, name):
        there = f"{self.directory}/cargo/bin/{name}"
        if os.path.exists(there) and not self.only_from_path:
            return there
        if on_path := self.which(name):
            return on_path
        if self.only_from_path:
            self.refuse(f"{name} is not on PATH")
        cargo = self.which("cargo") or self.refuse("cargo is not on PATH")
        for header, package in LIBRARIES.get(name, []):
            if not os.path.exists(f"/usr/include/{header}"):
                self.install_package(package, f"{header} is missing")
        note(f"-- building {CRATES[name]} (this takes minutes)")
        home = self.cargo_home()
        self.run([cargo, "install", "--locked", "--root", f"{self.directory}/cargo", "--target-dir",
                  f"{self.directory}/cargo-target", CRATES[name]], CARGO_HOME=home)
        shutil.rmtree(f"{self.directory}/cargo-target", ignore_errors=True)
        return there if os.path.exists(there) else self.refuse(f"{CRATES[name]} has no program {name}")

    def cargo_home(self):
        """Downloads stay out of the home directory; the registry that is configured there is used all the same."""
        own = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
        home = f"{self.directory}/cargo-home"
        os.makedirs(home, exist_ok=True)
        for name in ["config.toml", "config"]:
            if os.path.exists(f"{own}/{name}") and not os.path.lexists(f"{home}/{name}"):
                os.symlink(f"{own}/{name}", f"{home}/{name}")
        return home

    def srt(self):
        """srt's entry and a Node that it supports: (node, cli.js, version)."""
        return self.once("srt", self.from_npm)

    def from_npm(self):
        for needed in ["bwrap", "socat", "rg"]:
            self.program(needed)
        modules = f"{self.directory}/srt/node_modules"
        if self.only_from_path:
            cli = os.path.realpath(self.which("srt") or self.refuse("srt is not on PATH"))
            node = self.which("node") or self.refuse("node is not on PATH")
        else:
            cli, node = f"{modules}/{SRT}/dist/cli.js", f"{modules}/.bin/node"
            if not os.path.exists(cli):
                npm = self.program("npm")
                note(f"-- installing {SRT} and a Node for it")
                os.makedirs(f"{self.directory}/srt", exist_ok=True)
                install = [npm, "install", "--no-audit", "--no-fund", "--prefix", f"{self.directory}/srt"]
                self.run([*install, "node@22"])
                # By that Node: npm chooses the newest version for the Node that it runs on.
                self.run([*install, f"{SRT}@latest"], PATH=f"{modules}/.bin{os.pathsep}{self.path}")
        package = os.path.join(os.path.dirname(os.path.dirname(cli)), "package.json")
        with open(package) as file:
            return os.path.realpath(node), cli, json.load(file)["version"]
