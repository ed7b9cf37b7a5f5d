#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Proves that the ring's proofs can fail: each memory order weakened in turn, and each planted bug,
must turn a model red.

usage: mutate.py [--include DIR] [--cxx g++] [--jobs 2] [--work DIR] [PART_OF_A_NAME]

Prints one line a mutant and `killed N of N`; exits 1 if any survives, 2 if a planted bug no longer
fits the code or a mutant does not build.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CELLS = "penstock/detail/ring_cells.hpp"
BELL = "penstock/detail/bell.hpp"
WORD = "penstock/detail/ring_word.hpp"
RING = "penstock/ring.hpp"
LEASE = "penstock/ring_lease.hpp"
TURNS = "penstock/detail/turns.hpp"
FENCE = "penstock/fence.hpp"
# What is proved by another model than the ring's.
MODEL_OF = {TURNS: "turns_model.cpp", FENCE: "fence_model.cpp"}
# Seconds: many times what all models need. The checker itself ends threads that spin for ever.
LIMIT = 900

# name, file, text that stands there once, what it becomes, models that see it (parts of names)
PLANTED = [
    ("a slot is handed over without looking for sleepers", CELLS,
     "if constexpr (Parking::sleeps) {\n      // Pairs with look(). An",
     "if constexpr (false) {\n      // Pairs with look(). An", ["asleep at once"]),
    ("a sleeper is not woken", CELLS,
     "Parking::wake(word(ticket));", ";", ["asleep at once"]),
    ("sleepers are woken before the slot is handed over", CELLS,
     "if (word(ticket).exchange(next, Atomics::release) & Words::sleeper) {\n"
     "        Parking::wake(word(ticket));\n      }",
     "if (word(ticket).load(Atomics::relaxed) & Words::sleeper) {\n"
     "        Parking::wake(word(ticket));\n      }\n"
     "      word(ticket).exchange(next, Atomics::release);", ["asleep at once"]),
    ("a sleeper's bit is looked for and lost", CELLS,
     "if (word(ticket).exchange(next, Atomics::release) & Words::sleeper) {",
     "const std::uint32_t before = word(ticket).load(Atomics::relaxed);\n"
     "      word(ticket).store(next, Atomics::release);\n"
     "      if (before & Words::sleeper) {", ["asleep at once"]),
    ("a thread sleeps without saying so", CELLS,
     "Parking::sleep(word(ticket), seen | Words::sleeper);",
     "word(ticket).fetch_and(~Words::sleeper, Atomics::relaxed);\n"
     "            Parking::sleep(word(ticket), seen & ~Words::sleeper);", ["asleep at once"]),
    ("the state is not looked at before sleeping", CELLS,
     "if (over(ticket)) {\n        return false;", "if (false) {\n        return false;",
     ["empty ring, end", "empty ring, fail"]),
    ("the state is looked at before the word, not after", CELLS,
     "std::uint32_t seen = look(ticket);\n      if (ready(seen, lap(ticket))) {",
     "const bool early = over(ticket);\n      std::uint32_t seen = look(ticket);\n"
     "      if (!early && !ready(seen, lap(ticket))) {\n"
     "        word(ticket).fetch_or(Words::sleeper, Atomics::relaxed);\n"
     "        Parking::sleep(word(ticket), word(ticket).load(Atomics::relaxed));\n"
     "        continue;\n      }\n      if (ready(seen, lap(ticket))) {",
     ["empty ring, end", "empty ring, fail"]),
    ("the last slot does not hear of a change", CELLS,
     "for (std::size_t i = 0; i < slots_; ++i) {\n      // Pairs",
     "for (std::size_t i = 0; i + 1 < slots_; ++i) {\n      // Pairs",
     ["full ring", "empty ring, two takers, end"]),
    ("a change wakes nobody", CELLS,
     "Parking::wake(cells_[i].word);", ";", ["empty ring, end"]),
    ("a change leaves the words as they are", CELLS,
     "cells_[i].word.fetch_or(bit, Atomics::release)",
     "cells_[i].word.fetch_or(0, Atomics::release)", ["empty ring"]),
    ("the end is announced before it is there", CELLS,
     "std::uint64_t end = never;", "std::uint64_t end = never;\n    announce(Words::ended);",
     [], {"announce(Words::ended);\n    return true;": "return true;"}, ["empty ring, end"]),
    ("a stop is announced before it is there", CELLS,
     "Flow open = Flow::open;", "Flow open = Flow::open;\n    announce(Words::halted);",
     [], {"announce(Words::halted);\n    return true;": "return true;"}, ["empty ring, fail"]),
    ("the state does not know of the end", CELLS,
     "return flow == Flow::open && end_.load(Atomics::relaxed) != never ? Flow::ended : flow;",
     "return flow;", ["asleep at once"]),
    ("the last end counts", CELLS,
     "if (!end_.compare_exchange_strong(end, ticket, Atomics::relaxed, Atomics::relaxed)) {\n"
     "      return false;\n    }",
     "end_.store(ticket + end - never, Atomics::relaxed);", ["two ends"]),
    ("a stop is forgotten for the end", CELLS,
     "return flow == Flow::open && end_.load", "return end_.load",
     ["end and stop"]),
    ("a released slot stays in its lap", CELLS,
     "Words::make(lap(ticket) + 1, Words::free)", "Words::make(lap(ticket), Words::free)",
     ["asleep at once"]),
    ("the bell rings before the slot is handed over", CELLS,
     "Bell<Policy>* bell) noexcept {\n    if constexpr",
     "Bell<Policy>* bell) noexcept {\n    if (bell) {\n      bell->ring();\n    }\n"
     "    if constexpr",
     [], {"    if (bell) {\n      bell->ring();\n    }\n  }": "  }"}, ["bell, taker, known"]),
    ("the bell does not ring when slots change hands", CELLS,
     "    if (bell) {\n      bell->ring();\n    }\n  }", "    (void)bell;\n  }",
     ["bell, taker, end"]),
    ("the bell does not ring when the state changes", RING,
     "for (Bell* bell : {publish_bell_, release_bell_}) {",
     "for (Bell* bell : {release_bell_, release_bell_}) {", ["bell, taker"]),
    ("the bell rings before the end is there", RING,
     "if (cells_.end_at(ticket)) {\n      ring_bells();\n    }",
     "ring_bells();\n    cells_.end_at(ticket);", ["bell, taker, end"]),
    ("who waits for the bell does not say so", BELL,
     "word_.compare_exchange_strong(seen, count | sleeper,",
     "word_.compare_exchange_strong(seen, count,", ["bell"],
     {"Parking::sleep(word_, count | sleeper, limit);": "Parking::sleep(word_, count, limit);"}),
    ("the bell wakes nobody", BELL, "Parking::wake(word_);", ";", ["bell"]),
    ("the bell forgets its sleeper after the wake-up, not before", BELL,
     "word_.fetch_and(~sleeper, Atomics::relaxed);\n        Parking::wake(word_);",
     "Parking::wake(word_);\n        word_.fetch_and(~sleeper, Atomics::relaxed);", ["bell, rung"]),
    ("sleepers' bits change whose slot it is", WORD,
     "return (word & (lap_mask | state_mask)) == make(lap, free);",
     "return word == make(lap, free);", ["full ring, two", "roles swap", "one to one"]),
    ("a taker takes slots of any lap", WORD,
     "return (word & lap_mask) == make(lap, 0) && (word & state_mask) != free;",
     "return (word & state_mask) != free + (lap & 0);", ["one to many", "roles swap"]),
    ("two that try take the same ticket", RING,
     "if (side == Side::one) {\n      tickets.store",
     "if (side == Side::one || true) {\n      tickets.store",
     ["claims by trying", "takes by trying"]),
    ("a lease takes what another holds", RING,
     "was_taken() == next &&", "true &&", ["two leases"]),
    ("a lease takes what is not filled", RING,
     "cells_.is_filled(next) && fill(next)", "fill(next)", ["runs by one taker"]),
    ("a dropped claim is forgotten", LEASE,
     "~Claim() { publish(Fill::none); }", "~Claim() = default;", ["dropped claims"]),
    ("what was dropped is not passed over", RING,
     "return empties == Empties::give || taken.fill() != Fill::none;",
     "return empties == Empties::give || taken;", ["dropped claims"]),
    ("an exhausted ring is one that has ended", RING,
     "return state() == Flow::ended && cells_.over(head_.load(Atomics::relaxed));",
     "return state() == Flow::ended;", ["bell, taker, end"]),
    ("who waits for his turn is not woken", TURNS,
     "if (was & sleeper) {", "if (false && was) {", ["in order"]),
    ("the end of turns wakes nobody", TURNS,
     "word_.fetch_or(over, Atomics::relaxed);\n    Parking::wake(word_);",
     "word_.fetch_or(over, Atomics::relaxed);", ["the end"]),
    ("the end of turns is not seen", TURNS,
     "if (seen & over) {", "if (false) {", ["the end"]),
    ("a fence is reached before it is recorded", FENCE,
     "if (serial > was_recorded() || !device_->is_done(event(serial))) {",
     "if (!device_->is_done(event(serial))) {", ["asked"]),
]

