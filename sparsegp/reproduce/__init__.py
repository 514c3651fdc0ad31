"""Pipelines: published figures run again from one TOML file each."""

from sparsegp.reproduce.page import write_page as write_page
from sparsegp.reproduce.pipeline import Pipeline as Pipeline
from sparsegp.reproduce.pipeline import read_pipeline as read_pipeline
from sparsegp.reproduce.runner import Outcome as Outcome
from sparsegp.reproduce.runner import reproduce as reproduce
from sparsegp.reproduce.runner import standing as standing
