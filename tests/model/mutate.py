#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Proves that the ring's proofs can fail: each memory order weakened in turn, and each planted bug,
must turn a model red.

usage: mutate.py [--include DIR] [--cxx g++] [--jobs 2] [--work DIR] [PART_OF_A_NAME]

Without PENSTOCK_THOROUGH=1 in the environment and without a name, takes every eighth mutant only.
Prints one line a mutant and `killed N of N`; exits 1 if any survives, 2 if a planted bug no longer
fits the code or a mutant does not build.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STATE = "penstock/ring/detail/state.hpp"
TICKETS = "penstock/ring/detail/tickets.hpp"
MPMC = "penstock/ring/detail/mpmc_ring.hpp"
SPSC = "penstock/ring/detail/spsc_ring.hpp"
WAIT = "penstock/ring/detail/wait_word.hpp"
RING = "penstock/ring/ring.hpp"
LEASE = "penstock/ring/ring_lease.hpp"
TURNS = "penstock/detail/turns/sequencer.hpp"
ONE_BY_ONE = "penstock/detail/turns/turn_sequencer.hpp"
PARTS = "penstock/detail/turns/parts.hpp"
AHEAD = "penstock/detail/turns/ahead.hpp"
CHANGES = "penstock/detail/turns/changes.hpp"
OPENINGS = "penstock/detail/turns/openings.hpp"
LOG = "penstock/order/detail/origins.hpp"
USED = "penstock/detail/turns/used_up.hpp"
FENCE = "penstock/device/fence.hpp"
GATE = "penstock/detail/engine/run_control.hpp"
RETURNS = "penstock/detail/lending/returns.hpp"
# Files proved by another model than the ring's.
MODEL_OF = {TURNS: "sequencer_model.cpp", ONE_BY_ONE: "openings_model.cpp", PARTS: "parts_model.cpp", AHEAD: "ahead_model.cpp", CHANGES: "ahead_model.cpp",
            OPENINGS: "openings_model.cpp", LOG: "output_log_model.cpp", USED: "used_up_model.cpp", FENCE: "fence_model.cpp", GATE: "stop_model.cpp", RETURNS: "returns_model.cpp"}
# Models that see a weaker order soon; all others are asked after them.
SEES = {RING: ["bell, two"], WAIT: ["empty ring, end", "roles swap"], TICKETS: ["laps wrap"],
        STATE: ["empty ring, end", "empty ring, fail"], MPMC: ["one to many"]}
# Seconds: many times what all models need. The checker itself ends threads that spin for ever.
LIMIT = 900