def order_mutants(include):
    """Every memory order that is not relaxed, one at a time."""
    for where in (BELL, CELLS, WORD, RING, LEASE, TURNS, FENCE):
        text = (include / where).read_text()
        for match in re.finditer(r"Atomics::(acquire|release|acq_rel|seq_cst)\b", text):
            line = text.count("\n", 0, match.start()) + 1
            name = f"{where}:{line}: {match[1]} becomes relaxed"
            mutant = text[:match.start()] + "Atomics::relaxed" + text[match.end():]
            models = ["bell", ""] if where == BELL else ["empty ring", "one to one", ""]
            models = [""] if where in MODEL_OF else models
            yield name, where, mutant, models


def planted_mutants(include):
    for name, where, old, new, *rest in PLANTED:
        edits = {old: new}
        models = []
        for item in rest:
            if isinstance(item, dict):
                edits |= item
            else:
                models += item
        text = (include / where).read_text()
        for before, after in edits.items():
            if text.count(before) != 1:
                sys.exit(f"mutate.py: '{name}' no longer fits {where}: this stands there "
                         f"{text.count(before)} times, not once:\n{before}")
            text = text.replace(before, after)
        yield name, where, text, models


def compile_(options, include, *what):
    # Compiling takes longer here than searching.
    command = [options.cxx, "-std=c++20", "-O0", "-w", f"-I{include}", *map(str, what)]
    return subprocess.run(command, capture_output=True, text=True)


