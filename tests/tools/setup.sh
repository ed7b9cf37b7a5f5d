# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
# For examples/run and tests/run: finds or installs the tools that they need. All its messages go to stderr.

say() { printf 'penstock: %s\n' "$*" >&2; }

quietly() { # COMMAND…: its output only if it fails
  local said
  said=$("$@" 2>&1 </dev/null) || { printf '%s\n' "$said" | tail -n 40 >&2; return 1; }
}

has() { command -v "$1" >/dev/null 2>&1; }
at_least_meson=${at_least_meson:-1.0} # a caller that needs a newer one sets it before
new_meson() { has meson && printf '%s\n' "$at_least_meson" "$(meson --version 2>/dev/null)" | sort -V -C; }
gxx_version() { "$1" -dumpversion 2>/dev/null | cut -d. -f1; }
new_gxx() { has "$1" && [ "$(gxx_version "$1")" -ge 12 ]; }

nvcc_runs() { nvcc --version >/dev/null 2>&1; }

# The toolkit's own folder is often not on the path.
for folder in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda; do
  if ! nvcc_runs && [ -n "$folder" ] && [ -x "$folder/bin/nvcc" ]; then
    PATH=$folder/bin:$PATH
  fi
done

have_package() { # PACKAGE: whether the tool that we want from it is there, however it was installed
  case $1 in
    meson) new_meson ;;
    ninja-build) has ninja ;;
    g++) [ -n "${CXX:-}" ] || new_gxx g++ || new_gxx g++-12 || new_gxx g++-13 ;;
    g++-12) have_package g++ ;;
    pkg-config) has pkg-config ;;
    catch2) pkg-config --exists catch2 2>/dev/null ;;
    relacy-dev) [ -f /usr/include/relacy/relacy.hpp ] ;;
    libclang-rt-19-dev) compgen -G '/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.tsan*.a' >/dev/null ;;
    libbenchmark-dev) [ -f /usr/include/benchmark/benchmark.h ] ;;
    clang-19) has clang++-19 ;;
    lld-19) has ld.lld-19 ;;
    fiu-utils) has fiu-run ;;
    openmpi-bin) has mpirun ;;
    python3-numpy) python3 -c "import numpy" 2>/dev/null || /usr/bin/python3 -c "import numpy" 2>/dev/null ;;
    zlib1g-dev) [ -f /usr/include/zlib.h ] ;;
    libzstd-dev) [ -f /usr/include/zstd.h ] ;;
    liblz4-dev) [ -f /usr/include/lz4frame.h ] ;;
    libdeflate-dev) [ -f /usr/include/libdeflate.h ] ;;
    libcurl4-openssl-dev) pkg-config --exists libcurl 2>/dev/null ;;
    libturbojpeg0-dev) pkg-config --exists libturbojpeg 2>/dev/null ;;
    libpng-dev) pkg-config --exists libpng 2>/dev/null ;;
    python3-pil) python3 -c "import PIL" 2>/dev/null || /usr/bin/python3 -c "import PIL" 2>/dev/null ;;
    golang-1.19-src) compgen -G '/usr/share/go-*/src/image/testdata' >/dev/null ;;
    *) has "$1" ;;
  esac
}

missing_of() { for package in "$@"; do have_package "$package" || printf '%s ' "$package"; done; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

install_packages() { # PACKAGE…: as many of them as are available
  if ! has apt-get; then
    say "there is no apt-get here. Please install: $*"
  elif [ "$(id -u)" != 0 ] && ! { has sudo && sudo -n true 2>/dev/null; }; then
    say "not root, and no sudo without a password. Please run: apt-get install $*"
  else
    say "installing $*"
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
    quietly as_root "${get[@]}" update || say "apt-get update failed; going on with what it knows"
    # Together if possible; else one by one, since apt-get refuses all if it does not know one.
    if ! quietly as_root "${get[@]}" install -y --no-install-recommends "$@" 2>/dev/null; then
      for package in "$@"; do
        quietly as_root "${get[@]}" install -y --no-install-recommends "$package" || say "could not install $package"
      done
    fi
  fi
}

need() { # PACKAGE…: installs those that are missing; they may still be missing afterwards
  local missing
  missing=$(missing_of "$@")
  # shellcheck disable=SC2086 # a list of words
  [ -z "$missing" ] || install_packages $missing
}

must_have() { # PACKAGE…: gives up if one is missing
  local missing
  missing=$(missing_of "$@")
  if [ -n "$missing" ]; then
    say "cannot go on without ${missing% }"
    exit 1
  fi
}

environment_of() { # FOLDER PACKAGE…: makes one of PyPI's packages
  has pip3 && python3 -c 'import ensurepip' 2>/dev/null || need python3-venv
  quietly python3 -m venv "$1" && quietly "$1/bin/pip" install -q "${@:2}"
}

need_to_build() { # what every build needs, and which compiler it takes
  new_meson || ! [ -x "$root/build/meson/bin/meson" ] || PATH=$root/build/meson/bin:$PATH
  need meson ninja-build g++ pkg-config python3
  have_package g++ || need g++-12
  if ! new_meson && has python3; then
    # The distribution's Meson may be older.
    say "installing a newer meson into build/meson"
    environment_of "$root/build/meson" "meson>=$at_least_meson" && PATH=$root/build/meson/bin:$PATH
  fi
  must_have meson ninja-build g++ pkg-config python3
  if [ -z "${CXX:-}" ]; then
    for CXX in g++ g++-13 g++-12; do
      new_gxx "$CXX" && break
    done
    [ "$CXX" = g++ ] || export NVCC_PREPEND_FLAGS="-ccbin=$CXX ${NVCC_PREPEND_FLAGS:-}"
    export CXX
  fi
  # By its path: a python3 that is a shim may put another meson first for the programs that it runs.
  MESON=$(command -v meson)
  export PATH MESON
  nvcc_runs || say "there is no CUDA toolkit (no nvcc that runs): building for the host device alone"
}
