// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How a run ends, for spin: a chain of stages joined by rings, any of which may fail at any record,
// and a stop that may come at any time. shutdown.py says which chains are searched and for which
// faults.
//
// A step of an atomic in the code, and steps between which no other thread sees a difference, are
// one step here. Memory is sequentially consistent: ring_model.cpp checks memory orders and the
// ring by itself. Left out is what only makes threads look once more: spinning before sleeping, and
// the device thread's time limit while the consumer works.

#ifndef STAGES
#define STAGES 3
#endif
#ifndef DEVICE
#define DEVICE 0 // 1: the device thread is the last stage but one, and the last takes from it
#endif
#ifndef WORKERS
#define WORKERS 1 // of each stage before the device thread or the last
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef RECORDS
#define RECORDS 3 // the most that come
#endif
#ifndef KNOWN_SIZE
#define KNOWN_SIZE 0 // 1: exactly RECORDS come, and the source says so at the start
#endif
#ifndef RUNS
#define RUNS 1
#endif
#ifndef MISHAPS
#define MISHAPS 2 // failures and stops in a run, at most
#endif
// 1: other threads may run between any two accesses of a ring's waiting and announcing. 0: each of
// these is one step, so that long chains can be searched.
#ifndef FINE
#define FINE 0
#endif
#if FINE
#define STEP
#else
#define STEP atomic
#endif

#define RINGS (STAGES - 1)
#define LAST (STAGES - 1)
#define HOST_STAGES (STAGES - 1 - DEVICE)
#define CREW (HOST_STAGES * WORKERS + DEVICE)
#define THREADS (CREW + 1) // the caller is thread 0

// ring.hpp and ring/cells.hpp. A word is | lap and state | halted | ended |.
#define OPEN 0
#define STOPPED 1
#define FAILED 2
#define FREE 0
#define FULL 1
#define NONE 2
#define ENDED_BIT 1
#define HALTED_BIT 2
#define NEVER 255
#define AT(r, t) ((r) * DEPTH + (t) % DEPTH)
#define MAKE(t, state) ((((t) / DEPTH) * 3 + (state)) << 2)
#define STATE(w) (((w) >> 2) % 3)
#define IN_LAP(w, t) (((w) >> 2) / 3 == (t) / DEPTH)
#define IS_FREE(w, t) (IN_LAP(w, t) && STATE(w) == FREE)
#define IS_FILLED(w, t) (IN_LAP(w, t) && STATE(w) != FREE)
#define IS(filled, w, t) (filled -> IS_FILLED(w, t) : IS_FREE(w, t))
#define OVER(r, t) (flow[r] != OPEN || (t) >= end[r])
#define ENDED(r) (flow[r] == OPEN && end[r] != NEVER)

byte word[RINGS * DEPTH];
byte slot[RINGS * DEPTH]; // the record in it
byte end[RINGS];
byte flow[RINGS];
byte head[RINGS];
byte tail[RINGS];
byte sleeps[THREADS]; // the word it sleeps on, counted from 1

// detail/device_side/device_thread.hpp. Whether the bell has rung since its count was read.
bool rung;
bool drained;
byte copying; // copies enqueued and not done

// engine/run_control.hpp and engine/crew.hpp.
bool locked;
bool running;
bool stopped;
byte error; // whose it is, counted from 1
byte started; // how many runs
byte working;

// What happens, and what the assertions check.
byte total;
byte mishaps;
byte first; // the first to fail
bool stop_is_done; // stop() has returned in this run
bool finished;

#define TAKES_FOR_DEVICE(r) (DEVICE && (r) == RINGS - 2)
#define GIVES_FOR_DEVICE(r) (DEVICE && (r) == RINGS - 1)

inline wake(w) {
  for (k : 0 .. THREADS - 1) {
    if
    :: sleeps[k] == (w) + 1 -> sleeps[k] = 0
    :: else
    fi
  }
  k = 0
}

// Block until the slot is ready (ok), or never will be.
inline await(r, t, filled) {
  do
  :: atomic {
       seen = word[AT(r, t)];
       if
       :: IS(filled, seen, t) -> seen = 0; ok = true; break
       :: else
       fi
     };
     atomic {
       if
       :: OVER(r, t) -> seen = 0; ok = false; break
       :: else
       fi
     };
     atomic {
       if
       :: word[AT(r, t)] == seen -> sleeps[me] = AT(r, t) + 1
       :: else
       fi;
       seen = 0;
       sleeps[me] == 0
     }
  od
}

