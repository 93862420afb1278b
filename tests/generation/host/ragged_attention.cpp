// Runs ragged_attention.cu (KERNEL, with its mma instructions replaced) on the host, for T, D and WARPS.
//
//     program ROWS HEADS KV_HEADS TOKENS SLOTS SCALE < queries keys values (float32), offsets (int32)  > out (float32)
//
// queries lie as [rows, tokens, heads, D] and are seen as [rows, heads, tokens, D], as a model's are.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "warps.hpp"

using Shape = std::array<int, 4>;
using Strides = std::array<int64_t, 4>;

void kernel(
    const T* queries,
    const Shape queries_shape,
    const Strides queries_strides,
    const T* keys,
    const Shape keys_shape,
    const T* values,
    const int* offsets,
    const float* scale,
    T* out) {
#include KERNEL
}

int main(int, char** arguments) {
  int sizes[5];
  for (int i = 0; i < 5; i++) sizes[i] = std::atoi(arguments[i + 1]);
  const auto [rows, heads, kv_heads, tokens, slots] = sizes;
  const float scale = std::atof(arguments[6]);
  const auto queries = numbers<T>(size_t(rows) * tokens * heads * D);
  const auto keys = numbers<T>(size_t(rows) * kv_heads * slots * D);
  const auto values = numbers<T>(keys.size());
  std::vector<int> offsets(rows);
  if (std::fread(offsets.data(), 4, rows, stdin) != size_t(rows)) std::abort();
  std::vector<T> out(queries.size());
  const Strides strides{int64_t(tokens) * heads * D, D, int64_t(heads) * D, 1};
  const int num_blocks = (heads / kv_heads * tokens + 15) / 16;
  run_blocks({num_blocks, kv_heads, rows}, 32 * WARPS, [&] {
    kernel(
        queries.data(), {rows, heads, tokens, D}, strides, keys.data(), {rows, kv_heads, slots, D}, values.data(),
        offsets.data(), &scale, out.data());
  });
  write(out);
}
