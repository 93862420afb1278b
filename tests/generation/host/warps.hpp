// A stand-in for a CUDA block on the host: each of its threads is one here, and whatever a warp does together meets at
// a barrier. Enough for ragged_attention.cu, and slow.
#pragma once

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

using std::max;
using std::min;

namespace cuda::std {
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