inline hand_over(r, t, state_after, has_bell) {
  atomic {
    word[AT(r, t)] = state_after;
    wake(AT(r, t));
    if
    :: has_bell -> rung = true
    :: else
    fi
  }
}
inline publish(r, t, fill) { hand_over(r, t, MAKE(t, fill), TAKES_FOR_DEVICE(r)) }
inline release(r, t) { hand_over(r, t, MAKE((t) + DEPTH, FREE), GIVES_FOR_DEVICE(r)) }

inline announce(r, bit_set, wakes) {
  j = 0;
  do
  :: atomic {
       j < DEPTH ->
#if FINE
       word[AT(r, j)] = word[AT(r, j)] | bit_set;
#endif
       if
       :: wakes -> wake(AT(r, j))
       :: else
       fi;
       j++
     }
  :: atomic { else -> j = 0; break }
  od;
  atomic {
    if
    :: TAKES_FOR_DEVICE(r) || GIVES_FOR_DEVICE(r) -> rung = true
    :: else
    fi
  }
}

#ifdef END_WAKES_NOBODY
#define END_WAKES false
#else
#define END_WAKES true
#endif
inline end_at(r, t) {
  STEP {
    if
    :: atomic { end[r] == NEVER -> end[r] = t }; announce(r, ENDED_BIT, END_WAKES)
    :: end[r] != NEVER
    fi
  }
}

inline halt(r, how) {
  STEP {
#ifdef ANNOUNCED_EARLY
    announce(r, HALTED_BIT, true);
    atomic { flow[r] = (flow[r] == OPEN -> how : flow[r]) }
#else
    if
    :: atomic { flow[r] == OPEN -> flow[r] = how }; announce(r, HALTED_BIT, true)
    :: flow[r] != OPEN
    fi
#endif
  }
}
inline close(how, but) {
  i = 0;
  do
  :: STEP {
       if
       :: i + 1 == but
       :: else -> halt(i, how)
       fi;
       i++;
       if
       :: i == RINGS -> i = 0; break
       :: else
       fi
     }
  od
}

#ifdef UPSTREAM_STAYS_OPEN
#define LEFT_OPEN(stage) (stage)
#else
#define LEFT_OPEN(stage) NEVER
#endif
#define MAY_FAIL atomic { mishaps < MISHAPS -> mishaps++ }
inline fail(stage) {
  atomic {
    !locked;
    first = (first == 0 -> (stage) + 1 : first);
#ifdef SECOND_ERROR_CLOSES_NOTHING
    closes = error == 0;
#else
    closes = true;
#endif
#ifdef LAST_ERROR_COUNTS
    error = (stage) + 1
#else
    error = (error == 0 -> (stage) + 1 : error)
#endif
  };
  if
  :: closes -> closes = false; close(FAILED, LEFT_OPEN(stage))
  :: else
  fi
}

// Takes the oldest slot not taken, by any number of takers; its ticket is in t.
inline take(r) {
  STEP {
    atomic {
      late = stop_is_done;
      ok = flow[r] == OPEN;
      t = head[r];
      head[r] = head[r] + (ok -> 1 : 0);
      ok = ok && !OVER(r, t)
    };
    if
    :: ok -> await(r, t, true)
    :: else
    fi;
    assert(!(ok && late)); // a taker that comes after a stop gets nothing
    late = false
  }
}

inline claimed(r, t) {
  STEP {
    if
    :: OVER(r, t) -> ok = false
    :: else -> await(r, t, false)
    fi
  }
}

#define LOCALS byte t, seen, i, j, k; bool ok, late, closes

inline come_to_rest() {
  atomic { t = 0; ok = false; working-- }
}

