"""From a Python call of an operator to the backend that runs it."""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from tilewright import _arrays, _explain, _library, _registered, backends, composites
from tilewright._check import checked
from tilewright._schema import Operator
from tilewright._values import fill


class _Context:
    """A context of the library.

    A call that it is passed to keeps it: daemon threads still run kernels when Python, as it ends,
    drops what threads own.
    """

    def __init__(self) -> None:
        self._as_parameter_ = ctypes.c_void_p()  # what ctypes passes
        _library.check(_library.load().tw_context_new(0, ctypes.byref(self._as_parameter_)))

    def __del__(self) -> None:
        if self._as_parameter_ and _library is not None:
            _library.load().tw_context_free(self._as_parameter_)


_local = threading.local()


def _context() -> _Context:
    """This thread's."""
    if not hasattr(_local, "context"):
        _local.context = _Context()
    context: _Context = _local.context
    return context


def through_c(op: Operator, arguments: list[Any], example: Any, reference: bool) -> list[Any]:
    """Runs an operator on arrays of any kind through the C interface; its required outputs."""
    if _registered.is_recorded(arguments):
        what = "backend reference" if reference else f"a call that gives {type(example).__name__}"
        raise _library.UnsupportedError(
            f"{op.name}: {what} has no gradient, but a tensor requires one\n  in {op.schema}"
        )
    on_gpu = _arrays.kernels_for(example) == "cuda"
    stream = _arrays.current_stream(example) if on_gpu else None
    reading = _arrays.Reading(stream)
    values = (_library.Value * len(op.arguments))()
    for value, arg, given in zip(values, op.inputs, arguments, strict=False):
        try:
            fill(value, arg, given, reading)
        except (BufferError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else _library.UnsupportedError
            told = str(error).rstrip(".")
            raise kind(f"{op.name}: {arg.name}: {told}\n  in {op.schema}") from None
    made = _outputs(op, values, example, reading)
    rest = (_library.operator_handle(op.name), values, len(values), None, None)
    library = _library.load()
    if on_gpu:
        library.tw_context_set_cuda_stream(_context(), stream)
    status = library.tw_call_reference(*rest) if reference else library.tw_call(_context(), *rest)
    _library.check(status)
    return [_arrays.finished(example, result) for result in made]


def _outputs(op: Operator, values: Any, example: Any, reading: _arrays.Reading) -> list[Any]:
    """New arrays for the required outputs of a call, which `values` is told of.

    Made before the call, for no Python may run within it: where Python ends, a thread that asks
    for its lock is ended, and to unwind the library's frames would end the process.
    """
    shapes = _library.infer(op.name, values, len(op.outputs))
    made = []
    for shape, arg, value in zip(shapes, op.outputs, values[len(op.inputs) :], strict=True):
        if arg.optional and not op.is_full:
            continue
        # Rows that no sequence has are not written.
        made.append(_arrays.empty_like_kind(example, shape, zeros=bool(op.sequences)))
        value.kind = _library.TENSOR
        value.payload.tensor = reading.view(made[-1], arg.name, written=True)
    return made


@functools.cache
def torch_function(call_name: str) -> Callable[..., Any]:
    """torch.ops.tilewright.NAME, or NAME.full, without the search among its overloads."""
    import torch

    from tilewright import _torch

    _torch.load()
    name, _, overload = call_name.partition(".")
    function: Callable[..., Any] = getattr(
        getattr(torch.ops.tilewright, name), overload or "default"
    )
    return function


def is_plain() -> bool:
    """Whether a call needs no more than the kernel: nobody listens, nothing is replaced."""
    return _explain.active() is None and backends.is_default()


def load_traced() -> None:
    """Makes torch.ops.tilewright for a call that torch.compile traces, while it traces it."""
    from tilewright import _torch

    _torch.load_traced()


# What torch.compiler.assume_constant_result sets, without importing torch.
load_traced.__dict__["_dynamo_marked_constant"] = True


def is_kernel_traced(name: str, wanted: str, place: str) -> bool:
    """Whether torch.compile is to see a call of the library's kernel for arrays of this place."""
    return wanted == place and backends.find_impl(name, wanted) is None


def traced(op: Operator, arguments: list[Any], wanted: str) -> Any:
    """A call that torch.compile traces, where something else than the kernel is to run.

    PyTorch's composites and what users registered become part of the graph; the rest breaks it, as
    do calls that are refused.
    """
    from tilewright import _autocast

    implementation = backends.find_impl(op.call_name, wanted)
    if implementation is not None:
        _tell_traced(op, wanted, _name_of(implementation), arguments)
        return _registered.run(op, wanted, implementation, _autocast.cast(op, arguments))
    if wanted == "torch" and not composites.why_none(op.call_name):
        _tell_traced(op, wanted, f"{op.name}/torch", arguments)
        composite = composites.find(op.call_name)
        return _autocast.composite(composite, _autocast.cast(op, arguments))
    return call_untraced(op, arguments, wanted)


def _tell_traced(op: Operator, backend: str, kernel: str, arguments: list[Any]) -> None:
    """Has the graph tell of what becomes PyTorch's nodes, if somebody listens."""
    if _explain.listening:
        from tilewright import _traced

        _traced.tell(op.name, backend, kernel, arguments)


def _name_of(implementation: backends.Implementation) -> str:
    return getattr(implementation.forward, "__qualname__", "registered")


def _run_on(backend: str, op: Operator, arguments: list[Any], example: Any) -> tuple[Any, str]:
    """The result, and what ran."""
    if _arrays.is_torch(example):
        from tilewright import _autocast

        arguments = _autocast.cast(op, arguments)
    implementation = backends.find_impl(op.call_name, backend)
    if implementation is not None:
        result = _registered.run(op, backend, implementation, arguments)
        return result, _name_of(implementation)
    is_torch, place = _arrays.is_torch(example), _arrays.kernels_for(example)
    if backend == "torch" and not _why_no_composite(op, example):
        _check_as_kernels_do(op, arguments)
        composite = composites.find(op.call_name)
        return _autocast.composite(composite, arguments), f"{op.name}/torch"
    if backend == place and is_torch:
        try:
            return torch_function(op.call_name)(*arguments), f"{op.name}/{backend}"
        except RuntimeError as error:
            _library.raise_as_ours(error)
            raise
    if backend == "reference" and place == "cuda" and is_torch:
        return _reference_of_gpu(op, arguments, example), f"{op.name}/reference"
    unreachable = place == "cuda" and backends.cuda_unavailable()
    if (backend == place and not unreachable) or (backend == "reference" and place == "cpu"):
        results = through_c(op, arguments, example, backend == "reference")
        return _one_or_all(results), f"{op.name}/{backend}"
    told = _candidates(op, arguments)
    raise _library.UnsupportedError(f"{op.name}: no kernel for backend {backend}. {told}")


def _check_as_kernels_do(op: Operator, arguments: list[Any]) -> None:
    from tilewright import _torch

    _torch.load()
    _torch.check(op, arguments)


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _reference_of_gpu(op: Operator, arguments: list[Any], example: Any) -> Any:
    """The definition, which runs on the CPU, of PyTorch's tensors on a GPU."""
    here = [value.cpu() if _arrays.is_torch(value) else value for value in arguments]
    results = through_c(op, here, example, True)
    return _one_or_all([result.to(example.device) for result in results])


def _why_no_composite(op: Operator, example: Any) -> str:
    """Empty where PyTorch's composite of the operator takes the call."""
    none = composites.why_none(op.call_name)
    return none or ("" if _arrays.is_torch(example) else "takes PyTorch's tensors only")


def _candidates(op: Operator, arguments: list[Any]) -> str:
    """All backends, each with what speaks against it."""
    return backends.candidates(lambda name: _why_not(name, op, arguments))


def _takes_dtypes(op: Operator, arguments: list[Any]) -> bool:
    """Whether the operator is declared for tensors of these dtypes."""
    given = {
        arg.type: _explain.describe(value)[1]
        for arg, value in zip(op.inputs, arguments, strict=True)
        if _arrays.is_array(value) and not arg.is_int_list
    }
    return any(
        all(dtype == _arrays.DTYPES[combo.get(name, name)] for name, dtype in given.items())
        for combo in (*op.dtypes, *op.reference_dtypes)
    )


def _why_not(backend: str, op: Operator, arguments: list[Any]) -> str:
    """Why a backend does not take a call; empty where it does."""
    example = next(value for value in arguments if _arrays.is_array(value))
    if backends.find_impl(op.call_name, backend):
        return ""
    if backend == "torch" and (none := _why_no_composite(op, example)):
        return none
    if backend in backends.KERNELS and (unavailable := backends.why_unavailable(backend)):
        return unavailable
    if backend == "cuda" and not op.on_cuda:
        return "it has no kernel for GPUs"
    place = _arrays.kernels_for(example)
    if backend in backends.KERNELS and backend != place:
        return f"takes arrays on the {backend}, these are on the {place}"
    return "" if _takes_dtypes(op, arguments) else "not for these dtypes"


def _record(
    op: Operator, arguments: list[Any], outcome: tuple[str, str, str, bool]
) -> _explain.Record:
    backend, kernel, reason, fallback = outcome
    described = [_explain.describe(value) for value in arguments if _arrays.is_array(value)]
    return _explain.Record(
        op=op.name,
        shapes=[shape for shape, _, _ in described],
        dtypes=[dtype for _, dtype, _ in described],
        device=described[0][2] if described else "cpu",
        backend=backend,
        kernel=kernel,
        isa="",
        reason=reason,
        fallback=fallback,
    )


def call(op: Operator, arguments: list[Any], backend: str | None) -> Any:
    """Runs an operator where the caller, the block or the process says."""
    block = _explain.active()
    if block is None:
        return _dispatch(op, checked(op, arguments), backend)[0]
    started, record = block.begin(), None
    try:
        arguments = checked(op, arguments)
        result, outcome = _dispatch(op, arguments, backend)
        record = _record(op, arguments, outcome)
    finally:
        block.end(record, started)
    return result


def _dispatch(
    op: Operator, arguments: list[Any], backend: str | None
) -> tuple[Any, tuple[str, str, str, bool]]:
    """The result; and the backend, the kernel, the reason for it and whether it is a fallback."""
    example = next(value for value in arguments if _arrays.is_array(value))
    backend = backends.named_backend() if backend is None else backend
    wanted = backends.get_current_backend() if backend is None else backend
    if wanted not in backends.BACKENDS:
        told = _candidates(op, arguments)
        raise ValueError(f"{op.name}: there is no backend {wanted!r}. {told}")
    ran, fallback = wanted, False
    reason = "requested" if backend is not None else "current backend"
    if backend is None and wanted in backends.KERNELS:
        ran = wanted = _arrays.kernels_for(example)
    try:
        result, kernel = _run_on(wanted, op, arguments, example)
    except NotImplementedError as error:
        ran = backends.fallback_policy()
        if ran in ("error", wanted):
            _refuse_dtypes(op, arguments, error)
            raise
        fallback, reason = True, str(error).split("\n")[0]
        try:
            result, kernel = _run_on(ran, op, arguments, example)
        except NotImplementedError as refusal:
            raise _refused_by_both(op, arguments, {wanted: error, ran: refusal}) from None
    return result, (ran, kernel, reason, fallback)


def _refused_by_both(
    op: Operator, arguments: list[Any], refusals: dict[str, NotImplementedError]
) -> _library.UnsupportedError:
    """What the fallback says, and of every backend why it does not take the call.

    A refusal in a backend's own words stands in for a reason where only the backend knows one.
    """
    own = {
        name: str(error).split("\n")[0].partition(". Candidates: ")[0]
        for name, error in refusals.items()
    }
    told = backends.candidates(lambda name: _why_not(name, op, arguments) or own.get(name, ""))
    name, refusal = list(refusals.items())[-1]
    return _library.UnsupportedError(
        "\n".join((f"{own[name]}. {told}", *str(refusal).split("\n")[1:]))
    )


def _refuse_dtypes(op: Operator, arguments: list[Any], error: NotImplementedError) -> None:
    """Of dtypes that nothing takes: which argument's the catalog lacks, or what each backend says.

    Raises:
        UnsupportedError: they are such dtypes.
    """
    known = {*_arrays.NAMES.values(), ""}
    for arg, value in zip(op.inputs, arguments, strict=True):
        dtype = _explain.describe(value)[1]
        if _arrays.is_array(value) and dtype not in known and "DLPack only" not in str(error):
            what = f"torch.{dtype}" if _arrays.is_torch(value) else dtype
            raise _library.UnsupportedError(
                f"{op.name}: {arg.name} is {what}, which no operator takes\n  in {op.schema}"
            ) from None
    if not _takes_dtypes(op, arguments) and "Candidates: " not in str(error):
        first, *rest = str(error).split("\n")
        told = f"{first}. {_candidates(op, arguments)}"
        raise _library.UnsupportedError("\n".join((told, *rest))) from None


call_untraced = call  # torch.compile looks into it until load_traced has told it not to


def signature(op: Operator) -> inspect.Signature:
    """The Python signature: inputs by position or name, then `backend` by name."""
    parameters = [
        inspect.Parameter(
            arg.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=arg.default_value
        )
        for arg in op.inputs
    ]
    backend = inspect.Parameter("backend", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature([*parameters, backend])
