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

std::vector<T> numbers(size_t size) {
  std::vector<float> read(size);
  if (std::fread(read.data(), 4, size, stdin) != size) std::abort();
  std::vector<T> found;
  for (float number : read) found.push_back(static_cast<T>(number));
  return found;
}

int main(int, char** arguments) {
  int sizes[5];
  for (int i = 0; i < 5; i++) sizes[i] = std::atoi(arguments[i + 1]);
  const auto [rows, heads, kv_heads, tokens, slots] = sizes;
  const float scale = std::atof(arguments[6]);
  const auto queries = numbers(size_t(rows) * tokens * heads * D);
  const auto keys = numbers(size_t(rows) * kv_heads * slots * D);
  const auto values = numbers(keys.size());
  std::vector<int> offsets(rows);
  if (std::fread(offsets.data(), 4, rows, stdin) != size_t(rows)) std::abort();
  std::vector<T> out(queries.size());
  const Strides strides{int64_t(tokens) * heads * D, D, int64_t(heads) * D, 1};
  const int num_blocks = (heads / kv_heads * tokens + 15) / 16;
  for (int place = 0; place < rows * kv_heads * num_blocks; place++) {
    const Place here{place % num_blocks, place / num_blocks % kv_heads, place / num_blocks / kv_heads};
    auto shared = std::make_unique<Block>(32 * WARPS);
    block = shared.get();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 32 * WARPS; thread++) {
      threads.emplace_back([&, thread] {
        threadIdx = {thread, 0, 0};
        blockIdx = here;
        kernel(
            queries.data(), {rows, heads, tokens, D}, strides, keys.data(), {rows, kv_heads, slots, D}, values.data(),
            offsets.data(), &scale, out.data());
      });
    }
    for (auto& thread : threads) thread.join();
  }
  for (const T number : out) {
    const float whole = static_cast<float>(number);
    std::fwrite(&whole, 4, 1, stdout);
  }
}
