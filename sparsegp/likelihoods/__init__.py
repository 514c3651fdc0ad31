"""Likelihoods of labels given latent values."""
