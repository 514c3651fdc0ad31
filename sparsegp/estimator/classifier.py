"""The classifier for scikit-learn: `sparsegp.train` and `Model` behind `fit` and `predict`."""

import os
from typing import Any

from sparsegp.estimator.classes import Classifier
from sparsegp.likelihoods import LIKELIHOODS
from sparsegp.likelihoods.binary import Binary
from sparsegp.settings import TrainSettings


class SparseGPClassifier(Classifier):
    """Sparse Gaussian process classifier: the informative vector machine.

    A greedy selection chooses the active rows, which span the latent functions of all classes.
    NumPy arrays and data frames give NumPy arrays; dask arrays and dask data frames are fitted
    block by block and give lazy dask arrays.

    There is no `sample_weight`: a weight of 2 would have to give what a repeated row gives, and a
    selection of rows does not, as a row and its copy compete for a place among the active rows.

    Parameters
    ----------
    n_active : int, optional
        Rows to include; all there are where they are fewer (rows kept aside for `calibration` do
        not count). None is 1000, or all rows if they are fewer.
    kernel : str or Kernel, optional
        A length scale left out is chosen from the data. None is "50*rbf + 50*matern52", or
        "10*rbf" with sites "moments".
    kernel_per_class : bool, optional
        One kernel for every class. The text may then name one kernel a class, separated by
        semicolons, in the order of `classes_`. None is True where sites "moments" of a likelihood
        with a latent value a class need it, as with `active_per_class`, and False otherwise.
    criterion : str, optional
        By which rows are selected; a name in `sparsegp.selection.criteria.CRITERIA`. None is
        "predictive", or "information" with sites "moments".
    posterior : str, optional
        Posterior over the span of the active rows; a name in `sparsegp.posterior.POSTERIORS`. None
        is "all", or "adf" with sites "moments", the only one there.
    likelihood : str
        A name in `sparsegp.likelihoods.LIKELIHOODS`, but for "gaussian": "multinomial_probit" and
        "softmax", "probit" and "logistic" (two classes only), "ordered_probit" (the order is that
        of `classes_`). Its parameters may follow, as in "probit(-1.5)".
    sites : str, optional
        How the likelihood of an active row becomes Gaussian: "variational", for the multinomial
        probit, or "moments". None is "variational" for the multinomial probit without
        `active_per_class`, and "moments" otherwise.
    active_per_class : bool
        An active set for every class, with sites "moments"; `n_active` then counts pairs of a row
        and a class.
    epsilon : float
        With sites "moments": least precision of the site of a row to be included.
    learn : str
        "none", or "evidence": kernels and likelihood by the evidence, with sites "moments".
    major_steps, minor_steps : int
        With `learn`: times that rows are selected anew, and line searches in between, at most.
    strategy : str
        With `learn`: what sites do between two selections, "constant", "hybrid", "exact" or
        "whole".
    hyperprior : str
        With `learn`: prior densities of what is learnt.
    stub_entries : int, optional
        Bound on candidates times active rows: candidates get fewer as the selection goes. For the
        posteriors "adf" and "active".
    shrink_every : int
        With `stub_entries`: inclusions between two thinnings of the candidates.
    keep_best : float
        With `stub_entries`: share of the candidates kept by score; the others are drawn at random.
    scaling : str
        Of the inputs: "auto", "standard", "range" or "none".
    precision : str
        Of inputs and stub matrices: "float32" or "float64".
    panel : int, optional
        Rows included between two scorings; 1 is the order of the paper. None is a number that suits
        the posterior.
    lookahead : int
        In the order of the paper: rows that are tried between two questions to the row blocks. The
        active rows do not depend on it.
    lazy : bool
        Evaluate only the scores that can matter. The active rows do not depend on it.
    tolerance : float
        Of the posterior "all": nats a row by which a round must raise the objective to go on.
    calibration : str
        Of the posterior "all" and of sites "moments": "learned" from rows kept aside, or "none".
    n_nodes : int
        Quadrature nodes.
    report_every : int
        Inclusions between two records of `history_`.
    random_state : int, RandomState instance or None
        Seed of whatever is random. Fits are the same again unless it is None or an instance.
    n_jobs : int, optional
        Threads of a fit that runs on no cluster. They stand in for those of BLAS, so None is not
        one but what ``OMP_NUM_THREADS`` says, and all usable processors where it says nothing; in a
        search run by joblib's processes that is their share. As elsewhere in scikit-learn, -1 is
        all usable processors and -2 all but one. Results do not depend on it.
    client : distributed.Client, optional
        Fit in the workers of this dask cluster. None is the current client of dask for data that
        are dask collections, and threads of this process for all others. It is shared by clones and
        left out of pickles.
    checkpoint_dir : path, optional
        Directory of the run, for checkpoints and the model. Fits have one each, so leave it out in
        a search or a cross-validation.
    resume : bool
        Go on with the run in `checkpoint_dir`, if there is one; it must have had the same data and
        settings.
    verbose : int
        Show progress on standard error if greater than 0.

    Attributes
    ----------
    classes_ : array (K,)
        Labels, sorted: the order of the columns of all predictions.
    active_indices_ : array (d,)
        Numbers of the active rows in the training data, in order of inclusion.
    kernel_ : str or list of str
        The kernel with all length scales filled in, or as it was learnt; length scales refer to
        scaled inputs. A list with one kernel a class if `kernel_per_class`.
    history_ : list of dict
        The learning curve of the selection: n_active, seconds, train_error; with `stub_entries` the
        last one only as long as all rows are candidates.
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : array (p,)
        Only if all columns of the training data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegp import SparseGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> SparseGPClassifier(n_active=50).fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name
        self,
        *,
        n_active: int | None = TrainSettings.n_active,
        kernel: Any = None,
        kernel_per_class: bool | None = None,
        criterion: str | None = None,
        posterior: str | None = None,
        likelihood: str = TrainSettings.likelihood,
        sites: str | None = None,
        active_per_class: bool = TrainSettings.active_per_class,
        epsilon: float = TrainSettings.epsilon,
        learn: str = TrainSettings.learn,
        major_steps: int = TrainSettings.major_steps,
        minor_steps: int = TrainSettings.minor_steps,
        strategy: str = TrainSettings.strategy,
        hyperprior: str = TrainSettings.hyperprior,
        stub_entries: int | None = TrainSettings.stub_entries,
        shrink_every: int = TrainSettings.shrink_every,
        keep_best: float = TrainSettings.keep_best,
        scaling: str = TrainSettings.scaling,
        precision: str = TrainSettings.precision,
        panel: int | None = TrainSettings.panel,
        lookahead: int = TrainSettings.lookahead,
        lazy: bool = TrainSettings.lazy,
        tolerance: float = TrainSettings.tolerance,
        calibration: str = TrainSettings.calibration,
        n_nodes: int = TrainSettings.n_nodes,
        report_every: int = TrainSettings.report_every,
        random_state: Any = TrainSettings.seed,
        n_jobs: int | None = None,
        client: Any = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_active = n_active
        self.kernel = kernel
        self.kernel_per_class = kernel_per_class
        self.criterion = criterion
        self.posterior = posterior
        self.likelihood = likelihood
        self.sites = sites
        self.active_per_class = active_per_class
        self.epsilon = epsilon
        self.learn = learn
        self.major_steps = major_steps
        self.minor_steps = minor_steps
        self.strategy = strategy
        self.hyperprior = hyperprior
        self.stub_entries = stub_entries
        self.shrink_every = shrink_every
        self.keep_best = keep_best
        self.scaling = scaling
        self.precision = precision
        self.panel = panel
        self.lookahead = lookahead
        self.lazy = lazy
        self.tolerance = tolerance
        self.calibration = calibration
        self.n_nodes = n_nodes
        self.report_every = report_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.verbose = verbose

    @property
    def _two_classes(self) -> bool:
        """Whether the likelihood, if there is such a one, is for two classes only."""
        name = str(self.likelihood).partition("(")[0].strip()
        return name in LIKELIHOODS and issubclass(LIKELIHOODS[name], Binary)
