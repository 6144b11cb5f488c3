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


def test_causal_masks_of_queries_that_are_fewer_than_the_keys():
    from flambeau.torch.nn.attention.bias import causal_lower_right, causal_upper_left

    attention = torch.nn.functional.scaled_dot_product_attention
    query, key, value = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    first, last = causal_upper_left(3, 5), causal_lower_right(3, 5)
    assert type(first) is type(last) and isinstance(first, torch.Tensor) and (last.seq_len_q, last.seq_len_kv) == (3, 5)
    assert torch.allclose(attention(query, key, value, first), attention(query, key, value, is_causal=True))
    seen = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
    out = attention(query, key, value, attn_mask=last)
    assert torch.equal(out, attention(query, key, value, seen)) and type(out) is type(last + 1) is torch.Tensor
    assert repr(last) == repr(seen)
    with pytest.raises(AssertionError, match="got 1 sizes"):
        causal_lower_right(3)