# name, file, text found there once, its replacement, models that see it (parts of names)
PLANTED = [
    ("a slot is handed over without looking for sleepers", WAIT,
     "if constexpr (Parking::sleeps) {\n      // Pairs with look(). An",
     "if constexpr (false) {\n      // Pairs with look(). An", ["roles swap"]),
    ("a sleeper is not woken", WAIT,
     "if (word_.exchange(next, Atomics::release) & Words::sleeper) {\n        Parking::wake(word_);",
     "if (word_.exchange(next, Atomics::release) & Words::sleeper) {\n        ;", ["roles swap"]),
    ("sleepers are woken before the slot is handed over", WAIT,
     "if (word_.exchange(next, Atomics::release) & Words::sleeper) {\n"
     "        Parking::wake(word_);\n      }",
     "if (word_.load(Atomics::relaxed) & Words::sleeper) {\n"
     "        Parking::wake(word_);\n      }\n"
     "      word_.exchange(next, Atomics::release);", ["roles swap"]),
    ("a sleeper's bit is looked for and lost", WAIT,
     "if (word_.exchange(next, Atomics::release) & Words::sleeper) {",
     "const std::uint32_t before = word_.load(Atomics::relaxed);\n"
     "      word_.store(next, Atomics::release);\n"
     "      if (before & Words::sleeper) {", ["roles swap"]),
    ("a thread sleeps without saying so", WAIT,
     "Parking::sleep(word_, seen | Words::sleeper, nap);",
     "word_.fetch_and(~Words::sleeper, Atomics::relaxed);\n"
     "            Parking::sleep(word_, seen & ~Words::sleeper, nap);", ["roles swap"]),
    ("the state is not looked at before sleeping", WAIT,
     "if (state.over(ticket)) {\n        return false;", "if (false) {\n        return false;",
     ["empty ring, end", "empty ring, fail"]),
    ("the state is looked at before the word, not after", WAIT,
     "std::uint32_t seen = look();\n      if (ready(seen)) {",
     "const bool early = state.over(ticket);\n      std::uint32_t seen = look();\n"
     "      if (!early && !ready(seen)) {\n"
     "        word_.fetch_or(Words::sleeper, Atomics::relaxed);\n"
     "        Parking::sleep(word_, word_.load(Atomics::relaxed));\n"
     "        continue;\n      }\n      if (ready(seen)) {",
     ["empty ring, end", "empty ring, fail"]),
    ("the last slot does not hear of a change", MPMC,
     "for (std::size_t i = 0; i < slots_; ++i) {\n      cells_[i].word.announce(bit);",
     "for (std::size_t i = 0; i + 1 < slots_; ++i) {\n      cells_[i].word.announce(bit);",
     ["full ring", "empty ring, two takers, end"]),
    ("a claimer does not hear of a change", SPSC,
     "claimer_.announce(bit);", "(void)bit;", ["full ring, counted"]),
    ("a taker does not hear of a change", SPSC,
     "taker_.announce(bit);", "(void)bit;", ["empty ring, counted"]),
    ("a change wakes nobody", WAIT,
     "if (word_.fetch_or(bit, Atomics::release) & Words::sleeper) {\n      Parking::wake(word_);",
     "if (word_.fetch_or(bit, Atomics::release) & Words::sleeper) {\n      ;", ["empty ring, end"]),
    ("a change leaves the words as they are", WAIT,
     "word_.fetch_or(bit, Atomics::release)",
     "word_.fetch_or(bit & 0, Atomics::release)", ["empty ring"]),
    ("the end is announced before it is there", RING,
     "if (state_.set_end(ticket)) {\n      announce(detail::RingWord<Policy::lap_bits>::ended);\n    }",
     "announce(detail::RingWord<Policy::lap_bits>::ended);\n    state_.set_end(ticket);",
     ["empty ring, end"]),
    ("a stop is announced before it is there", RING,
     "if (state_.set_halted(flow)) {\n      announce(detail::RingWord<Policy::lap_bits>::halted);\n    }",
     "announce(detail::RingWord<Policy::lap_bits>::halted);\n    state_.set_halted(flow);",
     ["empty ring, fail"]),
    ("the state does not know of the end", STATE,
     "return flow == Flow::open && end_.load(Atomics::relaxed) != never ? Flow::ended : flow;",
     "return flow;", ["one to one, no nap"]),
    ("the last end counts", STATE,
     "end_.compare_exchange_strong(before, ticket, Atomics::relaxed, Atomics::relaxed);",
     "true;\n    end_.store(ticket, Atomics::relaxed);", ["two ends"]),
    ("who is second to find an end does not make it known", STATE,
     "std::uint64_t closed = never;", "if (!first) {\n      return false;\n    }\n    std::uint64_t closed = never;", ["beyond the end, two"]),
    ("who is second to halt a ring does not make it known", STATE,
     "closed_.store(0, Atomics::release);", "if (first) {\n      closed_.store(0, Atomics::release);\n    }", ["behind two halts"]),
    ("a taker asks for the end before it looks at the slot", MPMC,
     "if (!(cells_.*await)(state, ticket, place) || state.over(ticket)) {",
     "if (state.over(ticket) || !(cells_.*await)(state, ticket, place)) {", ["beyond the end"]),
    ("who tries asks for the end before it looks at the slot", MPMC,
     "if (!(cells_.*ready)(ticket, place)) {",
     "if (state.over(ticket)) {\n        return {};\n      }\n      if (!(cells_.*ready)(ticket, place)) {",
     {"} else if (state.over(ticket)) { // asked afterwards: see draw()\n        return {};\n      } else if":
      "} else if"}, ["beyond the end, by"]),
    ("a taker of one claimer asks for the end before it looks at the slot", SPSC,
     "const bool came = word_.await", "const bool came = !state.over(ticket) && word_.await",
     {"}) && !state.over(ticket); // asked afterwards: see MpmcRing": "});"}, ["beyond the end, one"]),
    ("one that tries of one claimer asks for the end before it looks at the slot", SPSC,
     "return (ticket < known_ || look(other, ticket, 1)) && !state.over(ticket);",
     "return !state.over(ticket) && (ticket < known_ || look(other, ticket, 1));", ["beyond the end, one"]),
    ("a stop is forgotten for the end", STATE,
     "return flow == Flow::open && end_.load", "return end_.load",
     ["end and stop"]),
    ("the end undoes a stop", STATE,
     "closed_.compare_exchange_strong(closed, first ? ticket : before, Atomics::release,\n"
     "                                    Atomics::relaxed);",
     "closed_.store(first ? ticket : before, Atomics::release);", ["end and stop"]),
    ("a released slot stays in its lap", MPMC,
     "Words::make(lap(ticket) + 1, Words::free)", "Words::make(lap(ticket), Words::free)",
     ["roles swap"]),
    ("what is counted is not looked for again before sleeping", WAIT,
     "if (counted && ready(seen)) {", "if (false) {", ["no nap ends"]),
    ("who naps is not woken", WAIT,
     "if (word_.load(Atomics::relaxed) & Words::sleeper) [[unlikely]] {",
     "if (false) {", ["no nap ends"]),
    ("who naps is looked for before the counter is stored", SPSC,
     "published_.give(ticket, place, 1);\n    taker_.rouse();",
     "taker_.rouse();\n    published_.give(ticket, place, 1);", ["one to one, no nap ends"]),
    ("a sleeper's bit may come back as it was", WAIT,
     "word_.fetch_xor(Words::sleeper | Words::roused, Atomics::relaxed);",
     "word_.fetch_and(~Words::sleeper, Atomics::relaxed);", ["one to many, no nap ends"]),
    ("only whose turn it was is woken, not those behind", MPMC,
     "for (count = counter.give(ticket, place, count); count != 0; --count) {",
     "for (count = counter.give(ticket, place, count) != 0; count != 0; --count) {",
     ["bunch to many, no nap ends"]),
    ("what comes out of turn is handed on at once", TICKETS,
     "if (ticket != given_.load(Atomics::relaxed)) {", "if (false) {", ["bunch to one"]),
    ("what came out of turn is forgotten", TICKETS,
     "early_[next] = false;", "early_[next] = false;\n      break;", ["bunch to one"]),
    ("what came out of turn comes again in the next lap", TICKETS,
     "early_[next] = false;", ";", ["leases out of turn"]),
    ("more is known than the other side gave", SPSC,
     "known_ = std::min<std::uint64_t>(given, lap_begin_ + slots_);",
     "known_ = lap_begin_ + slots_;", ["one to one"]),
    ("a lap goes on behind the last slot", SPSC,
     "known_ = std::min<std::uint64_t>(given, lap_begin_ + slots_);",
     "known_ = given;", ["runs by one taker"]),
    ("what is known is handed out after the end", SPSC,
     "return ticket < known_ && !state.over(ticket);", "return ticket < known_;",
     ["stop between claims"]),
    ("the bell rings before the slot is handed over", RING,
     "void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {\n",
     "void publish(std::uint64_t ticket, std::size_t place, Fill fill) noexcept {\n"
     "    ring_bell(publish_bell_);\n",
     [], {");\n    ring_bell(publish_bell_);\n  }\n  void release": ");\n  }\n  void release"},
     ["bell, taker, known"]),
    ("the bell does not ring when slots change hands", RING,
     ");\n    ring_bell(publish_bell_);\n  }\n  void release", ");\n  }\n  void release",
     ["bell, taker, end"]),
    ("the bell does not ring when the state changes", RING,
     "    ring_bell(publish_bell_);\n    ring_bell(release_bell_);",
     "    ring_bell(release_bell_);", ["bell, taker"]),
    ("the bell rings before the end is there", RING,
     "if (state_.set_end(ticket)) {\n      announce",
     "ring_bell(publish_bell_);\n    if (state_.set_end(ticket)) {\n      announce",
     {"    ring_bell(publish_bell_);\n    ring_bell(release_bell_);": "    ring_bell(release_bell_);"},
     ["bell, taker, end"]),
    ("who waits for the bell does not say so", RING,
     "word_.compare_exchange_strong(seen, count | sleeper,",
     "word_.compare_exchange_strong(seen, count,", ["bell"],
     {"Parking::sleep(word_, count | sleeper, limit);": "Parking::sleep(word_, count, limit);"}),
    ("the bell wakes nobody", RING, "Parking::wake(word_);", ";", ["bell"]),
    ("the bell forgets its sleeper after the wake-up, not before", RING,
     "word_.fetch_and(~sleeper, Atomics::relaxed);\n        Parking::wake(word_);",
     "Parking::wake(word_);\n        word_.fetch_and(~sleeper, Atomics::relaxed);", ["bell, rung"]),
    ("sleepers' bits change whose slot it is", WAIT,
     "return (word & (lap_mask | state_mask)) == make(lap, free);",
     "return word == make(lap, free);", ["full ring, two", "roles swap"]),
    ("a taker takes slots of any lap", WAIT,
     "return (word & lap_mask) == make(lap, 0) && (word & state_mask) != free;",
     "return (word & state_mask) != free + (lap & 0);", ["many to one", "roles swap"]),
    ("two that try take the same ticket", TICKETS,
     "if (side_ == Side::many) {\n      return next_.compare",
     "if (false) {\n      return next_.compare",
     ["claims by trying", "takes by trying"]),
    ("a lease takes what another holds", SPSC,
     "if (was_taken() != next || ", "if (", ["two leases"]),
    ("a lease takes what another holds, of many", MPMC,
     "was_taken() == next && ", "", ["two leases, many"]),
    ("a lease takes what is not filled", SPSC,
     "!taker_.has(state, published_, next) ||", "", ["runs by one taker"]),
    ("a lease takes what is not filled, of many", MPMC,
     "cells_.is_filled(next, place) &&", "", ["takes by trying"]),
    ("a dropped claim is forgotten", LEASE,
     "~Claim() { publish(Fill::none); }", "~Claim() = default;", ["dropped claims"]),
    ("what was dropped is not passed over", RING,
     "return empties == Empties::give || fill(place) != Fill::none;",
     "return empties == Empties::give || place != slots_;", ["dropped claims"]),
    ("an exhausted ring is one that has ended", RING,
     "return state() == Flow::ended && state_.over(was_taken());",
     "return state() == Flow::ended;", ["bell, taker, end"]),
    ("who came too early is forgotten", TURNS,
     "} while (places_[at].place.exchange(Stand::due, Atomics::acq_rel) == Stand::here);",
     "} while (places_[at].place.exchange(Stand::due, Atomics::acq_rel) == Stand::empty);",
     ["in order"]),
    ("who comes too early goes before", TURNS,
     "!= Stand::due) {", "== Stand::here) {", ["in order"]),
    ("it is looked who is there, and then said who is due", TURNS,
     "places_[at].place.exchange(Stand::due, Atomics::acq_rel) == Stand::here",
     "places_[at].place.load(Atomics::acquire) == Stand::here ||\n"
     "             (places_[at].place.store(Stand::due, Atomics::release), false)", ["in order"]),
    ("it is looked who is due, and then said who is there", TURNS,
     "if (places_[at].place.exchange(Stand::here, Atomics::acq_rel) != Stand::due) {",
     "const bool due = places_[at].place.load(Atomics::acquire) == Stand::due;\n"
     "    places_[at].place.store(Stand::here, Atomics::release);\n    if (!due) {", ["in order"]),
    ("a place is empty again only after its turn", TURNS,
     "      places_[at].place.store(Stand::empty, Atomics::relaxed);\n      f(at);",
     "      f(at);\n      places_[at].place.store(Stand::empty, Atomics::relaxed);", ["laps"]),
    ("a place stays as it was", TURNS,
     "places_[at].place.store(Stand::empty, Atomics::relaxed);\n      f(at);", "f(at);", ["laps"]),
    ("the first to finish a slot hands it on", PARTS, "!= done) {", "!= parts_) {", ["parts, one"]),
    ("each part of a slot hands it on", PARTS, "!= done) {", "== 0) {", ["parts, one"]),
    ("a part is dealt to two workers", PARTS,
     "while (!next_.compare_exchange_strong(at, end, Atomics::relaxed, Atomics::relaxed));",
     "while (false);\n    next_.store(end, Atomics::relaxed);", ["parts, one"]),
    ("the last part's worker hands its slot on", PARTS, "if (done == parts_) {",
     "if (share.end == parts_) {", ["parts, one"]),
    ("a slot of one part is dealt to two workers", PARTS,
     "{next_.fetch_add(1, Atomics::relaxed), 0, 1}",
     "{next_.exchange(next_.load(Atomics::relaxed) + 1, Atomics::relaxed), 0, 1}",
     ["parts, slots of one"]),
    ("a share counts as one part", PARTS, "share.end - share.first;", "1;", ["parts, three"]),
    ("a share goes on into the next slot", PARTS, "std::min(count, parts_ - at % parts_)", "count",
     ["parts, three"]),
    ("a slot's parts are not counted anew for the next lap", PARTS,
     "left.store(parts_, Atomics::relaxed);\n    return true;", "return true;", ["parts, laps"]),
    ("a slot's parts are counted anew by the first to finish it", PARTS,
     "if (left.fetch_sub(done, Atomics::acq_rel) != done) {\n      return false;",
     "if (left.fetch_sub(done, Atomics::acq_rel) != done) {\n      left.store(parts_, Atomics::relaxed);\n      return false;",
     ["parts, one"]),
    ("a worker does not wait for its part's slot to be filled", MPMC,
     "cells_.await_filled(state, ticket, place) && !state.over(ticket) ? &slot(place)\n"
     "                                                                            : nullptr;",
     "!state.over(ticket) ? &slot(place) : nullptr;", ["parts, one"]),
    ("a worker does not wait for its part's slot to be free", MPMC,
     "!state.over(ticket) && cells_.await_free(state, ticket, place) ? &slot(place) : nullptr;",
     "!state.over(ticket) ? &slot(place) : nullptr;", ["parts, laps"]),
    ("credits that come back wake nobody", AHEAD,
     "left_.fetch_add(credits, Atomics::release); // pairs with take()\n      changes_.tell();",
     "left_.fetch_add(credits, Atomics::release);", ["ahead, one"]),
    ("an end wakes nobody", CHANGES,
     "closed_.store(1, Atomics::release); // pairs with await()\n    tell();", "closed_.store(1, Atomics::release);",
     ["ahead, a stop"]),
    ("a worker takes before its turn", AHEAD,
     "return turns_.await(ticket);", "return ticket != 0 || turns_.await(ticket);", ["ahead, two"]),
    ("a worker takes more than is left", AHEAD,
     "return taken >= least;", "taken = wanted;\n      return true || least != 0;", ["ahead, one"]),
    ("credits are taken that are not there", AHEAD,
     "left_.fetch_sub(taken, Atomics::relaxed);", "left_.fetch_sub(1, Atomics::relaxed);",
     ["ahead, three"]),
    ("it is looked at what is left, and then at the word to sleep on", CHANGES,
     "      if (ready()) {\n        return true;\n      }\n",
     "      if (ready()) {\n        return true;\n      }\n"
     "      seen = word_.load(Atomics::acquire);\n", ["ahead, one"]),
    ("a sleeper is forgotten after the wake-up, not before", CHANGES,
     "word_.fetch_and(~sleeper, Atomics::relaxed);\n      Parking::wake(word_);",
     "Parking::wake(word_);\n      word_.fetch_and(~sleeper, Atomics::relaxed);", ["ahead, two"]),
    ("a reader waits for what leases keep", AHEAD,
     "spare_.store(spare(credits), Atomics::relaxed);\n      changes_.tell();",
     "spare_.store(spare(credits), Atomics::relaxed);", ["ahead, leases"]),
    ("room is opened before its turn", ONE_BY_ONE, "turn_.load(Atomics::acquire) == number;",
     "turn_.load(Atomics::acquire) <= number;", ["openings, laps"]),
    ("a turn that passes wakes nobody", ONE_BY_ONE, "place_of(next).tell();", "", ["openings, one"]),
    ("a turn that passes wakes another than the next", ONE_BY_ONE, "place_of(next).tell();",
     "place_of(next + 1).tell();", ["openings, laps"]),
    ("who leaves keeps its turn", OPENINGS,
     "if (ring.state() == Flow::ended && await_turn(number)) {\n      pass(next);\n    }", "(void)number, (void)next;", ["openings, a late"]),
    ("who leaves gives up its turn before it has it", OPENINGS,
     "if (ring.state() == Flow::ended && await_turn(number)) {\n      pass(next);\n    }", "(void)number, pass(next);", ["openings, a late"]),
    ("who leaves at a stop passes its turn on", OPENINGS,
     "ring.state() == Flow::ended && await_turn(number)", "await_turn(number)", ["openings, a stop before"]),
    ("room is opened and not taken", OPENINGS, "room.units = next_.units = units;",
     "room.units = units;", ["openings, one"]),
    ("a slot that has begun stays open at the end", OPENINGS, "next_.unit == 0 && !empty", "!empty",
     ["openings, a short"]),
    ("an end lets nobody go who waits for a turn", OPENINGS, "turns_.stop();", "", ["openings, a stop"]),
    ("a worker waits for all of his room before he fills any", OPENINGS,
     "    while (room.units != 0) {\n",
     "    for (Room all = room; all.units != 0;) {\n"
     "      if (!ring.await_free(all.next(size_).ticket)) {\n        return false;\n      }\n    }\n"
     "    while (room.units != 0) {\n", ["openings, more"]),
    ("a worker fills a slot that is not free", OPENINGS,
     "auto* const slot = ring.await_free(piece.ticket);",
     "auto* const slot = ring.await_free(piece.ticket % 2);", ["openings, laps"]),
    ("the first to fill a slot hands it on", OPENINGS,
     "piece.units) {\n      return false;", "size_.size(0)) {\n      return false;", ["openings, one"]),
    ("a slot that was filled is not counted anew for the next lap", OPENINGS,
     "      return false;\n    }\n    count_anew(piece.ticket);\n", "      return false;\n    }\n",
     ["openings, laps"]),
    ("a slot counts a piece as one unit", OPENINGS,
     "units.fetch_sub(piece.units, Atomics::acq_rel)", "units.fetch_sub(1, Atomics::acq_rel)",
     ["openings, laps"]),
    ("who asks does not look whether a note was written meanwhile", LOG,
     "if (version_.load(Atomics::relaxed) == version) {", "if (version_.load(Atomics::relaxed) >= version) {", ["log, thinned"]),
    ("a note does not say that it is being written", LOG,
     "version_.store(version + 1, Atomics::relaxed);", "", ["log, thinned"]),
    ("a place is kept with the outputs of another", LOG,
     "kept.place.load(Atomics::relaxed)", "list_[at].place.load(Atomics::relaxed)", ["log, thinned"]),
    ("each slot that is done is the last", USED,
     "turns_.bring(ticket, [&](std::size_t at) {", "[&](std::size_t at) {",
     {"give_back(next_++);\n    });": "give_back(next_++);\n    }(ticket % behind_.size());"}, ["used, two"]),
    ("a slot is given back before its turn", USED,
     "    behind_[ticket % behind_.size()] = behind;\n",
     "    behind_[ticket % behind_.size()] = behind;\n    give_back(ticket);\n",
     {"      give_back(next_++);\n": ""}, ["used, laps"]),
    ("a slot is behind the place before its turn", USED,
     "behind_[ticket % behind_.size()] = behind;\n", "behind_[ticket % behind_.size()] = behind;\n    all_.set(behind);\n",
     ["used, two"]),
    ("an empty slot goes back to the beginning", USED,
     "last_ = std::max(last_, behind_[at]);", "last_ = behind_[at];", ["used, the last is empty"]),
    ("the place is noted after the turn was brought", USED,
     "    behind_[ticket % behind_.size()] = behind;\n", "",
     {"give_back(next_++);\n    });": "give_back(next_++);\n    });\n    behind_[ticket % behind_.size()] = behind;"},
     ["used, two"]),
    ("what was seen is forgotten", FENCE,
     "while (known < serial &&\n"
     "           !reached_.compare_exchange_strong(known, serial, Atomics::release, Atomics::relaxed)) {\n    }",
     "(void)known;\n    reached_.store(serial, Atomics::release);", ["goes back"]),
    ("what was seen is looked at, and then stored", FENCE,
     "while (known < serial &&\n"
     "           !reached_.compare_exchange_strong(known, serial, Atomics::release, Atomics::relaxed)) {\n    }",
     "if (known < serial) {\n      reached_.store(serial, Atomics::release);\n    }", ["goes back"]),
    ("a fence is reached before it is recorded", FENCE,
     "if (serial > was_recorded() || !device_->is_done(event(serial))) {",
     "if (!device_->is_done(event(serial))) {", ["asked"]),
    ("all that was recorded counts as reached", FENCE,
     "see(serial);\n    return true;", "see(was_recorded());\n    return true;", ["share"]),
    ("who shares an event is told of it before it is recorded again", FENCE,
     "    device_->record(events_[at], stream);\n", "",
     {"Atomics::release); // pairs with was_recorded()":
      "Atomics::release);\n    device_->record(events_[at], stream);"}, ["share"]),
    ("another event answers before it is recorded", FENCE,
     "    device_->record(events_[at], stream);\n",
     "    answers_[serial % answers_.size()].event.store(at, Atomics::release);\n"
     "    device_->record(events_[at], stream);\n", ["another"]),
    ("a run ends while one is closing its rings", GATE,
     "while (seen >= one) {", "while (false) {", ["one stops"]),
    ("who stops is let in after the run", GATE,
     "while (seen & is_open) {", "while (true) {", ["one stops"]),
    ("who leaves last wakes nobody", GATE,
     "if (!(before & is_open)) {", "if (false && before) {", ["one stops"]),
    ("the end of a run does not shut the gate", GATE,
     "word_.fetch_and(~is_open, Atomics::acquire) & ~is_open",
     "word_.fetch_and(~0U, Atomics::acquire) & ~is_open", ["one stops"]),
    ("who gives back wakes nobody", RETURNS, "    bell_.ring();\n", "", ["one gives back"]),
    ("who gives back rings first", RETURNS, "    bell_.ring();\n", "",
     {"    Return* top = top_.load(Atomics::relaxed);\n": "    bell_.ring();\n    Return* top = top_.load(Atomics::relaxed);\n"},
     ["one gives back"]),
    ("what came meanwhile is lost", RETURNS,
     "while (!top_.compare_exchange_strong(top, &item, Atomics::release, Atomics::relaxed));",
     "while (false);\n    top_.store(&item, Atomics::release);", ["two give back"]),
    ("the newest comes out first", RETURNS,
     "first = std::exchange(rest, std::exchange(rest->next, first));\n      }",
     "first = std::exchange(rest, nullptr);\n      }", ["one gives back"]),
]

