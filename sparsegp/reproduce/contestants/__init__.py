"""Classifiers that pipelines compare: ours, and those of libraries that users would take."""

from sparsegp.reproduce.contestants.against_rest import OneAgainstRest as OneAgainstRest
from sparsegp.reproduce.contestants.base import CONTESTANTS as CONTESTANTS
from sparsegp.reproduce.contestants.base import Contestant as Contestant
from sparsegp.reproduce.contestants.base import Fitted as Fitted
from sparsegp.reproduce.contestants.base import in_memory as in_memory
from sparsegp.reproduce.contestants.linear import Discriminant as Discriminant
from sparsegp.reproduce.contestants.linear import Logistic as Logistic
from sparsegp.reproduce.contestants.linear import NystroemLogistic as NystroemLogistic
from sparsegp.reproduce.contestants.linear import TunedLogistic as TunedLogistic
from sparsegp.reproduce.contestants.neighbours import Neighbours as Neighbours
from sparsegp.reproduce.contestants.neighbours import (
    ProbabilisticNeighbour as ProbabilisticNeighbour,
)
from sparsegp.reproduce.contestants.ours import Ours as Ours
from sparsegp.reproduce.contestants.rival import Rival as Rival
from sparsegp.reproduce.contestants.svgp import SVGP as SVGP
from sparsegp.reproduce.contestants.vectors import SVC as SVC
from sparsegp.reproduce.contestants.vectors import TunedSVC as TunedSVC
