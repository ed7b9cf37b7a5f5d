// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Says what the standard library has. On a system that is refused below, its headers may fail too.
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && __cplusplus >= 202002L
#include <version>
#endif

// A system or compiler that is not tested is refused, whichever header a user includes first: each
// includes this one before all others. An #error alone would let compilers go on; a missing file
// does not.
#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "penstock needs Linux on x86-64 or Arm64, and this is another system: build for one of them."
#elif defined(__clang__) && __clang_major__ < 17
#error "penstock needs clang 17 or later, and this is clang 16 or older: take clang++-19."
#elif !defined(__clang__) && defined(__GNUC__) && __GNUC__ < 12
#error "penstock needs g++ 12 or later, and this is g++ 11 or older: take g++-12."
#elif defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1204
#error "penstock needs nvcc 12.4 or later, and this is an older one: install CUDA 13."
#elif __cplusplus < 202002L
#error "penstock needs C++20, and this is older: compile with -std=c++20 (Meson: cpp_std=c++20)."
#elif !defined(__cpp_exceptions)
#error "penstock needs exceptions, and this build has none: compile without -fno-exceptions."
#elif !defined(__cpp_lib_jthread)
#error "penstock needs std::stop_token: take libstdc++, or give libc++ -fexperimental-library."
#elif defined(PENSTOCK_IN_ONE_FILE)
#error "penstock: a file that has all in one came before: name this header too when you make that."
#else
#define PENSTOCK_SUPPORTED
#endif
#if !defined(PENSTOCK_SUPPORTED)
#include "penstock: see the error above" // no such file
#endif
#undef PENSTOCK_SUPPORTED

#include <cstddef>

/// \file
/// What compilers differ in.

/// Marks a function for the host and the GPU where nvcc compiles it, else for the host.
#if defined(__CUDACC__)
#define PENSTOCK_HD __host__ __device__
#else
#define PENSTOCK_HD
#endif

/// Whether this source has the bodies of functions that depend on no type of the user's. Without a
/// macro of the program's, each source compiles those that it uses. A program that defines
/// PENSTOCK_COMPILED for all its sources has them compiled once: it compiles penstock/penstock.cpp,
/// which defines PENSTOCK_IMPLEMENTATION, or links it as a library. Layouts and code are the same
/// either way, so that a source that lacks the macro costs time to compile, and nothing else.
#if defined(PENSTOCK_COMPILED) && !defined(PENSTOCK_IMPLEMENTATION)
#define PENSTOCK_BODIES 0
#else
#define PENSTOCK_BODIES 1
#endif

/// Marks such a body. Virtual functions say it in their class too, so that the vtable of a class
/// that a source does not use is left out of it.
#if defined(PENSTOCK_COMPILED) || defined(PENSTOCK_IMPLEMENTATION)
#define PENSTOCK_INLINE
#else
#define PENSTOCK_INLINE inline
#endif
/// Marks such a body that no caller shall take in. nvcc 12 says `inline` in the declaration too,
/// and g++ then warns of the attribute.
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ < 13
#define PENSTOCK_NOINLINE PENSTOCK_INLINE
#else
#define PENSTOCK_NOINLINE [[gnu::noinline]] PENSTOCK_INLINE
#endif

namespace penstock::detail {

/// How far apart the data of two threads must lie not to slow each other down. A constant of our
/// own, since std::hardware_destructive_interference_size changes with compiler flags and g++ warns
/// about it.
inline constexpr std::size_t cache_line = 64;
/// What data written for each slot keeps to itself: two lines, since processors fetch them in
/// pairs.
inline constexpr std::size_t cache_lines = 2 * cache_line;

/// What reads and rings are laid out for. A kernel for Arm may have pages of 64 KiB: what must be a
/// whole page of the system's asks that.
inline constexpr std::size_t page = 4096;

} // namespace penstock::detail
