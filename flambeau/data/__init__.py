"""Datasets, samplers and the DataLoader, with PyTorch's names and meaning (torch.utils.data)."""

from flambeau.data.collate import collate, default_collate, default_collate_fn_map, default_convert
from flambeau.data.dataloader import DataLoader, StatefulDataLoader
from flambeau.data.dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split)
from flambeau.data.sampler import (
    BatchSampler, DistributedSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler)
from flambeau.data.workers import get_worker_info

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset",
           "DistributedSampler", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
           "StackDataset",
           "StatefulDataLoader", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
           "collate", "default_collate", "default_collate_fn_map", "default_convert", "get_worker_info",
           "random_split"]
