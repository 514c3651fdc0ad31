"""Progress displays, metrics and plots."""

from sparsegp.report.metrics import Evaluation as Evaluation
from sparsegp.report.metrics import RegressionEvaluation as RegressionEvaluation
from sparsegp.report.metrics import TwoClasses as TwoClasses
from sparsegp.report.metrics import evaluate as evaluate
from sparsegp.report.metrics import evaluate_regression as evaluate_regression
from sparsegp.report.metrics import evaluate_two_classes as evaluate_two_classes
from sparsegp.report.metrics import rejecting as rejecting
from sparsegp.report.pictures import evaluation_pictures as evaluation_pictures
from sparsegp.report.pictures import explanation_pictures as explanation_pictures
from sparsegp.report.progress import TerminalProgress as TerminalProgress
from sparsegp.report.progress import progress_for as progress_for
