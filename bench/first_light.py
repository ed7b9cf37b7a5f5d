#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""02_histogram on a large file in the page cache, against the link, in alternation.

    bench/first_light.py BUILD_FOLDER FILE [GIGABYTES]

FILE is made, of random bytes, if it does not exist. Each round runs `link` and then
`02_histogram`, a process each; the last line has the medians and the ratio of each round's pair.
"""
import json, os, statistics, subprocess, sys

build, path, size = sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 8.6
if not os.path.exists(path):
    with open(path, 'wb') as file:
        left = int(size * 1e9)
        while left > 0:
            left -= file.write(os.urandom(min(left, 1 << 26)))

rounds = []
for number in range(7):
    link = float(subprocess.run([f'{build}/bench/link'], check=True, capture_output=True, text=True).stdout)
    options = ['--sequential'] if number >= 5 else []
    run = json.loads(subprocess.run([f'{build}/examples/02_histogram', '--device', 'cuda', '--json', *options, path],
                                    check=True, capture_output=True, text=True).stdout)
    busy = ' '.join(f"{s['name']} {s['busy_s'] / run['seconds']:.2f}" for s in run['stages'])
    print(f"link {link:.2f} GB/s, 02_histogram {run['gb_per_s']:.2f} GB/s = {run['gb_per_s'] / link:.3f} of it, "
          f"{run['bytes']} bytes in {run['seconds']:.4f} s, held back by {run['limiting_stage']}; busy: {busy}"
          + ''.join(f"; {key} {run[key]:.2f}" for key in run if key.startswith('times_faster')), flush=True)
    rounds.append((link, run['gb_per_s']))
print(f"median: link {statistics.median(r[0] for r in rounds):.2f} GB/s, "
      f"02_histogram {statistics.median(r[1] for r in rounds):.2f} GB/s, "
      f"ratio {statistics.median(r[1] / r[0] for r in rounds):.3f} of {len(rounds)} rounds on {run['device']}")
