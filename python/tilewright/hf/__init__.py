"""tilewright in HuggingFace models.

Importing this registers the attention and mask function "tilewright" with transformers; `patch`
also replaces rotary embedding, normalization and the gated layers of a model's own code.

Example:
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="tilewright")

    with tilewright.hf.patch(model) as patched:
        print(patched)  # what was replaced, and what was not and why
        model.generate(...)
"""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from tilewright.hf._attention import attention_forward
from tilewright.hf._forms import FAMILIES
from tilewright.hf._masks import attention_mask
from tilewright.hf._patch import Patch, patch, patch_family

AttentionInterface.register("tilewright", attention_forward)
AttentionMaskInterface.register("tilewright", attention_mask)

__all__ = [
    "FAMILIES",
    "Patch",
    "attention_forward",
    "attention_mask",
    "patch",
    "patch_family",
]
