"""tilewright in transformers' models: each family small and random, and SmolLM2."""

from __future__ import annotations

import functools
import importlib

import pytest
import tilewright.hf
import torch
import transformers
from tilewright.hf import FAMILIES, patch, patch_family

import tilewright

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
    "llama4_text": ({"head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 4,
                     "attention_chunk_size": 8, "moe_layers": [1]}, ""),  # chunks
}  # fmt: skip
LETTERS = {"r": "rope", "n": "rms_norm", "s": "swiglu"}
TOLERANCE = 1e-4  # of the largest logit


@pytest.fixture(autouse=True)
def plain():
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


@pytest.mark.parametrize("family", FAMILIES)
def test_logits(family) -> None:
    model, ids = model_of(family), tokens(2, 21)
    want = model(ids).logits
    with patch(model) as patched, tilewright.explain() as ran:
        assert_close(model(ids).logits, want)
    used = {record.op for record in ran.records}
    gate = {"gemma3": "gelu", "phi3": "silu_and_mul"}.get(family, "swiglu")
    assert {"attention", "rope", "rms_norm", gate} <= used
    assert ran.fallbacks == 0
    assert patched.replaced.keys() == {"rope", "rms_norm", "swiglu", "attn"}
    assert len(patched.replaced["rope"]) == 3
    with tilewright.explain() as ran:
        assert torch.equal(model(ids).logits, want)
    assert not ran.records


@pytest.mark.parametrize("family", FAMILIES)
def test_generation(family) -> None:
    model, ids = model_of(family), tokens(2, 11)
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None,
               "output_logits": True, "return_dict_in_generate": True}  # fmt: skip
    want = model.generate(ids, **options)
    with patch(model):
        got = model.generate(ids, **options)
    assert torch.equal(got.sequences, want.sequences)
    for g, w in zip(got.logits, want.logits, strict=True):
        assert_close(g, w)


@pytest.mark.parametrize("family", OTHERS)
def test_other_families(family) -> None:
    """Logits with padding on the left and between tokens, and generation."""
    model, ids = build(family), tokens(2, 14)
    mask = torch.ones_like(ids)
    mask[1, :4] = mask[1, 6:8] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    want, text = model(**inputs).logits, model.generate(**inputs, **options)
    with patch(model) as patched:
        assert_close(model(**inputs).logits[mask.bool()], want[mask.bool()])
        assert torch.equal(model.generate(**inputs, **options), text)
    assert patched.replaced.keys() == {LETTERS[letter] for letter in OTHERS[family][1]} | {"attn"}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_padding(family, side) -> None:
    model, ids = model_of(family), tokens(3, 14)
    mask = torch.ones_like(ids)
    for b, n in enumerate([0, 4, 13]):
        mask[b, (slice(None, n) if side == "left" else slice(14 - n, None))] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    want = model(**inputs).logits
    with patch(model, rope=False, rms_norm=False, swiglu=False):
        got = model(**inputs).logits
        assert_close(got[mask.bool()], want[mask.bool()])
        assert got.isfinite().all()
    if side == "left":
        options = {"max_new_tokens": 9, "do_sample": False, "eos_token_id": None}
        want = model.generate(**inputs, **options)
        with patch(model):
            assert torch.equal(model.generate(**inputs, **options), want)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_static_cache(family) -> None:
    model, ids = model_of(family), tokens(1, 9)
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None,
               "cache_implementation": "static", "disable_compile": True}  # fmt: skip
    want = model.generate(ids, **options)
    with patch(model):
        assert torch.equal(model.generate(ids, **options), want)


def test_a_prompt_in_chunks() -> None:
    model, ids = model_of("mistral"), tokens(1, 20)
    want = model(ids).logits
    with patch(model):
        cache = transformers.DynamicCache(config=model.config)
        parts = [model(part, past_key_values=cache).logits for part in ids.split(6, 1)]
    assert_close(torch.cat(parts, 1), want)


def test_encoders_see_both_sides() -> None:
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model("bert", vocab_size=131, hidden_size=32,
                                               num_attention_heads=2, num_hidden_layers=2,
                                               intermediate_size=40)  # fmt: skip
    model = transformers.AutoModel.from_config(config).eval()
    ids, mask = tokens(2, 10), torch.ones(2, 10, dtype=torch.long)
    mask[1, 6:] = 0
    want = model(ids, attention_mask=mask).last_hidden_state
    with patch(model) as patched:
        got = model(ids, attention_mask=mask).last_hidden_state
    assert_close(got[mask.bool()], want[mask.bool()])
    assert patched.replaced.keys() == {"attn"}
    assert "BertAttention calls no rotation of a known form" in str(patched)


PACKED = torch.tensor([[*range(8), *range(6)], [*range(3), *range(11)]])
PREFIX = torch.ones(14, 14, dtype=torch.bool).tril().index_fill(1, torch.arange(5), True)
OWN_MASKS = {
    "packed": {"position_ids": PACKED},
    "prefix": {"attention_mask": PREFIX.expand(2, 1, 14, 14)},
    "to add": {"attention_mask": torch.where(PREFIX, 0.0, -torch.inf).expand(2, 1, 14, 14)},
    "between": {"attention_mask": torch.tensor([[1] * 14, [1] * 5 + [0] * 3 + [1] * 6])},
}


@pytest.mark.parametrize("kind", OWN_MASKS)
@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_masks_of_ranges(family, kind) -> None:
    model, inputs = model_of(family), {"input_ids": tokens(2, 14), **OWN_MASKS[kind]}
    want = model(**inputs, use_cache=False).logits
    with patch(model):
        got = model(**inputs, use_cache=False).logits
    if kind == "between":  # what stands at padding is nobody's business
        got, want = (x[OWN_MASKS[kind]["attention_mask"].bool()] for x in (got, want))
    assert_close(got, want)