def order_mutants(include):
    """Yields every memory order that is not relaxed, one at a time."""
    for where in (RING, WAIT, TICKETS, STATE, MPMC, SPSC, LEASE, TURNS, ONE_BY_ONE, PARTS, AHEAD, CHANGES, OPENINGS, LOG, USED, FENCE, GATE, RETURNS):
        text = (include / where).read_text()
        for match in re.finditer(r"Atomics::(acquire|release|acq_rel|seq_cst)\b", text):
            line = text.count("\n", 0, match.start()) + 1
            for weaker in ["acquire", "release"] if match[1] == "acq_rel" else ["relaxed"]:
                name = f"{where}:{line}: {match[1]} becomes {weaker}"
                mutant = text[:match.start()] + f"Atomics::{weaker}" + text[match.end():]
                yield name, where, mutant, [*SEES.get(where, []), ""]


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
    # Compiling takes about as long here as searching.
    command = [options.cxx, "-std=c++20", "-O1", "-w", f"-I{include}", *map(str, what)]
    return subprocess.run(command, capture_output=True, text=True)


def examine(options, mutant):
    """Returns (name, what became of it, the line that tells)."""
    name, where, text, models = mutant
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        include = pathlib.Path(folder) / "include"
        shutil.copytree(options.include, include)
        (include / where).write_text(text)
        binary = pathlib.Path(folder) / "ring_model"
        for model in models:
            # Only threads that share slots call some of the ring's members.
            source = HERE / ("parts_model.cpp" if model.startswith("parts") else MODEL_OF.get(where, "ring_model.cpp"))
            built = compile_(options, include, f'-DPENSTOCK_MODELS="{model}"', source, options.checker, "-o", binary)
            if built.returncode != 0:
                return name, "NOT BUILT", built.stderr[:2000]
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
    if not options.part and os.environ.get("PENSTOCK_THOROUGH", "") in ("", "0"):
        mutants = mutants[::8]
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
