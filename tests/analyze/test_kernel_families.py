"""Which family of work a kernel or an operator belongs to, and in which dtype it multiplies."""

from __future__ import annotations

import pytest

from torchstone.analyze.call_time.kernel_families import KernelFamily, classify

_F = KernelFamily

KERNELS = [
    # cuBLAS, cuBLASLt and cutlass
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas", _F.PRODUCTS, "float32"),
    ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1", _F.PRODUCTS, "tf32"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", _F.PRODUCTS, "bfloat16"),
    ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64", _F.PRODUCTS, "float16"),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", _F.PRODUCTS, "bfloat16"),
    ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_tn", _F.PRODUCTS, "float16"),
    ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_nn", _F.PRODUCTS, "bfloat16"),
    ("ampere_sgemm_32x128_tn", _F.PRODUCTS, "float32"),
    ("volta_dgemm_64x64_nn", _F.PRODUCTS, "float64"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(T1::Params)", _F.PRODUCTS, "tf32"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>(T1::Params)", _F.PRODUCTS, "bfloat16"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)", _F.PRODUCTS, "float32"),
    ("nvjet_tst_128x256_64x6_2x1_v_bz_TNT", _F.PRODUCTS, "bfloat16"),
    ("nvjet_hsh_64x8_64x16_4x1_v_bz_TNT", _F.PRODUCTS, "float16"),
    ("nvjet_sm90_tst_mma_128x128x64", _F.PRODUCTS, "bfloat16"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams)", _F.PRODUCTS, "bfloat16"),
    ("void gemv2T_kernel_val<int, int, float, float, float, 128, 16, 4, 4, false>(cublasGemvParamsEx)", _F.PRODUCTS, "float32"),
    ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1", _F.PRODUCTS, "bfloat16"),
    ("Cijk_Ailk_Bljk_HHS_BH_MT64x64x32", _F.PRODUCTS, "float16"),
    # inductor
    ("triton_tem_fused_addmm_relu_3", _F.PRODUCTS, ""),
    ("triton_mm_fused_mm_1", _F.PRODUCTS, ""),
    ("triton_tem_fused_convolution_2", _F.CONVOLUTIONS, ""),
    ("triton_tem_fused_flex_attention_0", _F.ATTENTION, ""),
    ("triton_poi_fused_gelu_0", _F.POINTWISE, ""),
    ("triton_poi_fused_add_native_layer_norm_0", _F.POINTWISE, ""),
    ("triton_per_fused_add_native_layer_norm_4", _F.NORMALISATION, ""),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2", _F.NORMALISATION, ""),
    ("triton_per_fused__softmax_add_5", _F.SOFTMAX, ""),
    ("triton_red_fused_sum_1", _F.REDUCTIONS, ""),
    ("triton_per_fused_embedding_add_1", _F.REDUCTIONS, ""),
    ("cpp_fused__softmax_add_2", _F.SOFTMAX, ""),
    ("cpp_fused_add_native_layer_norm_view_1", _F.NORMALISATION, ""),
    ("cpp_fused__scaled_dot_product_flash_attention_for_cpu_transpose_0", _F.POINTWISE, ""),
    ("cpp_fused_mean_2", _F.REDUCTIONS, ""),
    # attention
    ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)", _F.ATTENTION, ""),
    ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>(Flash_fwd_params)", _F.ATTENTION, "bfloat16"),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", _F.ATTENTION, "bfloat16"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64_4x1x1_kernel0_0", _F.ATTENTION, ""),
    ("attn_fwd.kd", _F.ATTENTION, ""),
    # normalisation, softmax, reductions
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float)", _F.NORMALISATION, ""),
    ("void at::native::batch_norm_transform_input_kernel<float, float>", _F.NORMALISATION, ""),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true>", _F.NORMALISATION, ""),
    ("void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>", _F.NORMALISATION, ""),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, true, false>", _F.SOFTMAX, ""),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>", _F.REDUCTIONS, ""),
    ("void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>", _F.REDUCTIONS, ""),
    # pointwise, indexing
    ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", _F.POINTWISE, ""),
    ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float>>>", _F.POINTWISE, ""),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", _F.POINTWISE, ""),
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>", _F.INDEXING, ""),
    ("void at::native::(anonymous namespace)::embedding_backward_feature_kernel", _F.INDEXING, ""),
    # copies, communication
    ("Memcpy HtoD (Pinned -> Device)", _F.COPIES, ""),
    ("Memcpy DtoD (Device -> Device)", _F.COPIES, ""),
    ("Memset (Device)", _F.COPIES, ""),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", _F.COPIES, ""),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", _F.COMMUNICATION, ""),
    ("gloo:all_reduce", _F.COMMUNICATION, ""),
    # convolutions
    ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", _F.CONVOLUTIONS, "tf32"),
    ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", _F.CONVOLUTIONS, "float32"),
    ("void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>", _F.CONVOLUTIONS, "float32"),
    ("my_own_kernel_of_nobody", _F.OTHER, ""),
    ("", _F.OTHER, ""),
]  # fmt: skip