// detail/reading/reader_node.hpp
proctype reader(byte me) {
  LOCALS;
  byte served;
  do
  :: served < RUNS ->
     started > served;
     served++;
     do
     :: STEP {
          atomic {
            late = stop_is_done;
            ok = flow[0] == OPEN;
            t = tail[0];
            tail[0] = tail[0] + (ok -> 1 : 0)
          };
          if
          :: ok -> claimed(0, t)
          :: else
          fi;
          assert(!(ok && late));
          late = false;
          if
          :: !ok -> break
          :: else
          fi
        };
        if
#ifdef LEASE_DIES_FIRST
        :: MAY_FAIL; publish(0, t, NONE); fail(0); break
#else
        :: MAY_FAIL; fail(0); publish(0, t, NONE); break
#endif
        :: atomic { t < total -> slot[AT(0, t)] = t; publish(0, t, FULL) }
        :: STEP { t >= total -> end_at(0, t + 1); publish(0, t, NONE) }
        fi
     od;
     come_to_rest()
  :: else -> break
  od
}

#if HOST_STAGES > 1
// detail/workers/part_by_part.hpp, slot_by_slot(): any stage that makes one slot of each slot
proctype stager(byte me; byte stage) {
  LOCALS;
  byte served;
  do
  :: served < RUNS ->
     started > served;
     served++;
     do
     :: STEP {
          take(stage - 1);
          if
          :: !ok -> break
          :: else
          fi
        };
        STEP {
          claimed(stage, t);
          if
          :: !ok -> release(stage - 1, t); break
          :: else
          fi
        };
        if
        :: MAY_FAIL;
           fail(stage);
           STEP {
             publish(stage, t, NONE);
             release(stage - 1, t);
             break
           }
        :: STEP {
             slot[AT(stage, t)] = slot[AT(stage - 1, t)];
             publish(stage, t, STATE(word[AT(stage - 1, t)]));
             release(stage - 1, t)
           }
        fi
     od;
     STEP {
       if
       :: ENDED(stage - 1) -> end_at(stage, end[stage - 1])
       :: else
       fi;
       come_to_rest()
     }
  :: else -> break
  od
}
#endif

#if DEVICE
#define IN (RINGS - 2)
#define OUT (RINGS - 1)
#define DEVICE_OVER (flow[OUT] != OPEN || (has_ended && in_flight == 0 && drained))

// detail/device_side/device_thread.hpp and copier.hpp, with batches of one record
proctype device_thread(byte me) {
  LOCALS;
  byte served, in_flight, published, taken;
  byte flight[2];
  bool has_ended, holds, has_place, any, failed;
  do
  :: served < RUNS ->
     started > served;
     served++;
     do
#ifdef BELL_READ_LATE
     :: atomic { DEVICE_OVER -> break }
     :: atomic { !DEVICE_OVER };
        rung = false;
#else
     :: rung = false;
        if
        :: atomic { DEVICE_OVER -> break }
        :: atomic { else }
        fi;
#endif
        atomic {
          // Gives back copied slots.
          any = false;
          do
          :: in_flight > copying ->
             release(IN, flight[0]);
             flight[0] = flight[1];
             flight[1] = 0;
             in_flight--;
             any = true
          :: else -> break
          od;
          // Enqueues all copies that it can.
          do
          :: in_flight == 2 -> break
          :: else ->
             do
             :: !holds && !OVER(IN, head[IN]) && IS_FILLED(word[AT(IN, head[IN])], head[IN]) ->
                taken = head[IN];
                head[IN]++;
                holds = STATE(word[AT(IN, taken)]) != NONE;
                if
                :: !holds -> release(IN, taken)
                :: else
                fi
             :: else -> break
             od;
             if
             :: holds && !has_place && !OVER(OUT, published) &&
                  IS_FREE(word[AT(OUT, published)], published) ->
                has_place = true
             :: else
             fi;
             if
             :: !holds || !has_place -> break
             :: holds && has_place && mishaps < MISHAPS -> mishaps++; failed = true; break
             :: holds && has_place ->
                slot[AT(OUT, published)] = slot[AT(IN, taken)];
                copying++;
                flight[in_flight] = taken;
                in_flight++;
                taken = 0;
                holds = false;
                any = true;
                publish(OUT, published, FULL);
                has_place = false;
                published++
             fi
          od;
          if
          :: !failed && !has_ended && !holds && ENDED(IN) && OVER(IN, head[IN]) ->
             end_at(OUT, published);
             has_ended = true;
             any = true
          :: else
          fi
        };
        if
        :: failed -> fail(STAGES - 2); failed = false; break
        :: atomic {
             !failed ->
             // A copy's end rings no bell: it is seen when the time limit has passed.
             any || rung || in_flight > copying;
             any = false
           }
        fi
     od;
     // Nothing is given back while a copy may be running.
     atomic {
       copying == 0;
       do
       :: in_flight > 0 ->
          release(IN, flight[0]);
          flight[0] = flight[1];
          flight[1] = 0;
          in_flight--
       :: else -> break
       od;
       if
       :: holds -> release(IN, taken)
       :: else
       fi;
       if
       :: has_place -> publish(OUT, published, NONE)
       :: else
       fi;
       holds = false;
       has_place = false;
       taken = 0;
       published = 0;
       has_ended = false;
       any = false
     };
     come_to_rest()
  :: else -> break
  od
}

