// Products of few rows with a quantized matrix. A block takes 16 * TILES rows of the matrix, and all rows of x.
//
// Compile-time: T (bfloat16 or float16), BITS (4 or 8), GROUP (numbers that share a scale, a multiple of 32), EIGHTS (of
// rows of x), TILES, WARPS (of a block, a power of two).
// x [rows, size], scales and biases [columns, size / GROUP] of T; packed uint32[columns, size * BITS / 32], the first
// number of a word in its lowest bits; all contiguous. The size is a multiple of 128, columns are one of 16 * TILES.
// out [rows, columns].
// A number of the matrix is scale * packed + bias, rounded to T once.
//
// Products are those of tensor cores, mma.m16n8k16 (PTX ISA, "Warp-level matrix instructions"), with the matrix as the
// first factor, so that few rows of x leave little of an instruction unused. In which order a sum runs is free: a lane
// has RUN numbers in a row of the matrix, and the same places of x, both read by 16 bytes.
//
// The size is shared out among the warps, and how does not depend on the rows of x: a row's result has the same bits,
// whatever else is multiplied.

constexpr int RUN = 32;
constexpr int STEP = 4 * RUN;
constexpr int IN_WORD = 32 / BITS;
constexpr int LOADS = RUN / IN_WORD / 4;

// 8 numbers, two in each; or four words of packed ones.
struct alignas(16) Eight {
  unsigned of[4];
};
using Two = cuda::std::conditional_t<cuda::std::is_same_v<T, __half>, __half2, __nv_bfloat162>;

const auto add_product = [](float* sum, const unsigned* a, unsigned b0, unsigned b1) {
  if constexpr (cuda::std::is_same_v<T, __half>) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
const auto as_two = [](unsigned bits) { return reinterpret_cast<const Two&>(bits); };
const auto as_bits = [](Two two) { return reinterpret_cast<const unsigned&>(two); };

// The numbers 8 * i to 8 * i + 7 of a run.
const auto unpacked = [&](const Eight* run, int i, T scale, T bias) {
  Eight found;
  if constexpr (BITS == 4) {
    // A small whole number n beside a power of two, 128 + n or 1024 + n: n is its lowest bits.
    constexpr unsigned ONE = cuda::std::is_same_v<T, __half> ? 0x6400 : 0x4300;
    constexpr unsigned BOTH = ONE << 16 | ONE;
    const Two scales{scale, scale}, biases{bias, bias};
    const unsigned even = run[0].of[i], odd = even >> 4;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const unsigned two = __byte_perm(even, odd, 0x0400 + 0x0101 * j) & 0x000f000f | BOTH;
      found.of[j] = as_bits(__hfma2(__hsub2(as_two(two), as_two(BOTH)), scales, biases));
    }
  } else {
    const float factor = static_cast<float>(scale), begin = static_cast<float>(bias);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const unsigned two = run[i / 2].of[2 * (i % 2) + j / 2] >> 16 * (j % 2);
      const float low = static_cast<float>(two & 255), high = static_cast<float>(two >> 8 & 255);
      const Two rounded{static_cast<T>(low * factor + begin), static_cast<T>(high * factor + begin)};
      found.of[j] = as_bits(rounded);
    }
  }
  return found;
};

const int warp = threadIdx.x / 32;
const int lane = threadIdx.x % 32;
const int group = lane / 4;
const int part = lane % 4;

const int num_rows = x_shape[0];
const int size = x_shape[1];
const int num_columns = packed_shape[0];
const int first_column = blockIdx.x * 16 * TILES;
const int first_row = blockIdx.y * 8 * EIGHTS;

// A lane's columns are `group` and `group + 8` of each tile; its rows of x are `group` of each eight.
const auto column = [&](int c) { return static_cast<int64_t>(first_column + 8 * c + group); };
struct Matrix {
  Eight run[2 * TILES][LOADS];
  T scale[2 * TILES], bias[2 * TILES];
};
const auto read = [&](Matrix& found, int begin) {
  const int place = begin + RUN * part;
#pragma unroll
  for (int c = 0; c < 2 * TILES; c++) {
    const auto* run = reinterpret_cast<const Eight*>(packed + (column(c) * size + place) / IN_WORD);
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      found.run[c][i] = run[i];
    }
    const int64_t of_group = (column(c) * size + place) / GROUP;
    found.scale[c] = scales[of_group];
    found.bias[c] = biases[of_group];
  }
};

float sum[TILES][EIGHTS][4] = {};
const int num_steps = size / STEP;
const int share = (num_steps + WARPS - 1) / WARPS;
const int first_step = min(warp * share, num_steps);
const int last_step = min(first_step + share, num_steps);
Matrix next;
if (first_step < last_step) {
  read(next, first_step * STEP);
}
for (int step = first_step; step < last_step; step++) {
  const Matrix now = next;
  if (step + 1 < last_step) {
    read(next, (step + 1) * STEP);
  }
#pragma unroll
  for (int i = 0; i < RUN / 8; i++) {
    Eight own[EIGHTS];
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
      const int64_t row = min(first_row + 8 * e + group, num_rows - 1);
      own[e] = *reinterpret_cast<const Eight*>(x + row * size + step * STEP + RUN * part + 8 * i);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      const Eight low = unpacked(now.run[2 * t], i, now.scale[2 * t], now.bias[2 * t]);
      const Eight high = unpacked(now.run[2 * t + 1], i, now.scale[2 * t + 1], now.bias[2 * t + 1]);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const unsigned matrix[4] = {
            low.of[2 * half], high.of[2 * half], low.of[2 * half + 1], high.of[2 * half + 1]};
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          add_product(sum[t][e], matrix, own[e].of[2 * half], own[e].of[2 * half + 1]);
        }
      }
    }
  }
}

// Join the warps: the upper half of them gives what it has to the lower, until one is left.
__shared__ float given[WARPS / 2][4 * TILES * EIGHTS][32];
#pragma unroll
for (int half = WARPS / 2; half > 0; half /= 2) {
  if (half <= warp && warp < 2 * half) {
#pragma unroll
    for (int i = 0; i < 4 * TILES * EIGHTS; i++) {
      given[warp - half][i][lane] = sum[i / (4 * EIGHTS)][i / 4 % EIGHTS][i % 4];
    }
  }
  __syncthreads();
  if (warp < half) {
#pragma unroll
    for (int i = 0; i < 4 * TILES * EIGHTS; i++) {
      sum[i / (4 * EIGHTS)][i / 4 % EIGHTS][i % 4] += given[warp][i][lane];
    }
  }
  __syncthreads();
}

if (warp == 0) {
#pragma unroll
  for (int e = 0; e < EIGHTS; e++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int64_t row = first_row + 8 * e + 2 * part + i;
      if (row < num_rows) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
          out[row * num_columns + column(2 * t)] = static_cast<T>(sum[t][e][i]);
          out[row * num_columns + column(2 * t + 1)] = static_cast<T>(sum[t][e][2 + i]);
        }
      }
    }
  }
}
