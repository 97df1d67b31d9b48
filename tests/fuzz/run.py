"""Fuzz every target of this folder: `python tests/fuzz/run.py --seconds 30 [--seed N] [NAME...]`.

A target is a file ``fuzz_NAME.py`` with a function ``fuzz(data: bytes)``. It may raise what a peer or a user can cause
(every `EntrepotError` but `Fault`); anything else is a finding. An optional ``CORPUS`` of ``bytes`` gives it examples.

Inputs are mutations of the corpus. One that reaches a line of entrepot which no other reached joins the corpus, so the
plain build is fuzzed: compiled modules have no lines to watch. Words come from the constants of the loaded modules.
A finding is printed with the input that caused it, is kept in ``build/fuzz/``, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import EntrepotError, Fault

HERE = Path(__file__).resolve().parent
FINDINGS = HERE.parents[1] / "build" / "fuzz"
INPUT_OCTETS_MAX = 4096  # decoders keep their own limits far lower in their targets; longer inputs only cost time
EDGES = [bytes([octet]) * count for octet in (0, 1, 0x0A, 0x7F, 0x80, 0xFF) for count in (1, 2, 4, 8)]


class Coverage:
    """The lines of entrepot that ran, watched through `sys.settrace`."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] = set()
        self.ours: dict[CodeType, bool] = {}
        self.grew = False

    def call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Decide once for each function whether its lines are watched."""
        code = frame.f_code
        if code not in self.ours:
            self.ours[code] = "/entrepot/" in code.co_filename
        return self.line if self.ours[code] else None

    def line(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        """Note one line."""
        place = (frame.f_code, frame.f_lineno)
        if place not in self.seen:
            self.seen.add(place)
            self.grew = True
        return self.line


def constants(code: CodeType) -> Iterator[bytes]:
    """Yield the short texts and octets that a piece of code knows."""
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from constants(value)
        for each in value if isinstance(value, tuple | frozenset) else (value,):
            if isinstance(each, str | bytes) and 0 < len(each) <= 24:
                yield each.encode() if isinstance(each, str) else each


def words() -> list[bytes]:
    """Return the vocabulary of every loaded module of entrepot, in a fixed order."""
    found: dict[bytes, None] = dict.fromkeys(EDGES)
    for name, module in sorted(sys.modules.items()):
        if name.startswith("entrepot."):
            for value in [*vars(module).values(), *(m for c in classes(module) for m in vars(c).values())]:
                if isinstance(value, FunctionType):
                    found |= dict.fromkeys(sorted(constants(value.__code__)))
                elif isinstance(value, str | bytes) and 0 < len(value) <= 24:
                    found[value.encode() if isinstance(value, str) else value] = None
    return list(found)


def classes(module: ModuleType) -> list[type]:
    """Return the classes that a module defines."""
    return [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]


def mutated(chance: random.Random, corpus: list[bytes], vocabulary: list[bytes]) -> bytes:
    """Return a variation of one or two inputs."""
    data = bytearray(chance.choice(corpus))
    for _ in range(1 << chance.randrange(4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0:
                data[at:at] = chance.choice(vocabulary)
            case 1:
                data[at:at] = b" " + chance.choice(vocabulary) + b" "
            case 2:
                data[at : at + chance.randrange(1, 9)] = b""
            case 3:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 4:
                data[at : at + 1] = bytes([(data[at] ^ (1 << chance.randrange(8))) if at < len(data) else 0])
            case 5:
                other = chance.choice(corpus)
                start = chance.randrange(len(other) + 1)
                data[at:at] = other[start : start + chance.randrange(64)]
            case _:
                data[at:at] = data[at : at + chance.randrange(32)]
    return bytes(data[:INPUT_OCTETS_MAX])


def finding(name: str, data: bytes) -> None:
    """Keep and print the input that raised the exception which is being handled."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    place = FINDINGS / f"{name}-{len(list(FINDINGS.iterdir()))}.bin"
    place.write_bytes(data)
    print(f"{name}: FOUND with {data!r}\n  kept as {place}\n{traceback.format_exc()}", flush=True)


def run(path: Path, seconds: float, seed: int) -> bool:
    """Fuzz one target for ``seconds``; return whether nothing was found."""
    name = path.stem.removeprefix("fuzz_")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target: Callable[[bytes], None] = module.fuzz
    chance, coverage, vocabulary = random.Random(seed), Coverage(), words()
    corpus: list[bytes] = [b"", *getattr(module, "CORPUS", [])]
    waiting = list(corpus)
    runs, clean, end = 0, True, time.monotonic() + seconds
    while time.monotonic() < end and clean:
        data = waiting.pop() if waiting else mutated(chance, corpus, vocabulary)
        coverage.grew = False
        sys.settrace(coverage.call)
        try:
            target(data)
        except Fault:
            sys.settrace(None)
            clean = False
            finding(name, data)
        except EntrepotError:
            pass
        except Exception:
            sys.settrace(None)
            clean = False
            finding(name, data)
        finally:
            sys.settrace(None)
        runs += 1
        if coverage.grew:
            corpus.append(data)
    state = "clean" if clean else "FAILED"
    print(
        f"{name}: {state} after {runs} inputs, {len(corpus)} kept, {len(coverage.seen)} lines, seed {seed}", flush=True
    )
    return clean


def main() -> int:
    """Fuzz the targets that were named, or all."""
    parser = argparse.ArgumentParser(description="Fuzz the decoders of entrepot.")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1, help="the same seed tries the same inputs")
    parser.add_argument("names", nargs="*", help="targets; all of them when none is named")
    options = parser.parse_args()
    if is_compiled():
        parser.error("fuzzing watches lines: run it on the plain build, PYTHONPATH=src")
    targets = {path.stem.removeprefix("fuzz_"): path for path in sorted(HERE.glob("fuzz_*.py"))}
    unknown = [name for name in options.names if name not in targets]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(targets)}")
    results = [run(targets[name], options.seconds, options.seed) for name in options.names or targets]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
