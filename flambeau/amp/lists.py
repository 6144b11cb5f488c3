"""Which ops run in which dtype under autocast, stated once: PyTorch's lists for the CPU in our names.

An op that is in none of the lists takes its operands as they are; mixed dtypes promote as they always do.
"""

LOWER = "in the dtype of the block"
FLOAT32 = "in float32"
WIDEST = "in the widest dtype of the operands"
PLAIN = "as outside of the block"

# Products of matrices are quick in a short dtype and add up in float32.
_LOWER = """
    matmul mm linear addmm addbmm baddbmm vecdot attention scaled_dot_product_attention recurrent_plain
    convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu
"""

# Losses, decompositions, transforms and long products lose too much in a short dtype.
_FLOAT32 = """
    prod quantile nanquantile stft fourier_transform cdist trace view_as_complex polar padded_by_border
    mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy kl_div ctc_loss
    cross_entropy_loss cross_entropy_of_probabilities binary_cross_entropy binary_cross_entropy_with_logits
    cosine_embedding_loss hinge_embedding_loss poisson_nll_loss soft_margin_loss margin_ranking_loss
    triplet_margin_loss multi_margin_loss multilabel_margin_loss
    avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_unpool2d max_unpool3d
    fractional_max_pool2d fractional_max_pool3d grid_sample
    cholesky cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf householder_product logdet
    lstsq lu_solve matrix_rank pinverse qr qr_decomposition solve solve_triangular svd svd_decomposition
    svdvals tensorsolve triangular_solve
    _linalg_cholesky _linalg_cofactor _linalg_complete_qr _linalg_det _linalg_eig _linalg_eigh _linalg_inv
    _linalg_ldl_factor _linalg_ldl_solve _linalg_lu_factor _linalg_pinv _linalg_qr_reduced _linalg_reflections
    _linalg_row_exchanges _linalg_slogdet _linalg_solve _linalg_solve_triangular _linalg_svd_reduced
"""

_WIDEST = "index_copy recurrent_gated lstm_gates gru_gates"

# Made of products of matrices here, and not of them in PyTorch.
_PLAIN = "mv dot vdot outer inner addmv addr bilinear"

RULES = {name: rule for names, rule in ((_LOWER, LOWER), (_FLOAT32, FLOAT32), (_WIDEST, WIDEST),
                                        (_PLAIN, PLAIN))
         for name in names.split()}
