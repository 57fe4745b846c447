"""Small random language models of every decoder family, as transformers has them and as GGUF.

The tensors' names come from the `gguf` package; the rest of a conversion is what llama.cpp's
converter does: Llama's queries and keys change their rotary order, Gemma's norms gain one.

Example:
    >>> tiny = build(CASES[0], tmp_path)
    >>> tiny.reference(torch.tensor([[1, 2, 3]])).logits
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf_files import BLOCK_TYPES, Raw, random_blocks, write_gguf

VOCABULARY = 331  # odd, so that the last panel of the head is ragged

# transformers' name of a family -> its architecture in GGUF.
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma": gguf.MODEL_ARCH.GEMMA,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "olmo3": gguf.MODEL_ARCH.OLMO2,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "glm4": gguf.MODEL_ARCH.GLM4,
}
PERMUTED = ("llama", "granite", "smollm3")  # whose rotary pairs the converter makes neighbours


@dataclass
class Case:
    """A model: its family, what differs from `SIZES`, and how the file stores it."""

    name: str
    family: str
    settings: dict[str, Any] = field(default_factory=dict)
    dtype: str = "f32"  # of matrices: f32, f16, bf16 or a block format; the rest is always f32
    dtypes: dict[str, str] = field(default_factory=dict)  # by a part of transformers' name
    extra: dict[str, Any] = field(default_factory=dict)  # metadata, None: left out, and tensors


@dataclass
class Tiny:
    """A built model."""

    path: Path
    reference: transformers.PreTrainedModel


SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "initializer_range": 0.3,  # large: attention is far from uniform, gates far from linear
    "rms_norm_eps": 1e-5,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Multiples of 256, as the K formats need.
WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}


def rope(kind: str, **values: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **values}}


LLAMA31 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=128)
YARN_TUNED = rope(
    "yarn",
    factor=4.0,
    original_max_position_embeddings=128,
    beta_fast=4.0,
    beta_slow=0.5,
    attention_factor=1.3,
)
GEMMA3_ROPE = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }
}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16, "tie_word_embeddings": True}
PATTERN = ["sliding", "full", "sliding"]

CASES = [
    Case("llama", "llama"),
    Case("llama-f16", "llama", {"tie_word_embeddings": True}, "f16"),
    Case("llama-bf16", "llama", {}, "bf16"),
    Case("llama-q8_0", "llama", {}, "q8_0"),
    Case("llama-q4_1-tied", "llama", {"tie_word_embeddings": True}, "q4_1"),
    Case("llama-q4_k", "llama", WIDE, "q4_k"),
    Case("llama-q6_k", "llama", WIDE, "q6_k"),
    Case("llama-iq4_nl", "llama", {}, "iq4_nl"),
    Case("llama-q2_k", "llama", WIDE, "q2_k", {"embed": "f16", "v_proj": "q5_k"}),
    Case("llama-mxfp4", "llama", WIDE, "mxfp4", {"embed": "q8_0", "o_proj": "bf16"}),
    Case("llama-mixed", "llama", {}, "q4_0", {"v_proj": "q8_0", "up_proj": "f16", "lm": "q4_1"}),
    Case("llama-biases", "llama", {"attention_bias": True}),
    Case("llama-biases-q5_0", "llama", {"attention_bias": True}, "q5_0"),
    Case("llama-mlp-biases", "llama", {"mlp_bias": True}),
    Case("llama-mlp-biases-q8_0", "llama", {"mlp_bias": True}, "q8_0"),
    Case("llama-multi-query", "llama", {"num_key_value_heads": 1}),
    Case("llama-multi-head", "llama", {"num_key_value_heads": 4, "num_hidden_layers": 1}),
    Case("llama-head-20", "llama", {"hidden_size": 60, "num_attention_heads": 3, "head_dim": 20,
                                    "num_key_value_heads": 1, "intermediate_size": 70}),
    Case("llama-head-6", "llama", {"head_dim": 6}),
    Case("llama-head-112", "llama", {"head_dim": 112}),
    Case("llama-3.1", "llama", LLAMA31),
    Case("llama-linear", "llama", rope("linear", factor=3.0)),
    Case("llama-yarn", "llama", YARN),
    Case("llama-yarn-tuned", "llama", YARN_TUNED),
    Case("mistral", "mistral", {"sliding_window": None, "head_dim": 24}),
    Case("mistral-window", "mistral", {"sliding_window": 19}, "q8_0"),
    Case("qwen2", "qwen2", rope("default", rope_theta=1e6)),
    Case("qwen2-q4_0-tied", "qwen2", {"tie_word_embeddings": True}, "q4_0"),
    Case("qwen2-mixed", "qwen2", {}, "q8_0", {"k_proj": "f16", "down": "q5_1"}),
    Case("qwen2-yarn", "qwen2", YARN),
    Case("qwen3", "qwen3", {"head_dim": 32}),
    Case("qwen3-q5_1", "qwen3", {"head_dim": 32, "tie_word_embeddings": True}, "q5_1"),
    Case("qwen3-q3_k", "qwen3", WIDE | {"head_dim": 128}, "q3_k", {"down": "iq4_xs"}),
    Case("gemma2", "gemma2", GEMMA | {"sliding_window": 24}),
    Case("gemma2-early", "gemma2", GEMMA, "f16",
         extra={"gemma2.attention.sliding_window": None, "gemma2.attn_logit_softcapping": None,
                "gemma2.final_logit_softcapping": None}),
    Case("gemma2-q8_0", "gemma2", GEMMA | {"sliding_window": 300, "head_dim": 32,
                                           "query_pre_attn_scalar": 32}, "q8_0"),
    Case("gemma3", "gemma3_text", GEMMA | GEMMA3_ROPE | {"sliding_window": 16,
                                                         "num_hidden_layers": 7}),
    Case("gemma3-pattern", "gemma3_text",
         GEMMA | {"sliding_window": 16, "layer_types": [f"{t}_attention" for t in PATTERN]},
         extra={"gemma3.attention.sliding_window_pattern": [t == "sliding" for t in PATTERN]}),
    Case("gemma3-q4_0", "gemma3_text", GEMMA | {"sliding_window": 33, "num_hidden_layers": 7},
         "q4_0"),
    Case("gemma", "gemma", GEMMA, "q8_0"),
    Case("phi3", "phi3", {"sliding_window": 23}, "q4_0"),
    Case("phi3-partial", "phi3", {"partial_rotary_factor": 0.5, "num_key_value_heads": 4}),
    Case("granite", "granite", {"embedding_multiplier": 3.0, "attention_multiplier": 0.4,
                                "residual_multiplier": 0.3, "logits_scaling": 5.0}, "q8_0"),
    Case("olmo2", "olmo2", YARN, "q5_0"),
    Case("olmo3", "olmo3", YARN | {"sliding_window": 24, "num_hidden_layers": 5}),
    Case("gemma3-softcap", "gemma3_text", GEMMA | {"sliding_window": 16,
                                                   "final_logit_softcapping": 3.0}),
    Case("smollm3", "smollm3", {"num_hidden_layers": 5, "tie_word_embeddings": True}, "q4_1"),
    Case("glm4", "glm4", {"head_dim": 16, "attention_bias": True}, "q8_0"),
    Case("glm4-whole", "glm4", {"head_dim": 24, **rope("default", partial_rotary_factor=1.0)}),
]  # fmt: skip


def build(case: Case, directory: Path) -> Tiny:
    """The model in transformers, with exactly the weights that the file holds."""
    rng = np.random.default_rng(list(case.name.encode()))
    torch.manual_seed(int(rng.integers(1 << 31)))
    settings = SIZES | case.settings
    config = transformers.AutoConfig.for_model(case.family, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    randomize_vectors(model)
    arch = ARCHITECTURES[case.family]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tensors: dict[str, np.ndarray | Raw] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # tied ones once
            if parameter.ndim == 2:
                own = [dtype for part, dtype in case.dtypes.items() if part in name]
                stored, values = stored_matrix(parameter.numpy(), [*own, case.dtype][0], rng)
                parameter.copy_(torch.from_numpy(values))
            else:
                stored = parameter.numpy() + np.float32("norm" in name and "gemma" in case.family)
            if gguf.MODEL_ARCH_NAMES[arch] in PERMUTED:
                stored = interleaved(name, stored, config)
            tensors[names.get_name(name, (".weight", ".bias")) or name] = stored
    kind = config.rope_parameters.get("rope_type")
    if kind == "llama3":
        tensors["rope_freqs.weight"] = llama31_divisors(config)
    metadata = metadata_of(config, gguf.MODEL_ARCH_NAMES[arch]) | tokenizer_metadata()
    for name, value in case.extra.items():
        (tensors if isinstance(value, np.ndarray) else metadata)[name] = value
    metadata = {name: value for name, value in metadata.items() if value is not None}
    path = write_gguf(
        directory / f"{case.name}.gguf", metadata, tensors, gguf.MODEL_ARCH_NAMES[arch]
    )
    return Tiny(path, model.eval())


def randomize_vectors(model: torch.nn.Module) -> None:
    """Norms and biases start as ones and zeros, which would hide a missing one."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))