def test_masks_that_attention_has_not_are_refused() -> None:
    model, ids = model_of("llama"), tokens(1, 5)
    holes = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    holes[..., 3, 1] = False
    heads = torch.ones(1, 4, 5, 5, dtype=torch.bool)
    heads[:, 1, 0, 0] = False
    with patch(model):
        for mask, why in (
            (holes, "keys that are hidden between others"),
            (heads, "by heads"),
            (holes.int(), "a mask of one's own, torch.int32"),
            (0.5 * holes, "adds other numbers than 0 and -inf"),
        ):
            with pytest.raises(NotImplementedError, match=why):
                model(ids, attention_mask=mask)
        with pytest.raises(NotImplementedError, match="dropout"):
            tilewright.hf.attention_forward(model, *[torch.ones(1, 1, 1, 1)] * 3, None, dropout=0.1)


def test_a_traced_training_step() -> None:
    """No graph break, though a mask is not known while a graph is traced; the same gradients."""
    model, ids = build("gpt_oss", num_hidden_layers=2), tokens(2, 14)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": False}

    def gradients(run) -> list[torch.Tensor]:
        model.zero_grad()
        with torch.enable_grad():
            run(**inputs, labels=ids.masked_fill(mask == 0, -100)).loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    want = gradients(model)
    with patch(model):
        torch._dynamo.reset()
        for got in (
            gradients(model),
            gradients(torch.compile(model, backend="aot_eager", fullgraph=True)),
        ):
            for g, w in zip(got, want, strict=True):
                assert_close(g, w)


def test_the_report() -> None:
    model = build("llama", hidden_act="tanh")
    patched = patch(model, rms_norm=False)
    assert len(patched.replaced["rope"]) == 3
    assert patched.skipped["rms_norm"] == "not asked for"
    assert patched.skipped["model.layers.0.mlp (swiglu)"] == "there is no operator for 'tanh'"
    assert "rope: 3 replaced" in str(patched)
    twice = patch(model, attn=False)
    assert "replaced already" in twice.skipped["model.layers.2.self_attn (rope)"]
    twice.undo()
    patched.undo()
    patched.undo()
    assert model.config._attn_implementation == "sdpa"
    assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("family", [*FAMILIES, "olmo2"])
def test_families(family) -> None:
    ids = tokens(2, 15)
    want = build(family)(ids).logits
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    before = dict(vars(module))
    with patch_family(family) as patched, tilewright.explain() as ran:
        model = build(family)
        assert model.config._attn_implementation == "tilewright"
        assert_close(model(ids).logits, want)
    assert {"attention", "rope", "rms_norm"} <= {record.op for record in ran.records}
    assert patched.replaced.keys() == {"rope", "rms_norm", "swiglu", "attn"}
    assert dict(vars(module)) == before
    assert torch.equal(build(family)(ids).logits, want)
    with patch_family(family, rope=False, swiglu=False, attn=False) as patched:
        assert build(family).config._attn_implementation == "sdpa"
    assert list(patched.replaced) == ["rms_norm"]


def test_an_unknown_family_is_refused() -> None:
    for name in ("bert", "nobody", "../llama"):
        with pytest.raises(ValueError, match=f"no family '{name}'; there are llama, qwen2"):
            patch_family(name)


def test_half_precision() -> None:
    model, ids = build("gemma3").bfloat16(), tokens(2, 17)
    exact = build("gemma3")(ids).logits
    theirs = (model(ids).logits - exact).norm()
    with patch(model):
        assert (model(ids).logits - exact).norm() <= 1.2 * theirs


def test_smollm2(smollm_reference) -> None:
    model = smollm_reference
    ids = torch.arange(7, 71)[None]
    want = model(ids).logits
    options = {"max_new_tokens": 64, "do_sample": False, "eos_token_id": None}
    greedy = model.generate(ids[:, :9], **options)
    with patch(model) as patched:
        assert_close(model(ids).logits, want)
        assert torch.equal(model.generate(ids[:, :9], **options), greedy)
    assert {kind: len(names) for kind, names in patched.replaced.items()} == {
        "rms_norm": 61, "rope": 30, "swiglu": 30, "attn": 1
    }  # fmt: skip


def losses(model: transformers.PreTrainedModel, steps: int = 20) -> list[float]:
    """A curve of AdamW on two batches in turn; the second one is padded."""
    batches = [tokens(3, 16), tokens(4, 12)]
    mask = torch.ones_like(batches[1])
    mask[2, 7:] = 0
    masks = [torch.ones_like(batches[0]), mask]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = []
    with torch.enable_grad():
        for step in range(steps):
            ids, mask = batches[step % 2], masks[step % 2]
            labels = ids.masked_fill(mask == 0, -100)
            loss = model(ids, attention_mask=mask, labels=labels, use_cache=False).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
    return out


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_oss"])
def test_training(family) -> None:
    settings = {"initializer_range": 0.05}
    if (
        family == "deepseek_v2"
    ):  # all experts at work: which ones are best is no continuous question
        settings["num_experts_per_tok"] = LATENT["n_routed_experts"]
    want = losses(build(family, **settings).train())
    model = build(family, **settings).train()
    with patch(model), tilewright.explain() as ran:
        got = losses(model)
    used = {record.op for record in ran.records}
    assert {"rope", "rms_norm"} <= used
    assert "attention" in used or family == "gpt_oss"  # with the sinks' gradient it is another one
    assert want[-1] < want[0] - 0.5
    assert got == pytest.approx(want, abs=1e-4)
