"""tilewright's attention in transformers' models: masks, biases, dropout."""

from __future__ import annotations

import pytest
import tilewright.hf
import torch
import transformers
from hf_models import assert_close, build, model_of, plain, tokens  # noqa: F401
from tilewright.hf import patch
from tilewright.hf._range_mask import RangeMask, Run, decoded, encoded

import tilewright

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


HOLES = torch.ones(5, 5, dtype=torch.bool).tril().index_put((torch.tensor(3), torch.tensor(1)),
                                                            torch.tensor(False))  # fmt: skip
ANY_MASKS = {
    "holes": HOLES.expand(1, 1, 5, 5),
    "by heads": torch.stack([HOLES, HOLES.T | HOLES, ~HOLES, HOLES])[None],
    "numbers": torch.where(HOLES, torch.linspace(-2, 3, 25).view(5, 5), -torch.inf)[None, None],
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("kind", ANY_MASKS)
def test_any_mask(kind, trains) -> None:
    model, ids = model_of("llama"), tokens(1, 5)
    want = model(ids, attention_mask=ANY_MASKS[kind]).logits
    with patch(model), torch.set_grad_enabled(trains), tilewright.explain() as ran:
        assert_close(model(ids, attention_mask=ANY_MASKS[kind]).logits, want)
    names = {record.op for record in ran.records}
    assert ("attention" in names, "softmax" in names) == (not trains, trains)


def test_what_is_no_mask_is_refused() -> None:
    model, ids = model_of("llama"), tokens(1, 5)
    with patch(model):
        with pytest.raises(NotImplementedError, match=r"a mask of one's own, torch.int32\[1, 1, 5"):
            model(ids, attention_mask=HOLES.int()[None, None])
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        with pytest.raises(NotImplementedError, match="keys that are hidden between others"):
            compiled(ids, attention_mask=ANY_MASKS["holes"], use_cache=False)


def test_a_mask_of_ranges_is_a_matrix_to_whoever_looks() -> None:
    runs = [[Run(0, 2, 0, 3, -1, 0), Run(2, 5, 1, 6, 2, 1)], []]
    mask = RangeMask(runs, 5, 7, "cpu")
    want = torch.zeros(2, 1, 5, 7, dtype=torch.bool)
    want[0, 0, :2, :3] = True
    for query, keys in ((2, slice(1, 4)), (3, slice(2, 5)), (4, slice(3, 6))):
        want[0, 0, query, keys] = True
    assert (mask.shape, mask.dtype, mask.ndim) == (want.shape, torch.bool, 4)
    assert torch.equal(mask[..., 1:4], want[..., 1:4])
    assert torch.equal(~mask, ~want)
    assert torch.equal(torch.where(mask, 0.0, -1.0), torch.where(want, 0.0, -1.0))
    assert torch.equal(mask.to(torch.int32), want.int())
    assert "Run(begin=0, stop=2" in repr(mask)
    assert decoded(encoded(runs)) == runs
    assert decoded(want) is None


def test_a_mask_counts_more_than_what_a_layer_says_of_itself() -> None:
    """Layers of decoders that are not marked as causal, which their masks are."""
    torch.manual_seed(4)
    config = transformers.BigBirdPegasusConfig(
        vocab_size=131, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=40,
        max_position_embeddings=64, is_decoder=True, is_encoder_decoder=False,
    )  # fmt: skip
    model, ids = transformers.BigBirdPegasusForCausalLM(config).eval(), tokens(2, 9)
    want = model(ids).logits
    with patch(model):
        assert_close(model(ids).logits, want)


def test_sinks_of_each_query() -> None:
    model, columns = model_of("llama"), torch.randn(2, 4, 5, 1)
    q, k, v = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16), torch.randn(2, 2, 5, 16)
    keys, values = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    weights = torch.cat((q @ keys.mT / 4, columns), -1).softmax(-1)[..., :-1]
    got, _ = tilewright.hf.attention_forward(model, q, k, v, None, is_causal=False, sinks=columns)
    assert_close(got, (weights @ values).transpose(1, 2))


def t5() -> transformers.PreTrainedModel:
    torch.manual_seed(4)
    config = transformers.T5Config(vocab_size=131, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                                   num_heads=4, decoder_start_token_id=0, dropout_rate=0.0,
                                   initializer_factor=2.0)  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def test_position_biases() -> None:
    model, ids, mask = t5(), tokens(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[1, 5:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": tokens(2, 6)}

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        with torch.enable_grad():
            model(**inputs).loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    want, wanted = model(**inputs).logits, gradients()
    options = {"max_new_tokens": 7, "do_sample": False, "eos_token_id": None}
    text = model.generate(ids, attention_mask=mask, **options)
    with patch(model):
        assert_close(model(**inputs).logits, want)
        assert torch.equal(model.generate(ids, attention_mask=mask, **options), text)
        for g, w in zip(gradients(), wanted, strict=True):
            assert_close(g, w)


def test_dropout_of_attention() -> None:
    model, ids = build("llama", attention_dropout=0.4).train(), tokens(2, 9)

    def loss(run, seed: int) -> float:
        torch.manual_seed(seed)
        with torch.enable_grad():
            out = run(ids, labels=ids, use_cache=False).loss
            out.backward()
        return out.item()

    with patch(model), tilewright.explain() as ran:
        losses = [loss(model, seed) for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    # Of three layers, thrice, and of their gradients.
    assert sum(record.op == "dropout" for record in ran.records) == 18
    with patch(model):
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert loss(compiled, 1) == pytest.approx(losses[0], rel=1e-4)
    query, value = torch.randn(2, 4, 50, 16), torch.ones(2, 2, 60, 1)
    out, _ = tilewright.hf.attention_forward(
        model, query, torch.randn(2, 2, 60, 16), value, None, dropout=0.25, is_causal=False
    )
    assert out.shape == (2, 50, 4, 1)
    assert float(out.std()) > 0.02
    assert float(out.mean()) == pytest.approx(1, abs=0.05)
