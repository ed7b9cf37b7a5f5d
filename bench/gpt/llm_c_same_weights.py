#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Does llm.c read a checkpoint as it is, and does it make the same loss and gradients of it?

bench/gpt/llm_c_same_weights.py --train PROGRAM --llm-c FOLDER --data FILE [--config NAME] [--device cuda|host]

It needs no GPU. FOLDER is llm.c's own: its train_gpt2.c, which computes on the processor, is compiled as it is, loads
what train has written, state and all, and goes forward and backward over the batch of `train --dump-gradients`. A
tensor's error is the length of the difference over the length of llm.c's gradient; beyond 1e-3 the exit code is 1.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 1e-3
# Prints the name and error of the loss, and of each of llm.c's tensors.
PROGRAM = r"""
#define TESTING
#include "train_gpt2.c"

static void get(void* to, size_t bytes, FILE* file) {
  if (fread(to, 1, bytes, file) != bytes) {
    exit(2);
  }
}

int main(int argc, char** argv) {
  const char* names[] = {"wte", "wpe", "ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb", "ln2w", "ln2b", "fcw", "fcb",
                         "fcprojw", "fcprojb", "lnfw", "lnfb"};
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  FILE* file = fopen(argv[2], "rb");
  char magic[8];
  unsigned sizes[3];
  float loss;
  get(magic, 8, file);
  get(sizes, 12, file);
  get(&loss, 4, file);
  fseek(file, 24 + 1024, SEEK_SET);
  const int batch = (int)sizes[1], tokens = (int)sizes[2];
  const size_t count = (size_t)batch * (size_t)tokens;
  int* inputs = malloc(4 * count);
  int* targets = malloc(4 * count);
  get(inputs, 4 * count, file);
  get(targets, 4 * count, file);
  gpt2_forward(&model, inputs, targets, batch, tokens);
  gpt2_zero_grad(&model);
  gpt2_backward(&model);
  printf("error loss %g\n", fabs(loss - model.mean_loss) / fabs(model.mean_loss));
  const float* llm_c = model.grads_memory;
  for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
    float* ours = malloc(4 * model.param_sizes[i]);
    get(ours, 4 * model.param_sizes[i], file);
    double difference = 0, length = 0;
    for (size_t k = 0; k < model.param_sizes[i]; k++) {
      const double off = (double)ours[k] - (double)llm_c[k];
      difference += off * off;
      length += (double)llm_c[k] * (double)llm_c[k];
    }
    llm_c += model.param_sizes[i];
    free(ours);
    printf("error %s %g\n", names[i], sqrt(difference / length));
  }
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--llm-c", required=True, type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default="tiny")
    parser.add_argument("--device", default="host")
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, program, checkpoint, gradients = (str(Path(folder) / name) for name in ("same.c", "same", "checkpoint", "gradients"))
        Path(source).write_text(PROGRAM, encoding="utf-8")
        # llm.c's own warnings are not ours to mend.
        subprocess.run([args.cc, "-O2", "-w", "-I", str(args.llm_c), source, "-o", program, "-lm"], check=True)
        common = [args.train, "--data", args.data, "--config", args.config, "--device", args.device, "--events", "none",
                  "--dropout", "0", "--eval-every", "0", "--batch", "4"]
        subprocess.run([*common, "--steps", "20", "--checkpoint", checkpoint], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*common, "--steps", "21", "--resume", checkpoint, "--dump-gradients", gradients], check=True,
                       stdout=subprocess.DEVNULL)
        lines = subprocess.run([program, checkpoint, gradients], check=True, capture_output=True, text=True).stdout.splitlines()
    errors = {line.split()[1]: float(line.split()[2]) for line in lines if line.startswith("error ")}
    for name, error in errors.items():
        print(f"{name:10} {error:10.2e}{'' if error <= LIMIT else '  beyond the limit'}")
    # A comparison with NaN is false, so that one counts as beyond the limit.
    sys.exit(not (len(errors) == 17 and all(error <= LIMIT for error in errors.values())))


main()
