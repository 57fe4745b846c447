#!/usr/bin/env python3
"""Writes a GGUF file whose 4-bit weights are Q4_0 instead, for comparisons at equal formats.

Needs the packages of `tools/setup.sh test`.

Example:
    .venv/bin/python benchmarks/language_model/requantize.py MODEL.gguf build/model-q4_0.gguf
"""

from __future__ import annotations

import sys

import gguf

FOUR_BITS = {
    gguf.GGMLQuantizationType.Q4_1,
    gguf.GGMLQuantizationType.Q4_K,
    gguf.GGMLQuantizationType.IQ4_NL,
    gguf.GGMLQuantizationType.IQ4_XS,
}


def main() -> int:
    """Copies every field and tensor, re-encoding those of 4 bits."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    reader = gguf.GGUFReader(sys.argv[1])
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(sys.argv[2], architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        sub_type = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type)
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if kind in FOUR_BITS:
            values = gguf.quants.dequantize(data, kind)
            kind = gguf.GGMLQuantizationType.Q4_0
            data = gguf.quants.quantize(values, kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
