// Runs few_rows.cu (KERNEL, with its mma instructions replaced) on the host, for T and its other constants.
//
//     program ROWS COLUMNS SIZE < packed (uint32), scales biases x (float32)  > out (float32)
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "warps.hpp"

using Shape = std::array<int, 2>;

void kernel(
    const T* x,
    const Shape x_shape,
    const uint32_t* packed,
    const Shape packed_shape,
    const T* scales,
    const T* biases,
    T* out) {
#include KERNEL
}

int main(int, char** arguments) {
  int sizes[3];
  for (int i = 0; i < 3; i++) sizes[i] = std::atoi(arguments[i + 1]);
  const auto [rows, columns, size] = sizes;
  std::vector<uint32_t> packed(size_t(columns) * size * BITS / 32);
  if (std::fread(packed.data(), 4, packed.size(), stdin) != packed.size()) std::abort();
  const auto scales = numbers<T>(size_t(columns) * size / GROUP);
  const auto biases = numbers<T>(scales.size());
  const auto x = numbers<T>(size_t(rows) * size);
  std::vector<T> out(size_t(rows) * columns);
  run_blocks({columns / (16 * TILES), (rows + 8 * EIGHTS - 1) / (8 * EIGHTS), 1}, 32 * WARPS, [&] {
    kernel(
        x.data(), {rows, size}, packed.data(), {columns, size * BITS / 32}, scales.data(), biases.data(), out.data());
  });
  write(out);
}
