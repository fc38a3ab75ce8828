"""Tell from the name of a kernel or an operator what kind of work it is, and in which dtype it multiplies matrices.

One table of patterns, tried in order. A worker uses it too, so it needs nothing installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class KernelFamily(StrEnum):
    """What kind of work a kernel or an operator does."""

    PRODUCTS = "matrix products"
    CONVOLUTIONS = "convolutions"
    ATTENTION = "attention"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    REDUCTIONS = "reductions"
    POINTWISE = "pointwise"
    INDEXING = "indexing"
    COPIES = "copies"
    COMMUNICATION = "communication"
    OVERHEAD = "overhead"
    OTHER = "other"


FLOAT32, TF32 = "float32", "tf32"
HALF_PRECISION = frozenset({"bfloat16", "float16"})
WITH_DTYPE = frozenset({KernelFamily.PRODUCTS, KernelFamily.CONVOLUTIONS, KernelFamily.ATTENTION})
"""Families in which the dtype decides which units of the device do the work."""


@dataclass(frozen=True)
class KernelKind:
    """The family of a kernel, and the dtype it computes in; empty if its name does not say."""

    family: KernelFamily
    dtype: str = ""


_F = KernelFamily
# What inductor generates says first how it loops: pointwise, persistent reduction, reduction, template.
_GENERATED = re.compile(r"(?:^|_)(?:triton_(?P<kind>poi|per|red|tem|for|mm|bmm)_?|cpp_)(?P<ops>.*)")
_COMPLETE_NORM = re.compile(
    r"(?:native|fused)_?(?:layer|group|batch)_norm|layer_norm|rms_?norm|batch_norm|var_mean"
)
_COMPLETE_NORM_BY_PARTS = re.compile(r"(?=.*rsqrt)(?=.*(?:mean|var))(?=.*(?:pow|sub|mul))")
_SOFTMAX = re.compile(r"softmax|logsumexp")
_REDUCING_OPS = re.compile(
    r"(?:^|_)(?:sum|mean|amax|amin|max|min|prod|argmax|argmin|norm|any|all|cumsum|var|std|nll_loss)(?:_|$)"
)
_TEMPLATE_ATTENTION = re.compile(r"attention|flex|sdpa")

# Tried in order on the lower-case name; the first that is found decides.
_PATTERNS: tuple[tuple[re.Pattern[str], KernelFamily], ...] = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"nccl|rccl|oneccl|^c10d::|gloo:|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", _F.COMMUNICATION),
        (r"^mem(?:cpy|set)\b|^memcpy|^memset|^copybuffer|^fillbuffer|hipmemcpy|hipmemset", _F.COPIES),
        (r"torch-compiled region|_dot_product_attention_math|compiledfxgraph|cache lookup|^compiledfunction|cudagraph|pregraph", _F.OVERHEAD),
        (r"^aotdispatcher|^autograd::|accumulategrad|^\w+backward\d+$|^##|^torch::autograd|^optimizer\.|^torchdynamo", _F.OVERHEAD),
        (r"^aten::_?(?:view|as_strided|empty\w*|new_empty\w*|expand\w*|select|unbind|t|transpose|permute|slice|narrow|reshape|_reshape_alias|detach\w*|alias|unsqueeze|squeeze|flatten|resolve_conj|resolve_neg|lift_fresh|item|local_scalar_dense|is_nonzero|set_|resize_|swapaxes|movedim|unfold|broadcast_to)_?$", _F.OVERHEAD),
        (r"flash_(?:fwd|bwd)|pytorch_flash|flash_?attn|flash::|fmha|sdpa|scaled_dot_product|_efficient_attention", _F.ATTENTION),
        (r"flashattn|aotriton|attn_fwd|attn_bwd|flex_attention|multi_?head_attention", _F.ATTENTION),
        (r"implicit_gemm|convolution|conv(?:1|2|3)?d|conv_depthwise|depthwise|wgrad|dgrad|fprop|winograd|cudnn.*conv", _F.CONVOLUTIONS),
        (r"nchwtonhwc|nhwctonchw", _F.COPIES),
        (r"softmax|logsumexp", _F.SOFTMAX),
        (r"layer_?norm|group_?norm|batch_?norm|instance_?norm|rms_?norm|bn_fw|bn_bw|rowwisemoments|gammabeta", _F.NORMALISATION),
        (r"welford|computefusedparams|cunn_.*norm", _F.NORMALISATION),
        (r"gemm|gemv|nvjet|xmma|cutlass|cublas|splitk|^cijk_|matmul|tensorop|wmma|hgmma|_sm90_.*mma", _F.PRODUCTS),
        (r"^aten::(?:_?addmm|mm|bmm|baddbmm|addbmm|linear|addmv|mv|dot|vdot|_scaled_mm|_grouped_mm|einsum|ger)", _F.PRODUCTS),
        (r"_linear_pointwise|mkl_linear|mkldnn_linear|onednn::|_addmm_activation|packed_linear|weight_int", _F.PRODUCTS),
        (r"embedding|index|gather|scatter|sort|topk|radix|nonzero|masked_select|unique|bucketize|searchsorted|take_along", _F.INDEXING),
        (r"direct_copy|copy_device_to_device|catarray|transpose_?(?:kernel|readwrite)|^aten::(?:copy_|_to_copy|contiguous|clone|cat|stack)$", _F.COPIES),
        (r"^aten::(?:to|_to_copy|_cat|split|chunk|pin_memory)$|copy_kernel", _F.COPIES),
        (r"reduce_kernel|reduce_1block|reducesum|device_?reduce|segmented_?reduce|devicescan|tensor_kernel_scan|cumsum|cumprod|argmax|argmin", _F.REDUCTIONS),
        (r"^aten::_?(?:sum|mean|amax|amin|max|min|prod|norm|linalg_vector_norm|any|all|var|std|var_mean|nll_loss\w*|cross_entropy\w*|mse_loss\w*)$", _F.REDUCTIONS),
        (r"nll_loss|cross_entropy|loss_kernel|maxpool|max_pool|avg_?pool|pooling", _F.REDUCTIONS),
        (r"elementwise|multi_tensor_apply|distribution_|philox|dropout|foreach|^fill|fill_kernel|arange", _F.POINTWISE),
        (r"^aten::_?(?:add|sub|mul|div|relu|gelu|silu|sigmoid|tanh|exp|log|pow|sqrt|rsqrt|neg|abs|where|masked_fill|clamp\w*|fill|zero|ones_like|zeros_like|full_like)_?$", _F.POINTWISE),
        (r"^aten::_?(?:erf|cos|sin|eq|ne|lt|gt|le|ge|bitwise_\w+|logical_\w+|triu|tril|hardtanh|hardswish|leaky_relu|elu|mish|lerp|addcmul|addcdiv|reciprocal|square|round|floor|rsub|threshold\w*|\w+_backward)_?$", _F.POINTWISE),
        (r"^aten::_?(?:softplus|log_?sigmoid(?:_forward)?|hard_?sigmoid|relu6|celu|selu|r?relu|prelu|glu|soft_?sign|(?:hard|soft|tanh)_?shrink|logit|(?:log)?addexp2?|clip|maximum|minimum|fmax|fmin|i0|sinc|xlogy|hypot|copysign|ldexp|heaviside|angle|conj_physical|positive)_?$", _F.POINTWISE),
        (r"^aten::(?:exp2|expm1|log1p|log2|log10|logaddexp2?|erfc|erfinv|l?i?gamma\w*|digamma|polygamma|a?(?:sin|cos|tan)h?|atan2|ceil|trunc|frac|sgn|sign|signbit|fmod|remainder|floor_divide|true_divide|float_power|nan_to_num|is(?:nan|inf|finite|neginf|posinf)|special_\w+|__\w+__)_?$", _F.POINTWISE),
        (r"^aten::(?:zeros|ones|full|new_(?:zeros|ones|full)|scalar_tensor|zero_|eye|linspace|rand\w*|normal|uniform|bernoulli|exponential)_?$", _F.POINTWISE),
        (r"^aten::(?:repeat\w*|tile|flip|roll|rot90|constant_pad_nd|\w+_pad[123]d|pad|copy)$", _F.COPIES),
        (r"^aten::(?:_unsafe_view|view_as|expand_as|type_as|diagonal|split_with_sizes|tensor_split|unflatten|ravel|chunk|t_|numpy_t|real|imag|view_as_(?:real|complex))$", _F.OVERHEAD),
    )
)  # fmt: skip

_DTYPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), dtype)
    for pattern, dtype in (
        (r"tf32", TF32),
        (r"float8|e4m3|e5m2|f8f8|qgmma|nvjet_(?:sm\d+_)?q", "float8"),
        (r"bf16|bfloat16|bhalf|nvjet_(?:sm\d+_)?t|_bbs_|_bb_|_bss_", "bfloat16"),
        (r"f16f16|fp16|float16|h1688|h16816|h884|hgemm|half|f16_s|s16816gemm_f16|nvjet_(?:sm\d+_)?h|_hhs_|_hh_|_hss_", "float16"),
        (r"s1688|simt_tf32", TF32),
        (r"f64f64|dgemm|d884|double|float64|_dd_|_db_", "float64"),
        (r"s8s8|i8i8|int8|imma|igemm|s32_s8", "int8"),
        (r"f32f32|sgemm|simt_s|float32|\bfloat\b|<float|_sss_|_sb_mt|_ss_bh|nvjet_(?:sm\d+_)?s", FLOAT32),
    )
)  # fmt: skip

_OF_TORCH = {
    "float": FLOAT32,
    "double": "float64",
    "c10::half": "float16",
    "c10::bfloat16": "bfloat16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "signed char": "int8",
    "c10::float8_e4m3fn": "float8",
    "c10::float8_e5m2": "float8",
}


def classify(name: str, operator: str = "", operator_dtype: str = "") -> KernelKind:
    """Return what a kernel does. ``operator`` launched it, with tensors of ``operator_dtype``, as torch's profiler calls both.

    >>> classify("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8")
    KernelKind(family=<KernelFamily.PRODUCTS: 'matrix products'>, dtype='float32')
    >>> classify("triton_poi_fused_gelu_0").family.value
    'pointwise'
    """
    lower = name.lower()
    family = family_of(name)
    if family in {KernelFamily.OTHER, KernelFamily.COPIES, KernelFamily.POINTWISE} and operator:
        family = _refine(family, family_of(operator))
    return KernelKind(family, _dtype_of(lower, operator_dtype) if family in WITH_DTYPE else "")


@lru_cache(maxsize=4096)
def family_of(name: str) -> KernelFamily:
    """Return the family of a kernel or operator by its name alone."""
    lower = name.lower()
    generated = _GENERATED.match(lower)
    if generated:
        return _family_of_generated(generated["kind"] or "", generated["ops"])
    return next((family for pattern, family in _PATTERNS if pattern.search(lower)), KernelFamily.OTHER)


def _family_of_generated(kind: str, ops: str) -> KernelFamily:
    """Return the family of a kernel that inductor generated, from its kind and the operators it fuses."""
    if kind in {"tem", "mm", "bmm"}:
        if _TEMPLATE_ATTENTION.search(ops):
            return KernelFamily.ATTENTION
        return KernelFamily.CONVOLUTIONS if "conv" in ops else KernelFamily.PRODUCTS
    if kind == "poi":
        return KernelFamily.POINTWISE
    if _SOFTMAX.search(ops):
        return KernelFamily.SOFTMAX
    if _COMPLETE_NORM.search(ops) or _COMPLETE_NORM_BY_PARTS.search(ops):
        return KernelFamily.NORMALISATION
    if kind in {"per", "red"} or _REDUCING_OPS.search(ops):
        return KernelFamily.REDUCTIONS
    return KernelFamily.POINTWISE


_KEPT_FAMILIES = {
    KernelFamily.COPIES: frozenset({KernelFamily.COMMUNICATION}),
    KernelFamily.POINTWISE: frozenset(
        {KernelFamily.NORMALISATION, KernelFamily.SOFTMAX, KernelFamily.ATTENTION}
    ),
}


def _refine(family: KernelFamily, of_operator: KernelFamily) -> KernelFamily:
    """Return the operator's family where it says more than the kernel's."""
    if family is KernelFamily.OTHER:
        return of_operator
    return of_operator if of_operator in _KEPT_FAMILIES[family] else family


def _dtype_of(lower: str, operator_dtype: str) -> str:
    """Return the dtype of the multiplied tensors: TF32 only the kernel's name tells, others the operator tells best."""
    named = next((dtype for pattern, dtype in _DTYPES if pattern.search(lower)), "")
    stated = _OF_TORCH.get(operator_dtype.lower(), "")
    return named if named == TF32 or not stated else stated