def stored_matrix(values: np.ndarray, dtype: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """A matrix as the file holds it, and the float32 values that this stands for."""
    if dtype == "f32":
        return values.copy(), values
    if dtype in ("f16", "bf16"):
        half = torch.from_numpy(values).to({"f16": torch.float16, "bf16": torch.bfloat16}[dtype])
        rounded = half.to(torch.float32).numpy()
        if dtype == "f16":
            return half.numpy(), rounded
        kind = gguf.GGMLQuantizationType.BF16
        return Raw(half.view(torch.int16).numpy().view(np.uint8), kind), rounded
    kind = BLOCK_TYPES[dtype]
    if dtype.endswith("_k") or dtype.startswith("iq"):  # the package only reads these
        raw = random_blocks(dtype, values.shape, rng, scale=0.003)
    else:
        raw = Raw(gguf.quants.quantize(values, kind), kind)
    return raw, gguf.quants.dequantize(raw.rows, kind)


def interleaved(name: str, stored: Any, config: Any) -> Any:
    """Rows of queries and keys, halves of each head interleaved: rotary pairs are neighbours."""
    if "q_proj" not in name and "k_proj" not in name:
        return stored
    heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
    rows = stored.rows if isinstance(stored, Raw) else stored
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    rows = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)
    return Raw(rows, stored.type) if isinstance(stored, Raw) else rows