OPERATORS = [
    ("aten::addmm", _F.PRODUCTS),
    ("aten::bmm", _F.PRODUCTS),
    ("aten::linear", _F.PRODUCTS),
    ("mkldnn::_linear_pointwise", _F.PRODUCTS),
    ("mkl::_mkl_linear", _F.PRODUCTS),
    ("aten::mkldnn_convolution", _F.CONVOLUTIONS),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", _F.ATTENTION),
    ("aten::_scaled_dot_product_attention_math", _F.OVERHEAD),
    ("aten::native_layer_norm", _F.NORMALISATION),
    ("aten::_softmax", _F.SOFTMAX),
    ("aten::mean", _F.REDUCTIONS),
    ("aten::gelu", _F.POINTWISE),
    ("aten::add_", _F.POINTWISE),
    ("aten::softplus", _F.POINTWISE),
    ("aten::log_sigmoid_forward", _F.POINTWISE),
    ("aten::minimum", _F.POINTWISE),
    ("aten::tan", _F.POINTWISE),
    ("aten::zeros", _F.POINTWISE),
    ("aten::flip", _F.COPIES),
    ("aten::_unsafe_view", _F.OVERHEAD),
    ("aten::copy_", _F.COPIES),
    ("aten::embedding", _F.INDEXING),
    ("aten::view", _F.OVERHEAD),
    ("aten::transpose", _F.OVERHEAD),
    ("AddmmBackward0", _F.OVERHEAD),
    ("autograd::engine::evaluate_function: AddmmBackward0", _F.OVERHEAD),
    ("TorchDynamo Cache Lookup", _F.OVERHEAD),
    ("CompiledFxGraph", _F.OVERHEAD),
    ("Torch-Compiled Region: 0/0", _F.OVERHEAD),
]


@pytest.mark.parametrize(("name", "family", "dtype"), KERNELS, ids=[each[0][:60] for each in KERNELS])
def test_a_kernel_has_a_family_and_multiplies_in_a_dtype(name: str, family: KernelFamily, dtype: str) -> None:
    found = classify(name)
    assert (found.family, found.dtype) == (family, dtype)


@pytest.mark.parametrize(("name", "family"), OPERATORS, ids=[each[0] for each in OPERATORS])
def test_an_operator_of_a_cpu_has_a_family(name: str, family: KernelFamily) -> None:
    assert classify(name).family is family


def test_the_operator_tells_the_dtype_that_a_name_hides() -> None:
    assert classify("triton_tem_fused_mm_0", "aten::mm", "c10::BFloat16").dtype == "bfloat16"
    assert classify("nvjet_sss_128x64", "aten::bmm", "float").dtype == "float32"


def test_only_the_name_tells_that_a_float32_product_runs_as_tf32() -> None:
    name = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
    assert classify(name, "aten::addmm", "float").dtype == "tf32"


def test_the_operator_tells_what_an_anonymous_kernel_does() -> None:
    assert classify("kernel0", "aten::native_layer_norm").family is _F.NORMALISATION
    assert classify("kernel0", "aten::bmm", "float").family is _F.PRODUCTS


def test_a_copy_for_a_collective_is_communication() -> None:
    assert classify("Memcpy DtoD (Device -> Device)", "nccl:all_gather").family is _F.COMMUNICATION


def test_a_pointwise_kernel_of_an_ordinary_operator_stays_pointwise() -> None:
    assert classify("vectorized_elementwise_kernel", "aten::mm").family is _F.POINTWISE
