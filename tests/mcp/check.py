#!/usr/bin/env python3
"""The acceptance of `lazaret mcp serve`: real servers and clients, direct and through the proxy. See README.md.

    tests/mcp/check.py --lazaret FILE [--cache DIR] [--as-user UID] [--section a,d] [--direct-only]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lazaret", help="the program to check")
    parser.add_argument("--cache", default=os.path.join(ROOT, "target/mcp"), help="where servers and clients are installed")
    parser.add_argument("--as-user", type=int, help="as root: run everything as this user instead")
    parser.add_argument("--section", default="", help="letters of the sections, all when left out")
    parser.add_argument("--only", help="a regular expression: checks whose name does not match are not shown")
    parser.add_argument("--direct-only", action="store_true", help="only what can be said about the servers themselves")
    parser.add_argument("--base", help="where the stages are built; must be visible to --as-user")
    parser.add_argument("--keep", action="store_true", help="leave the stages for a look")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if not given.lazaret and not given.direct_only:
        parser.error("--lazaret is needed, or --direct-only")
    return given


class Suite:
    """What was asked for, and where things are."""

    def __init__(self, given):
        from acceptance.stage import Shelf
        self.lazaret = os.path.abspath(given.lazaret) if given.lazaret else None
        self.shelf, self.user, self.direct_only, self.keep = Shelf(os.path.abspath(given.cache)), given.as_user, given.direct_only, given.keep
        self.servers = [name for name in os.environ.get("LAZARET_SERVERS", "").split(",") if name]
        self.base = tempfile.mkdtemp(prefix="lazaret-mcp-", dir=given.base or self.place())
        os.chmod(self.base, 0o755)

    def place(self):
        """Not below /tmp or /var/tmp, of which a sandbox has its own: there, everything would be hidden anyway."""
        if os.geteuid() == 0:
            return "/srv"
        path = os.path.join(ROOT, "target")
        os.makedirs(path, exist_ok=True)
        return path

    def as_user(self):
        """Words in front of a command that is not started by us."""
        if self.user is None or os.geteuid() != 0:
            return []
        return ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", "--"]

    def wanted(self, name):
        return not self.servers or name in self.servers

    def close(self):
        if not self.keep:
            shutil.rmtree(self.base, ignore_errors=True)


def main():
    given = arguments()
    python = os.path.join(os.path.abspath(given.cache), "venv/bin/python")
    if sys.prefix != os.path.dirname(os.path.dirname(python)):
        subprocess.run([os.path.join(HERE, "install"), given.cache], check=True, stdout=subprocess.DEVNULL)
        os.execv(python, [python, "-B", os.path.abspath(__file__), *sys.argv[1:]])
    sys.path.insert(0, HERE)
    from acceptance import sections
    from acceptance.record import Table
    table = Table(given.only and re.compile(given.only), given.verbose)
    suite = Suite(given)
    try:
        for letter, section in sections():
            if not given.section or letter in given.section.split(","):
                section(suite, table)
    finally:
        suite.close()
    sys.exit(table.end())


if __name__ == "__main__":
    main()
