"""Small random models of transformers' families, and what tests of them share."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch
import transformers

SIZES = {
    "vocab_size": 131,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,  # large: attention is far from uniform, gates far from linear
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 20,
    "head_dim": 8,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
SETTINGS = {
    "llama": {},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "qwen3": {"head_dim": 32},
    "mistral": {"sliding_window": 7},
    "gemma3": {"sliding_window": 5, "head_dim": 16, "query_pre_attn_scalar": 16,
               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "phi3": {"sliding_window": 9, "partial_rotary_factor": 0.5},
    "deepseek_v2": LATENT,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 4,
           "moe_intermediate_size": 32}  # fmt: skip
# Families without a line of their own in tilewright: what is replaced follows from their code.
OTHERS = {
    "gemma2": ({"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 6}, "rns"),
    "qwen3_moe": ({"head_dim": 16, **EXPERTS}, "rn"),
    "olmo2": ({}, "rns"),
    "glm4": ({"head_dim": 16}, "rns"),  # rotates neighbours, half of them
    "cohere": ({}, "rs"),  # rotates neighbours
    "smollm3": ({"no_rope_layers": [1, 0, 1]}, "rns"),
    "stablelm": ({}, "rs"),  # rotates a quarter
    "gpt_neox": ({}, "r"),
    "gpt_oss": ({"head_dim": 16, "sliding_window": 6, **EXPERTS}, "rn"),  # sinks
    "deepseek_v3": ({**LATENT, "num_experts_per_tok": 4}, "rns"),  # takes pairs apart
    "doge": ({}, "rns"),  # adds to its mask
    "hy_v4": ({"head_dim": 16, **EXPERTS}, "rns"),  # looks into its mask
    "llama4_text": ({"head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 4,
                     "attention_chunk_size": 8, "moe_layers": [1]}, ""),  # chunks
}  # fmt: skip
TOLERANCE = 1e-4  # of the largest logit


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """No gradients; one thread, which is fastest for layers of this size."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def build(family: str, **settings: object) -> transformers.PreTrainedModel:
    """A random model; the same one each time."""
    torch.manual_seed(5)
    kind = {"gemma3": "gemma3_text"}.get(family, family)
    own = SETTINGS[family] if family in SETTINGS else OTHERS[family][0]
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **own, **settings})
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # ones and zeros would hide a missing one
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


model_of = functools.cache(build)


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 131, (batch, length), generator=torch.Generator().manual_seed(batch))


def assert_close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.shape == want.shape
    assert float((got - want).abs().max()) <= TOLERANCE * float(want.abs().max())
