"""torch.utils.data: the private names that libraries use, and what is refused."""

import pytest

import flambeau.torch as torch
from flambeau import data
from flambeau.torch.utils.data import _utils, dataloader


def test_private_names():
    loader = torch.utils.data.DataLoader(range(4), num_workers=1)
    iterator = iter(loader)
    assert isinstance(iterator, dataloader._MultiProcessingDataLoaderIter)
    assert isinstance(iterator, dataloader._BaseDataLoaderIter) and loader._iterator is None
    assert isinstance(iter(torch.utils.data.DataLoader(range(4))), dataloader._SingleProcessDataLoaderIter)
    assert next(iterator).tolist() == [0] and iterator._num_yielded == 1
    iterator._shutdown_workers()
    assert loader._dataset_kind == torch.utils.data._DatasetKind.Map and loader._auto_collation
    assert loader._index_sampler is loader.batch_sampler


def test_a_library_may_wrap_the_iterator():
    class Doubled(torch.utils.data.DataLoader):
        def _get_iterator(self):
            return (batch * 2 for batch in super()._get_iterator())
    assert [batch.item() for batch in Doubled(range(3))] == [0, 2, 4]


def test_collate_has_pytorchs_parts():
    collate = _utils.collate
    assert collate.default_collate is data.default_collate
    assert collate.default_collate_fn_map[torch.Tensor] is collate.collate_tensor_fn
    assert collate.collate_tensor_fn([torch.ones(2)] * 3).shape == (3, 2)

    class Own:
        pass
    names = {Own: lambda batch, *, collate_fn_map=None: len(batch), **collate.default_collate_fn_map}
    found = collate.collate([(Own(), torch.ones(1)), (Own(), torch.ones(1))], collate_fn_map=names)
    assert found[0] == 2 and found[1].tolist() == [[1], [1]]
    assert collate.np_str_obj_array_pattern.search("U") and "{}" in collate.default_collate_err_msg_format
    assert _utils.worker.get_worker_info() is None and _utils.pin_memory.pin_memory([1]) == [1]


def test_data_pipes_are_refused():
    with pytest.raises(AttributeError, match="a data pipe is an iterator over samples(.|\n)*IterableDataset"):
        torch.utils.data.datapipes.IterDataPipe
    with pytest.raises(AttributeError, match="IterableDataset"):
        torch.utils.data.IterDataPipe
