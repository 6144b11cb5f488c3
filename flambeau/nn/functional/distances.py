"""Distances and angles between vectors."""

from flambeau.ops import distance, norms

cosine_similarity, pairwise_distance, pdist = distance.cosine_similarity, norms.pairwise_distance, norms.pdist
