"""The table of what was checked. A check is a line; nothing is left out silently."""

import contextlib
import os
import time
import traceback

MUST_ENFORCE = os.environ.get("LAZARET_MUST_ENFORCE") == "1"


class Wrong(Exception):
    """A check that does not hold; the message says what was seen."""


class Unable(Exception):
    """Cannot be checked here; the message says why."""


def expect(holds, seen):
    if not holds:
        raise Wrong(seen if isinstance(seen, str) else repr(seen))


def same(one, other, of="it"):
    """Two values are the same; else the first place where they are not."""
    place = difference(one, other)
    if place:
        raise Wrong(f"{of} differs at {place}")


def difference(one, other, path="$"):
    if type(one) is not type(other) and not (isinstance(one, (int, float)) and isinstance(other, (int, float))):
        return f"{path}: {brief(one)} and {brief(other)}"
    if isinstance(one, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                missing = "first" if key not in one else "second"
                return f"{path}.{key}: only in the {'second' if missing == 'first' else 'first'}: {brief((other if key not in one else one)[key])}"
            if found := difference(one[key], other[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(one, list):
        if len(one) != len(other):
            return f"{path}: {len(one)} and {len(other)} entries: {brief(one)} and {brief(other)}"
        for index, (left, right) in enumerate(zip(one, other)):
            if found := difference(left, right, f"{path}[{index}]"):
                return found
        return None
    return None if one == other else f"{path}: {brief(one)} and {brief(other)}"


def brief(value, room=300):
    text = repr(value)
    return text if len(text) <= room else text[:room] + "…"


class Table:
    def __init__(self, only=None, verbose=False):
        self.passed, self.failed, self.unable = 0, [], []
        self.only, self.verbose, self.heading = only, verbose, ""

    def section(self, letter, title):
        self.heading = letter
        print(f"\n== {letter}. {title}", flush=True)

    def shows(self, name):
        return not self.only or bool(self.only.search(f"{self.heading}: {name}"))

    @contextlib.contextmanager
    def check(self, name):
        """What happens inside must not fail."""
        if not self.shows(name):
            # A generator cannot leave its body out, so a filtered check still runs, only unseen.
            with contextlib.suppress(Exception):
                yield
            return
        began = time.monotonic()
        try:
            yield
        except Unable as error:
            self.unable.append(f"{self.heading}: {name}")
            self.line("FAIL" if MUST_ENFORCE else "SKIP", name, str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: B036 exception groups of the client library too
            self.failed.append(f"{self.heading}: {name}")
            self.line("FAIL", name, self.story(error))
            if self.verbose:
                traceback.print_exc()
        else:
            self.passed += 1
            took = time.monotonic() - began
            self.line("PASS", name, f"{took:.1f} s" if took > 5 else "")

    def story(self, error):
        inner = error
        while isinstance(inner, BaseExceptionGroup) and inner.exceptions:
            inner = inner.exceptions[0]
        text = " ".join(str(inner).split()) or repr(inner)
        return text if isinstance(inner, Wrong) else f"{type(inner).__name__}: {text}"

    def line(self, outcome, name, more):
        print(f"{outcome}  {name}" + (f"  -- {more[:700]}" if more else ""), flush=True)

    def end(self):
        failed = len(self.failed) + (len(self.unable) if MUST_ENFORCE else 0)
        if self.failed:
            print("\nfailed:")
            for name in self.failed:
                print(f"  {name}")
        if self.unable:
            print("\nnot checked:")
            for name in self.unable:
                print(f"  {name}")
        print(f"\n{self.passed} passed, {failed} failed" + (f", {len(self.unable)} not checked" if self.unable and not MUST_ENFORCE else ""))
        return 1 if failed else 0