def examine(options, mutant):
    """(name, what became of it, the line that tells)"""
    name, where, text, models = mutant
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        include = pathlib.Path(folder) / "include"
        shutil.copytree(options.include, include)
        (include / where).write_text(text)
        binary = pathlib.Path(folder) / "ring_model"
        built = compile_(options, include, HERE / MODEL_OF.get(where, "ring_model.cpp"), options.checker, "-o", binary)
        if built.returncode != 0:
            return name, "NOT BUILT", built.stderr[:2000]
        for model in models:
            try:
                ran = subprocess.run([binary, model], capture_output=True, text=True,
                                     timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return name, "BROKEN", f"{model}: not done after {LIMIT} s"
            if "RELACY INTERNAL ASSERT" in ran.stdout or ran.returncode not in (0, 1):
                return name, "BROKEN", f"{model}: {ran.stdout[-500:]}"
            if ran.returncode == 1:
                lines = [l for l in ran.stdout.splitlines() if l and not l.startswith("ok")]
                return name, "killed", f"{lines[0][4:].split(' interl')[0]}: {lines[2][:60]}"
    return name, "SURVIVED", ", ".join(models) or "all models"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--include", type=pathlib.Path, default=HERE.parents[1] / "include")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default=None)
    options = parser.parse_args()
    mutants = [m for m in [*order_mutants(options.include), *planted_mutants(options.include)]
               if options.part in m[0]]
    options.work = tempfile.mkdtemp(dir=options.work)
    options.checker = pathlib.Path(options.work) / "checker.o"
    built = compile_(options, options.include, "-c", HERE / "scenario.cpp", "-o", options.checker)
    if built.returncode != 0:
        sys.exit(built.stderr)
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, outcome, how in pool.map(lambda m: examine(options, m), mutants):
            print(f"{outcome:9} {name}  [{how}]", flush=True)
            outcomes.append(outcome)
    shutil.rmtree(options.work)
    killed = outcomes.count("killed")
    print(f"killed {killed} of {len(outcomes)}")
    if not outcomes or any(o in ("NOT BUILT", "BROKEN") for o in outcomes):
        return 2
    return 0 if killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
