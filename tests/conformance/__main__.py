"""Runs conformance cases against eager; exits with 1 on anything unexpected.

A case is `name|dtype|mode`. Results go to results/conformance/ and a second run goes on where the
first stopped; --fresh starts anew. One process runs one case at a time: use --shard for more.
"""

import argparse
import functools
import random
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import torch

from tests.conformance.calls import Settings
from tests.conformance.refusals import read_refusals, stale, unlisted
from tests.conformance.report import failures, summary
from tests.conformance.results import Store
from tests.conformance.suite import GROUPS, Result, list_cases, run_case
from tests.conformance.target import load_target
from tests.conformance.worker import Worker

PROGRESS_SECONDS = 30


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few dtypes and samples (the default)")
    size.add_argument("--full", action="store_true", help="all dtypes, modes and samples")
    add = parser.add_argument
    add(
        "--target",
        default="fulgurite",
        help="fulgurite, fused_cpu, dynamo, eager or module:attribute",
    )
    add("--group", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}; comma-separated")
    add("--only", default="", help="a regular expression on case names")
    add("--mode", default="", help="modes, comma-separated")
    add("--shard", default="0/1", help="i/n: every n-th case, from the i-th on")
    add("--seed", type=int, default=0)
    add("--samples", type=int, help="of the database for a case; 0: all (quick: 2, full: 0)")
    add(
        "--round-trip",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also run the printed text of every trace",
    )
    add("--timeout", type=float, default=120, help="processor seconds for a case")
    add("--budget", type=float, default=0, help="stop after so many seconds; 0: never")
    add("--out", type=Path, help="the file of results")
    add("--fresh", action="store_true", help="discard earlier results")
    add("--retry", action="store_true", help="run again what has failed or was refused")
    add("--list", action="store_true", help="print the cases and stop")
    add("--in-process", action="store_true", help="no workers: for a debugger")
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    base = Settings(seed=options.seed, round_trip=options.round_trip)
    if options.samples is not None:
        return replace(base, samples=options.samples, other_samples=options.samples)
    return replace(base, samples=0, other_samples=0) if options.full else base


def _chosen(options: argparse.Namespace, cases: list[str]) -> list[str]:
    modes = set(filter(None, options.mode.split(",")))
    cases = [c for c in cases if re.search(options.only, c)]
    cases = [c for c in cases if not modes or c.rsplit("|", 1)[1] in modes]
    random.Random(options.seed).shuffle(cases)  # a run cut short is then still a fair sample
    i, n = map(int, options.shard.split("/"))
    return cases[i::n]


def _store(options: argparse.Namespace, settings: Settings) -> Store:
    size = "full" if options.full else "quick"
    target = re.sub(r"\W+", "_", options.target)
    shard = "" if options.shard == "0/1" else "_" + options.shard.replace("/", "of")
    path = options.out or Path("results/conformance") / f"{target}_{size}{shard}.jsonl"
    torch_version = str(torch.__version__)
    return Store(path, {**asdict(settings), "target": options.target, "torch": torch_version})


def _progress(cases: list[str]) -> Iterable[str]:
    start = last = time.monotonic()
    for i, case in enumerate(cases):
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            print(f"  {i} of {len(cases)} in {last - start:.0f} s", file=sys.stderr, flush=True)
        yield case


def _run(options: argparse.Namespace, settings: Settings, cases: list[str], store: Store) -> None:
    load = functools.partial(load_target, options.target)
    end = time.monotonic() + options.budget if options.budget else float("inf")
    if options.in_process:
        run, stop = functools.partial(run_case, load(), settings=settings), lambda: None
    else:
        worker = Worker(load, settings, store.path.with_suffix(".log"), options.timeout)
        run, stop = worker.run, worker.stop
    try:
        for case in _progress(cases):
            if time.monotonic() > end:
                print("stopped by --budget: run again to go on", file=sys.stderr)
                break
            store.add(run(case))
    finally:
        stop()


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    settings = _settings(options)
    everything = list_cases(tuple(options.group.split(",")), options.full)
    cases = _chosen(options, everything)
    if options.list:
        print("\n".join(cases))
        return 0
    store = _store(options, settings)
    known = store.open(options.fresh)
    if options.retry:
        known = {k: r for k, r in known.items() if r.status in ("pass", "skip")}
    _run(options, settings, [c for c in cases if c not in known], store)
    everyone = store.open(fresh=False)
    results: list[Result] = [everyone[c] for c in cases if c in everyone]
    entries = read_refusals() if options.target in ("fulgurite", "fused_cpu") else []
    new, old = unlisted(entries, results), stale(entries, everything, results)
    text = summary(f"{options.target}, torch {torch.__version__}", results, new, old)
    print(text)
    store.path.with_suffix(".txt").write_text(text + "\n")
    return int(bool(failures(results) or new or old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
