"""Tiny models with random weights, of mlx-lm architectures whose layers keep different kinds of state."""

from __future__ import annotations

import functools
import importlib

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache, make_prompt_cache

VOCABULARY = 70
WINDOW = 8
# Two logits so close to each other may change places by rounding.
NEAR = 1e-4

_ATTENTION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
}
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
}
_WINDOWED_FIRST = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]

CONFIGS = {
    "llama": {**_ATTENTION, "tie_word_embeddings": True},
    # Heads of 32 numbers, so that groups of 32 fit.
    "llama-wide": {**_ATTENTION, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1},
    "qwen3": {**_ATTENTION, "head_dim": 16, "tie_word_embeddings": True, "rope_theta": 1e4},
    "gemma3_text": {
        **_ATTENTION,
        "num_hidden_layers": 3,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
    },
    "gpt_oss": {
        **_ATTENTION,
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "rope_theta": 10_000,
        "layer_types": _WINDOWED_FIRST[:2],
    },
    "qwen3_moe": {**_ATTENTION, **_EXPERTS, "head_dim": 8, "rope_theta": 1e4, "tie_word_embeddings": True},
    "mamba2": {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 4,
        "head_dim": 8,
        "state_size": 8,
        "num_hidden_layers": 2,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": (0.001, 100.0),
        "time_step_rank": "auto",
        "vocab_size": VOCABULARY,
    },
    "mamba": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "state_size": 8,
        "num_hidden_layers": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
        "vocab_size": VOCABULARY,
    },
    "falcon_h1": {
        **_ATTENTION,
        "head_dim": 8,
        "mamba_d_conv": 4,
        "mamba_d_head": 8,
        "mamba_d_ssm": 32,
        "mamba_d_state": 8,
        "mamba_n_heads": 4,
        "rope_theta": 1e4,
    },
    "qwen3_next": {
        **_ATTENTION,
        **_EXPERTS,
        "num_hidden_layers": 4,
        "head_dim": 8,
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.5,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "shared_expert_intermediate_size": 24,
        "full_attention_interval": 2,
    },
    "lfm2": {
        **_ATTENTION,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 32,
        "block_ff_dim": 48,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "num_hidden_layers": 3,
        "full_attn_idxs": [1],
    },
    "gemma3n": {
        "text_config": {
            **_ATTENTION,
            "model_type": "gemma3n_text",
            "num_hidden_layers": 6,
            "head_dim": 8,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": VOCABULARY,
            "sliding_window": WINDOW,
            "rope_local_base_freq": 1e4,
            "rope_theta": 1e5,
            "final_logit_softcapping": 30.0,
            "layer_types": [*_WINDOWED_FIRST, *_WINDOWED_FIRST[:2]],
            "activation_sparsity_pattern": [0.5, 0, 0, 0, 0, 0],
            "hidden_size_per_layer_input": 8,
            "altup_num_inputs": 2,
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_active_idx": 0,
            "laurel_rank": 8,
        }
    },
    "gemma4_text": {
        **_ATTENTION,
        "num_hidden_layers": 6,
        "head_dim": 8,
        "global_head_dim": 16,
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
        "sliding_window": WINDOW,
        "layer_types": [*_WINDOWED_FIRST, *_WINDOWED_FIRST[:2]],
    },
    "llama4": {
        "text_config": {
            **_ATTENTION,
            "model_type": "llama4_text",
            "num_hidden_layers": 4,
            "attention_bias": False,
            "attention_chunk_size": WINDOW,
            "head_dim": 8,
            "interleave_moe_layer_step": 2,
            "intermediate_size_mlp": 48,
            "num_experts_per_tok": 1,
            "num_local_experts": 2,
            "rope_scaling": None,
            "rope_theta": 1e4,
            "use_qk_norm": True,
        }
    },
}
# One-dimensional weights that would do nothing as they are made.
_LIVELY = ("sinks", "bias", "correct_output_scale")


