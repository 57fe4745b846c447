"""tilewright in transformers' models: each family small and random, and SmolLM2."""

from __future__ import annotations

import copy
import importlib

import pytest
import tilewright.hf
import torch
import transformers
from hf_models import (  # noqa: F401 - a fixture
    LATENT,
    OTHERS,
    assert_close,
    build,
    model_of,
    plain,
    tokens,
)
from tilewright.hf import FAMILIES, patch, patch_family

import tilewright

LETTERS = {"r": "rope", "n": "rms_norm", "s": "swiglu"}


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
    with patch(model) as patched, tilewright.explain() as ran:
        assert_close(model(**inputs).logits[mask.bool()], want[mask.bool()])
        assert torch.equal(model.generate(**inputs, **options), text)
    used = {record.op for record in ran.records}
    assert {"rope", "rms_norm"} & patched.replaced.keys() <= used  # and not just named
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


def test_patched_models_can_be_copied_and_kept(tmp_path) -> None:
    model, ids = build("llama"), tokens(2, 7)
    want = model(ids).logits
    with patch(model):
        torch.save(model, tmp_path / "model.pt")
        others = [copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)]
    for parameter in model.parameters():
        parameter.zero_()
    for other in others:
        with tilewright.explain() as ran:
            assert_close(other(ids).logits, want)
        assert {"attention", "rope", "rms_norm", "swiglu"} <= {record.op for record in ran.records}


def test_a_model_is_loaded_with_our_attention(tmp_path) -> None:
    model, ids = build("llama"), tokens(2, 7)
    model.save_pretrained(tmp_path)
    load = transformers.AutoModelForCausalLM.from_pretrained
    loaded = load(tmp_path, attn_implementation="tilewright")
    assert loaded.config._attn_implementation == "tilewright"
    with tilewright.explain() as ran:
        assert_close(loaded(ids).logits, model(ids).logits)
    assert [record.op for record in ran.records] == ["attention"] * len(model.model.layers)


def test_patches_in_any_order() -> None:
    model, ids = build("llama"), tokens(2, 7)
    want = model(ids).logits
    first, second = patch(model, rope=False), patch(model)
    assert second.replaced.keys() == {"rope"}
    assert second.skipped["attn"] == "it is tilewright's already"
    first.undo()
    second.undo()
    assert torch.equal(model(ids).logits, want)


def test_patches_of_a_family_in_any_order() -> None:
    ids, want = tokens(2, 7), build("llama")(tokens(2, 7)).logits
    first, second = patch_family("llama", rope=False), patch_family("llama")
    assert second.replaced.keys() == {"rope"}
    already = {"LlamaRMSNorm (rms_norm)", "LlamaMLP (swiglu)", "attn"}
    assert second.skipped == dict.fromkeys(already, "it is tilewright's already")
    first.undo()
    second.undo()
    model = build("llama")
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(model(ids).logits, want)


def test_what_is_no_model_of_transformers() -> None:
    patched = patch(torch.nn.Linear(3, 3))
    assert str(patched) == "attn: not replaced: the model has no attention interface"
    with pytest.raises(TypeError, match="patch: model is 'llama', but a module is needed"):
        patch("llama")


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


def test_a_model_without_attention_is_reported_as_such() -> None:
    config = transformers.Mamba2Config(
        num_heads=4, head_dim=8, vocab_size=32, hidden_size=16, state_size=8, num_hidden_layers=1
    )
    report = patch(transformers.Mamba2ForCausalLM(config).eval())
    assert "attn" not in report.replaced
    assert report.skipped["attn"] == "the model has no attention interface"
