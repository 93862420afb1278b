// A stand-in for CUDA blocks on the host: each thread of a block is one here, and whatever a warp does together meets at
// a barrier. Enough for our kernels, and slow.
#pragma once

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

using std::max;
using std::min;

namespace cuda::std {
using ::std::conditional_t;
using ::std::is_same_v;
}

// bfloat16: the upper half of a float, rounded to the nearest, ties to even.
struct bfloat16 {
  unsigned short bits = 0;
  bfloat16() = default;
  explicit bfloat16(float number) {
    uint32_t all;
    std::memcpy(&all, &number, 4);
    bits = static_cast<unsigned short>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const uint32_t all = static_cast<uint32_t>(bits) << 16;
    float number;
    std::memcpy(&number, &all, 4);
    return number;
  }
};

using __half = _Float16;

template <typename T>
struct Pair {
  T x, y;
};
using __half2 = Pair<__half>;
using __nv_bfloat162 = Pair<bfloat16>;

template <typename T>
Pair<T> __hsub2(Pair<T> a, Pair<T> b) {
  const auto one = [](T a, T b) { return static_cast<T>(static_cast<float>(a) - static_cast<float>(b)); };
  return {one(a.x, b.x), one(a.y, b.y)};
}

// Products of two numbers of half precision are exact in double, and the sum is rounded once.
template <typename T>
Pair<T> __hfma2(Pair<T> a, Pair<T> b, Pair<T> c) {
  const auto one = [](T a, T b, T c) {
    const auto wide = [](T number) { return static_cast<double>(static_cast<float>(number)); };
    return static_cast<T>(static_cast<float>(wide(a) * wide(b) + wide(c)));
  };
  return {one(a.x, b.x, c.x), one(a.y, b.y, c.y)};
}

struct Place {
  int x, y, z;
};
inline thread_local Place threadIdx, blockIdx;

// What the threads of a block share.
struct Block {
  explicit Block(int num_threads) : all(num_threads), exchanged(num_threads), first(4 * num_threads), second(2 * num_threads) {
    for (int i = 0; i < num_threads / 32; i++) {
      warps.push_back(std::make_unique<std::barrier<>>(32));
    }
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> exchanged;
  std::vector<unsigned> first, second;
};
inline Block* block = nullptr;

inline void meet() { block->warps[threadIdx.x / 32]->arrive_and_wait(); }
inline void __syncthreads() { block->all.arrive_and_wait(); }

inline float __shfl_xor_sync(unsigned, float own, int distance) {
  block->exchanged[threadIdx.x] = own;
  meet();
  const float found = block->exchanged[threadIdx.x ^ distance];
  meet();
  return found;
}

// Byte i of the result is the byte of (high, low) that the i-th four bits of `selector` name.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  unsigned found = 0;
  for (int i = 0; i < 4; i++) {
    found |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  }
  return found;
}

template <typename T>
float half_of(unsigned pair, int which) {
  const auto bits = static_cast<unsigned short>(which ? pair >> 16 : pair & 0xffff);
  T number;
  std::memcpy(&number, &bits, 2);
  return static_cast<float>(number);
}

// mma.m16n8k16, row by column, as the PTX ISA lays its numbers out over the lanes.
template <typename T>
void mma(float* sum, const unsigned* a, unsigned b0, unsigned b1) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  std::copy(a, a + 4, &block->first[4 * threadIdx.x]);
  block->second[2 * threadIdx.x] = b0;
  block->second[2 * threadIdx.x + 1] = b1;
  meet();
  for (int i = 0; i < 4; i++) {
    const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 16; k++) {
      const int of_row = warp + row % 8 * 4 + k % 8 / 2, of_column = warp + column * 4 + k % 8 / 2;
      sum[i] += half_of<T>(block->first[4 * of_row + k / 8 * 2 + row / 8], k % 2) *
          half_of<T>(block->second[2 * of_column + k / 8], k % 2);
    }
  }
  meet();
}

// Runs `kernel`, one block after the other.
template <typename Kernel>
void run_blocks(Place count, int num_threads, Kernel kernel) {
  for (int number = 0; number < count.x * count.y * count.z; number++) {
    const Place here{number % count.x, number / count.x % count.y, number / count.x / count.y};
    auto shared = std::make_unique<Block>(num_threads);
    block = shared.get();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < num_threads; thread++) {
      threads.emplace_back([&, thread] {
        threadIdx = {thread, 0, 0};
        blockIdx = here;
        kernel();
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

// The next `size` numbers (float32) of the standard input.
template <typename T>
std::vector<T> numbers(size_t size) {
  std::vector<float> read(size);
  if (std::fread(read.data(), 4, size, stdin) != size) std::abort();
  std::vector<T> found;
  for (float number : read) found.push_back(static_cast<T>(number));
  return found;
}

template <typename T>
void write(const std::vector<T>& found) {
  for (const T number : found) {
    const float whole = static_cast<float>(number);
    std::fwrite(&whole, 4, 1, stdout);
  }
}
