"""Progress, metrics and pictures."""

from sparsegp.report.history import History as History
from sparsegp.report.metrics import Evaluation as Evaluation
from sparsegp.report.metrics import evaluate as evaluate
from sparsegp.report.metrics import rejecting as rejecting
from sparsegp.report.plots import contours as contours
from sparsegp.report.plots import evaluation_pictures as evaluation_pictures
from sparsegp.report.plots import learning_curve as learning_curve
from sparsegp.report.plots import reject_curves as reject_curves
from sparsegp.report.progress import NullProgress as NullProgress
from sparsegp.report.progress import Progress as Progress
