// Attention of few queries over keys and values in place. A block takes 16 queries of one kv head of one row.
//
// Compile-time: T (bfloat16 or float16), D (head size, a multiple of 64), WARPS (of a block, a power of two).
// queries [rows, heads, tokens, D] of any strides; keys, values [rows, kv heads, slots, D], contiguous; offsets
// [rows]: the slot of each row's first query; scale: one number. Query `token` of a row sees slots 0 .. offset + token.
// out [rows, tokens, heads, D].
//
// Products are those of tensor cores, mma.m16n8k16 (PTX ISA, "Warp-level matrix instructions"): of a lane's numbers,
// `group` says the row of the first factor, and the column of the second; `part` the places that are summed over, and
// the columns of the result. In which order a sum runs over the head size, and which column is which part of a value,
// is free: both are chosen such that a lane reads keys and values by 16 bytes.
//
// The softmax is computed on the way over the slots: the largest score so far, the sum of the powers, and the weighted
// values are kept, and scaled down when a larger score is met (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", arXiv:1805.02867). Which warp sees which slot depends on the slot's number alone: a query's result does
// not depend on what else is in the pass.

constexpr int QUERIES = 16;
constexpr int SLOTS = 16;
constexpr int EIGHTHS = D / 8;
// Where no score is, and where one must not count: beside the first, and any score, its power is 0.
constexpr float LOWEST = -1e30f;
constexpr float HIDDEN = -1e38f;

// 8 numbers, two in each.
struct alignas(16) Eight {
  unsigned of[4];
};

const auto pair = [](T low, T high) {
  return static_cast<unsigned>(reinterpret_cast<const unsigned short&>(low)) |
      static_cast<unsigned>(reinterpret_cast<const unsigned short&>(high)) << 16;
};
const auto rounded = [&](float low, float high) { return pair(static_cast<T>(low), static_cast<T>(high)); };
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

const int warp = threadIdx.x / 32;
const int lane = threadIdx.x % 32;
const int group = lane / 4;
const int part = lane % 4;

const int row = blockIdx.z;
const int kv_head = blockIdx.y;
const int num_heads = queries_shape[1];
const int num_tokens = queries_shape[2];
const int num_kv_heads = keys_shape[1];
const int num_slots = keys_shape[2];
const int ratio = num_heads / num_kv_heads;
const int first_query = blockIdx.x * QUERIES;
const int last_query = min(first_query + QUERIES, ratio * num_tokens) - 1;
const int limit = min(offsets[row] + last_query / ratio + 1, num_slots);

// A lane's rows are the queries `group` and `group + 8` of the block; behind the last query, that one again.
unsigned query[EIGHTHS / 2][4];
int seen[2];
#pragma unroll
for (int r = 0; r < 2; r++) {
  const int number = min(first_query + group + 8 * r, last_query);
  const int head = kv_head * ratio + number % ratio;
  const int token = number / ratio;
  const T* own = queries + row * queries_strides[0] + head * queries_strides[1] + token * queries_strides[2];
  const auto at = [&](int place) { return own[place * queries_strides[3]]; };
#pragma unroll
  for (int step = 0; step < EIGHTHS / 2; step++) {
    const int place = 8 * (4 * (step / 2) + part) + 4 * (step % 2);
    query[step][r] = pair(at(place), at(place + 1));
    query[step][r + 2] = pair(at(place + 2), at(place + 3));
  }
  seen[r] = min(offsets[row] + token + 1, num_slots);
}