active proctype gpu() {
  do
  :: copying > 0 -> copying--
  :: finished -> break
  od
}
#endif

// The application stops at any time: also before a run, and after it.
proctype stopper() {
  byte i, j, k;
  if
  :: atomic { !locked && mishaps < MISHAPS -> locked = true; mishaps++ };
     if
#ifdef STOP_AFTER_THE_RUN
     :: true ->
#else
     :: running ->
#endif
        stopped = true;
#ifndef STOP_CLOSES_NOTHING
        close(STOPPED, NEVER);
#endif
        stop_is_done = true
     :: else
     fi;
     locked = false
  :: true
  fi
}

// detail/engine/engine.hpp and detail/ends/host_consumer.hpp: the thread that called run()
init {
  LOCALS;
  byte next;
  byte me = 0;
  byte tries;
  atomic {
    for (i : 0 .. HOST_STAGES - 1) {
      for (j : 0 .. WORKERS - 1) {
        if
        :: i == 0 -> run reader(1 + j)
#if HOST_STAGES > 1
        :: else -> run stager(1 + i * WORKERS + j, i)
#else
        :: else
#endif
        fi
      }
    }
#if DEVICE
    run device_thread(CREW);
#endif
    run stopper();
    i = 0;
    j = 0
  };
  do
  :: started < RUNS ->
     atomic {
       error = 0;
       d_step {
         first = 0;
         mishaps = 0;
         drained = false;
         for (i : 0 .. RINGS * DEPTH - 1) {
           word[i] = MAKE(0, FREE);
           slot[i] = 0
         }
         for (i : 0 .. RINGS - 1) {
           end[i] = NEVER;
           flow[i] = OPEN;
           head[i] = 0;
           tail[i] = 0
         }
         i = 0;
         working = CREW
       };
       if
       :: total = RECORDS; end[0] = total
#if !KNOWN_SIZE
       :: total = RECORDS - 1 // an empty slot shows the end
       :: total = 0; end[0] = 0
#endif
       fi
     };
     // begin()
     atomic { !locked; stopped = false; stop_is_done = false; running = true };
     started++;
     do
     :: STEP {
          take(RINGS - 1);
          if
          :: !ok -> break
          :: ok && STATE(word[AT(RINGS - 1, t)]) != NONE ->
             assert(slot[AT(RINGS - 1, t)] == next); // each once, in order, however the run ends
             next++
          :: else
          fi
        };
        if
        :: atomic { STATE(word[AT(RINGS - 1, t)]) != NONE && mishaps < MISHAPS -> mishaps++ };
           fail(LAST);
           release(RINGS - 1, t);
           break
        :: release(RINGS - 1, t)
        fi
     od;
#if DEVICE
     // Waiting for the device may fail too; it is tried twice.
     do
     :: atomic { tries < 2 && mishaps < MISHAPS -> mishaps++; tries++ }; fail(LAST)
     :: true -> break
     od;
     tries = 0;
     drained = true;
#ifndef DRAINED_IS_NOT_RUNG
     rung = true;
#endif
#endif
     working == 0;
     // end()
     atomic { !locked; running = false };
     atomic {
       assert(error == first);
       assert(error || stopped || next == total);
       for (i : 0 .. RINGS - 1) {
         assert((flow[i] != OPEN) == (error || stopped));
         assert(flow[i] != OPEN || end[i] != NEVER)
       };
       i = 0;
       next = 0;
       t = 0;
       ok = false
     }
  :: else -> break
  od;
  finished = true
}

ltl ends { <> finished }