def llama31_divisors(config: Any) -> np.ndarray:
    """What Llama 3.1's scaling divides each rotary frequency by."""
    p = config.rope_parameters
    plain = p["rope_theta"] ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    return (plain / scaled.numpy()).astype(np.float32)


def metadata_of(config: Any, arch: str) -> dict[str, Any]:
    """What llama.cpp's converter writes for such a model."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    out = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
    }
    p = config.rope_parameters
    p = p.get("full_attention", p)
    if arch in ("llama", "phi3", "glm4"):
        out["rope.dimension_count"] = int(head_dim * p.get("partial_rotary_factor", 1))
    out["rope.freq_base"] = float(p["rope_theta"])
    kind = p.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        out["rope.scaling.type"] = kind
        out["rope.scaling.factor"] = float(p["factor"])
    if kind == "yarn":
        out["rope.scaling.original_context_length"] = p["original_max_position_embeddings"]
        if "attention_factor" in p:  # the file's factor comes on top of YaRN's own
            own = 0.1 * np.log(p["factor"]) + 1
            out["rope.scaling.attn_factor"] = float(p["attention_factor"] / own)
            out["rope.scaling.yarn_beta_fast"] = float(p["beta_fast"])
            out["rope.scaling.yarn_beta_slow"] = float(p["beta_slow"])
    if getattr(config, "sliding_window", None) and arch != "qwen2":
        out["attention.sliding_window"] = config.sliding_window
    for softcap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(config, softcap, None):
            out[softcap] = getattr(config, softcap)
    if arch == "granite":
        out["embedding_scale"] = config.embedding_multiplier
        out["attention.scale"] = config.attention_multiplier
        out["residual_scale"] = config.residual_multiplier
        out["logit_scale"] = config.logits_scaling
    return {f"{arch}.{key}": value for key, value in out.items()}


def tokenizer_metadata() -> dict[str, Any]:
    """A byte-level vocabulary with one merge: these models see token numbers only."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    tokens = ["<unk>", "<s>", "</s>", *letters, "ab"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * (len(letters) + 1),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