float sum[EIGHTHS][4] = {}, best[2] = {LOWEST, LOWEST}, total[2] = {0, 0};
// Powers of 2 are cheaper than those of e.
const float factor = scale[0] * 1.44269504f;
const int64_t begin = (static_cast<int64_t>(row) * num_kv_heads + kv_head) * num_slots * D;
for (int base = SLOTS * warp; base < limit; base += SLOTS * WARPS) {
  // Behind the limit its last slot is read again: its score does not count, and its numbers are finite.
  Eight key[2][EIGHTHS / 4], value[4][EIGHTHS / 8];
#pragma unroll
  for (int t = 0; t < 2; t++) {
    const int64_t slot = min(base + 8 * t + group, limit - 1);
#pragma unroll
    for (int c = 0; c < EIGHTHS / 4; c++) {
      key[t][c] = *reinterpret_cast<const Eight*>(keys + begin + slot * D + 8 * (4 * c + part));
    }
  }
#pragma unroll
  for (int v = 0; v < 4; v++) {
    const int64_t slot = min(base + 8 * (v / 2) + 2 * part + v % 2, limit - 1);
#pragma unroll
    for (int c = 0; c < EIGHTHS / 8; c++) {
      value[v][c] = *reinterpret_cast<const Eight*>(values + begin + slot * D + 8 * (8 * c + group));
    }
  }

  float score[2][4] = {};
#pragma unroll
  for (int t = 0; t < 2; t++) {
#pragma unroll
    for (int c = 0; c < EIGHTHS / 4; c++) {
      add_product(score[t], query[2 * c], key[t][c].of[0], key[t][c].of[1]);
      add_product(score[t], query[2 * c + 1], key[t][c].of[2], key[t][c].of[3]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float most = best[r];
#pragma unroll
    for (int t = 0; t < 2; t++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float& own = score[t][2 * r + e];
        own = base + 8 * t + 2 * part + e < seen[r] ? own * factor : HIDDEN;
        most = max(most, own);
      }
    }
    most = max(most, __shfl_xor_sync(0xffffffff, most, 1));
    most = max(most, __shfl_xor_sync(0xffffffff, most, 2));
    const float shrink = exp2f(best[r] - most);
    best[r] = most;
    total[r] *= shrink;
#pragma unroll
    for (int t = 0; t < 2; t++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float& own = score[t][2 * r + e];
        own = exp2f(own - most);
        total[r] += own;
      }
    }
#pragma unroll
    for (int d = 0; d < EIGHTHS; d++) {
      sum[d][2 * r] *= shrink;
      sum[d][2 * r + 1] *= shrink;
    }
  }
  const unsigned weight[4] = {
      rounded(score[0][0], score[0][1]),
      rounded(score[0][2], score[0][3]),
      rounded(score[1][0], score[1][1]),
      rounded(score[1][2], score[1][3])};
#pragma unroll
  for (int d = 0; d < EIGHTHS; d++) {
    // Two slots' numbers of the same place: the low halves of both, or the high ones.
    const unsigned halves = d % 2 == 0 ? 0x5410 : 0x7632;
    const int c = d / 8, pairs = d % 8 / 2;
    add_product(
        sum[d],
        weight,
        __byte_perm(value[0][c].of[pairs], value[1][c].of[pairs], halves),
        __byte_perm(value[2][c].of[pairs], value[3][c].of[pairs], halves));
  }
}

// Join the warps: the upper half of them gives what it has to the lower, until one is left.
#pragma unroll
for (int r = 0; r < 2; r++) {
  total[r] += __shfl_xor_sync(0xffffffff, total[r], 1);
  total[r] += __shfl_xor_sync(0xffffffff, total[r], 2);
}
__shared__ float given[WARPS / 2][4 * EIGHTHS + 4][32];
#pragma unroll
for (int half = WARPS / 2; half > 0; half /= 2) {
  if (half <= warp && warp < 2 * half) {
    auto& mine = given[warp - half];
#pragma unroll
    for (int d = 0; d < EIGHTHS; d++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        mine[4 * d + i][lane] = sum[d][i];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      mine[4 * EIGHTHS + r][lane] = best[r];
      mine[4 * EIGHTHS + 2 + r][lane] = total[r];
    }
  }
  __syncthreads();
  if (warp < half) {
    const auto& theirs = given[warp];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float most = max(best[r], theirs[4 * EIGHTHS + r][lane]);
      const float keep = exp2f(best[r] - most), take = exp2f(theirs[4 * EIGHTHS + r][lane] - most);
      best[r] = most;
      total[r] = keep * total[r] + take * theirs[4 * EIGHTHS + 2 + r][lane];
#pragma unroll
      for (int d = 0; d < EIGHTHS; d++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          sum[d][2 * r + e] = keep * sum[d][2 * r + e] + take * theirs[4 * d + 2 * r + e][lane];
        }
      }
    }
  }
  __syncthreads();
}

if (warp == 0) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int number = first_query + group + 8 * r;
    if (number > last_query) {
      continue;
    }
    const int64_t token = static_cast<int64_t>(row) * num_tokens + number / ratio;
    T* found = out + (token * num_heads + kv_head * ratio + number % ratio) * D;
#pragma unroll
    for (int c = 0; c < EIGHTHS / 8; c++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        Eight whole;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          whole.of[i] = rounded(
              sum[8 * c + 2 * i][2 * r + e] / total[r], sum[8 * c + 2 * i + 1][2 * r + e] / total[r]);
        }
        *reinterpret_cast<Eight*>(found + 8 * (8 * c + 2 * part + e)) = whole;
      }
    }
  }
}
