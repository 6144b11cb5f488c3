"""torch.nn.attention: choices of kernels are accepted."""

import pytest

import flambeau.torch as torch
from flambeau.torch.nn.attention import SDPBackend, sdpa_kernel


def test_naming_kernels_changes_nothing():
    query = torch.arange(8.0).reshape(1, 1, 2, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    plain = attend(query, query, query)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert (attend(query, query, query) == plain).all()
    assert (sdpa_kernel(SDPBackend.MATH)(attend)(query, query, query) == plain).all()
    with pytest.raises(AssertionError, match="Backend"), sdpa_kernel("flash"):
        pass