@functools.cache
def model_named(name: str):
    return tiny_model(name)


def tiny_model(name: str, *, seed: int = 5, **changes):
    """`name` as in CONFIGS; what stands behind a "-" tells variants of an architecture apart."""
    kind = name.split("-")[0]
    module = importlib.import_module(f"mlx_lm.models.{kind}")
    mx.random.seed(seed)  # some layers draw their first values themselves
    model = module.Model(module.ModelArgs.from_dict({"model_type": kind, **CONFIGS[name], **changes}))
    key = mx.random.key(seed)
    weights = []
    for path, value in tree_flatten(model.parameters()):
        key, own = mx.random.split(key)
        is_random = value.ndim > 1 or path.split(".")[-1] in _LIVELY
        scale = 1.0 if "embed" in path else 0.3
        weights.append((path, mx.random.normal(value.shape, key=own) * scale if is_random else value))
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def plain_tokens(model, prompt, num_tokens, *, storage=None, near=NEAR):
    """mlx-lm, one token at a time, under the tests' masks. Returns tokens, and where the two best are near ties."""
    caches = make_prompt_cache(model)
    tokens, ties = [], set()
    for token in prompt:
        logits = _step(model, token, caches, storage)
    while True:
        allowed = tiny.allowed_ids(tiny.mask_after(tokens))
        scores = np.array(logits, dtype=np.float32)[allowed]
        if len(scores) > 1 and np.diff(np.sort(scores)[-2:])[0] <= near:
            ties.add(len(tokens))
        tokens.append(allowed[int(scores.argmax())])
        if len(tokens) == num_tokens:
            return tokens, ties
        logits = _step(model, tokens[-1], caches, storage)


def plain_logits(model, tokens, *, storage=None):
    """What mlx-lm says behind each token, fed one at a time to its own cache. float32[tokens, vocabulary]."""
    caches = make_prompt_cache(model)
    return np.array(mx.stack([_step(model, token, caches, storage) for token in tokens]), dtype=np.float32)


def _step(model, token, caches, storage):
    """The logits behind one more token. Layers are packed as mlx-lm does it between two tokens."""
    if storage is not None:
        for place, cache in enumerate(caches):
            if isinstance(cache, KVCache) and cache.offset >= storage.quantized_kv_start:
                caches[place] = cache.to_quantized(group_size=storage.kv_group_size, bits=storage.kv_bits)
    return model(mx.array([[token]]), cache=caches)[0, -1]


class Rows:
    """Drives a cache round by round, as a batch does. `kept`: each row's tokens so far."""

    def __init__(self, model, cache):
        self.model, self.cache = model, cache
        self.kept = {row: [] for row in range(cache.num_rows)}
        self.again = {row: [] for row in range(cache.num_rows)}
        # The shapes of the passes' token ids.
        self.passes = []

    def trunk(self, ids, *, cache):
        self.passes.append(ids.shape)
        return self.model(ids, cache=cache)

    def round(self, feeds, keeps=None):
        """Feed tokens by row, keep the first `keeps[row]` (all). Returns the logits of all that was fed, by row."""
        whole = {row: self.again[row] + tokens for row, tokens in feeds.items()}
        wanted = [(row, len(self.again[row]) + place) for row, tokens in feeds.items() for place in range(len(tokens))]
        logits = self.cache.feed(self.trunk, whole, wanted)
        kept = {row: len(self.again[row]) + (keeps or {}).get(row, len(tokens)) for row, tokens in feeds.items()}
        num_again = self.cache.settle(kept)
        for row, tokens in feeds.items():
            self.kept[row] += tokens[: kept[row] - len(self.again[row])]
            self.again[row] = whole[row][: num_again[row]]
            assert self.cache.layout.lengths[row] == len(self.kept[row]) - len(self.again[row])
        ends = np.cumsum([len(tokens) for tokens in feeds.values()])[:-1]
        return dict(zip(feeds, np.split(np.array(logits), ends), strict=True))
