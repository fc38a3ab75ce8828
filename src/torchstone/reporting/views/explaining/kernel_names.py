"""Short names of kernels: what distinguishes them, without the C++ around it."""

from __future__ import annotations

import re

_FUNCTOR = re.compile(r"\b(\w*(?:Functor|KernelImpl|_kernel_cuda|_kernel_impl|Ops|Op)\w*)(?=[<(,>:])")
_GENERIC = re.compile(
    r"\b(?:(?:un)?(?:rolled_|vectorized_)*(?:elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel))\b"
)
_OF_GENERIC = frozenset({"gpu_kernel_impl", "gpu_kernel_impl_nocast", "ReduceOp", "TensorIteratorOp"})
_QUALIFIERS = re.compile(
    r"\b(?:at::native::|at::cuda::|at::|c10::|std::|pytorch_flash::|cutlass::|cublasLt::|cudnn::)|\(anonymous namespace\)::"
)
_XMMA_END = re.compile(r"_stage\d+_warpsize.*|_execute_kernel__\w+|_warpgroupsize.*")
_INNER = re.compile(r"cutlass::Kernel2?<([^<>]+)>")


def short_name(name: str) -> str:
    """Return a kernel's name without return type, namespaces, template and call arguments.

    >>> short_name("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)")
    'vectorized_layer_norm_kernel'
    >>> short_name("void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >")
    'elementwise CUDAFunctor_add'
    >>> short_name("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)")
    'cutlass_80_simt_sgemm_128x64_8x5_nn_align1'
    """
    if inner := _INNER.search(name):
        return inner[1]
    if not name.startswith("void ") and "<" not in name and "::" not in name:
        return _XMMA_END.sub("", name)
    if (generic := _GENERIC.search(name)) and (functor := _functor(name)):
        kind = (
            "reduce" if "reduce" in generic[0] else "multi_tensor" if "multi" in generic[0] else "elementwise"
        )
        return f"{kind} {functor}"
    if name.startswith("aten::") or not name.startswith("void "):
        return name
    plain = _QUALIFIERS.sub("", name.removeprefix("void "))
    return re.split(r"[<(]", plain, maxsplit=1)[0] or name


def _functor(name: str) -> str:
    """Return the function that a generic kernel applies; empty if its name does not say."""
    return next((each for each in _FUNCTOR.findall(name) if each not in _OF_GENERIC), "")
