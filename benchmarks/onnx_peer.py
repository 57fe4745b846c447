"""A composite in ONNX Runtime: exported by PyTorch, run on the operands where they lie."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

PACKAGES = "onnxruntime onnx onnxscript"


class _Composite(torch.nn.Module):
    """A function of its tensors, the other arguments fixed."""

    def __init__(self, function: Callable[..., Any], given: Sequence[Any]) -> None:
        super().__init__()
        self.function = function
        self.given = [None if isinstance(a, torch.Tensor) else a for a in given]
        self.places = [i for i, a in enumerate(given) if isinstance(a, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The function's results."""
        arguments = list(self.given)
        for place, tensor in zip(self.places, tensors, strict=True):
            arguments[place] = tensor
        return self.function(*arguments)


def _session(composite: _Composite, given: Sequence[Any], threads: int) -> Any:
    """The exported graph, ready to run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    # Else its threads spin on after a call, on the cores of what is measured next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with (
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(action="ignore"),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        tensors = tuple(given[i].clone() for i in composite.places)
        program = torch.onnx.export(composite, tensors, dynamo=True, verbose=False)
    model = program.model_proto.SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def compiled(function: Callable[..., Any], given: Sequence[Any], threads: int) -> Any:
    """The function in ONNX Runtime on the CPU, for arguments like these.

    Raises:
        NotImplementedError: PyTorch cannot export it, or ONNX Runtime cannot run it.
        SystemExit: a package is missing.
    """
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
        from onnx import TensorProto
    except ImportError as error:
        raise SystemExit(f"run.py: the peer onnxruntime needs: pip install {PACKAGES}") from error
    codes = {
        torch.float64: TensorProto.DOUBLE, torch.float32: TensorProto.FLOAT,
        torch.float16: TensorProto.FLOAT16, torch.bfloat16: TensorProto.BFLOAT16,
        torch.int64: TensorProto.INT64, torch.int32: TensorProto.INT32,
        torch.int8: TensorProto.INT8, torch.uint8: TensorProto.UINT8, torch.bool: TensorProto.BOOL,
    }  # fmt: skip
    composite = _Composite(function, given).eval()
    if not all(given[i].is_contiguous() for i in composite.places):
        raise NotImplementedError("it takes contiguous tensors alone")
    results = function(*given)
    single = isinstance(results, torch.Tensor)
    shapes = [(r.shape, r.dtype) for r in ([results] if single else results)]
    try:
        session = _session(composite, given, threads)
    except Exception as error:  # the exporter and the runtime have a hundred kinds
        raise NotImplementedError(str(error).strip().split("\n")[0][:200]) from error
    inputs = [one.name for one in session.get_inputs()]
    outputs = [one.name for one in session.get_outputs()]
    if (len(inputs), len(outputs)) != (len(composite.places), len(shapes)):
        raise NotImplementedError("the exported graph has other inputs or outputs")

    def call(*arguments: Any) -> Any:
        binding = session.io_binding()
        for name, place in zip(inputs, composite.places, strict=True):
            t = arguments[place]
            binding.bind_input(name, "cpu", 0, codes[t.dtype], tuple(t.shape), t.data_ptr())
        made = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
        for name, t in zip(outputs, made, strict=True):
            binding.bind_output(name, "cpu", 0, codes[t.dtype], tuple(t.shape), t.data_ptr())
        session.run_with_iobinding(binding)
        return made[0] if single else tuple(made)

    return call
