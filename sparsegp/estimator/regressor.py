"""The regressor for scikit-learn: `sparsegp.train` and `Model` behind `fit` and `predict`."""

import os
from typing import Any

from sparsegp.estimator.noisy import Regressor
from sparsegp.settings import TrainSettings


class SparseGPRegressor(Regressor):
    """Sparse Gaussian process regressor: the informative vector machine with Gaussian noise.

    A greedy selection chooses the active rows, which span the latent function; kernel and noise are
    learnt by the evidence of all rows. With as many active rows as there are rows, that is exact
    Gaussian process regression. Labels are standardised for training; predictions have their units.

    NumPy arrays and data frames give NumPy arrays; dask arrays and dask data frames are fitted
    block by block and give lazy dask arrays. There is no `sample_weight`.

    Parameters
    ----------
    n_active : int, optional
        Rows to include; all there are where they are fewer, or where it is None and they are no
        more than 1000. Time grows with rows times its square.
    kernel : str or Kernel
        Where learning starts, for labels of variance one. A length scale left out is chosen from
        the data. "1*ard" has one for every column, for inputs of which some may not matter.
    likelihood : str
        "gaussian" with the noise variance where learning starts, for labels of variance one. From
        much less, learning may end where every row is explained by itself alone.
    criterion : str
        By which rows are selected; a name in `sparsegp.selection.criteria.CRITERIA`, but for
        "residual".
    learn : str
        "evidence", or "none": kernel and noise stay as they are.
    major_steps, minor_steps : int
        With `learn`: times that rows are selected anew, and line searches in between, at most.
        Kernels with many length scales gain from more major steps, such as 15.
    hyperprior : str
        With `learn`: prior densities of what is learnt. The default keeps the noise of labels that
        have none from vanishing, which double precision could not stand: it costs 0.0005 nats
        divided by the noise variance of standardised labels, and next to nothing where there is
        noise. "" is no prior.
    stub_entries : int, optional
        Bound on candidates times active rows at any time: candidates get fewer as the selection
        goes.
    shrink_every : int
        With `stub_entries`: inclusions between two thinnings of the candidates.
    keep_best : float
        With `stub_entries`: share of the candidates kept that are the best; the others are drawn.
    scaling : str
        Of the inputs: "auto", "standard", "range" or "none".
    precision : str
        Of inputs and stub matrices: "float64", or "float32" for half the memory, where the noise is
        no less than some thousandths of the labels' variance.
    panel : int, optional
        Rows included between two scorings; 1, which None is too, is the order of the paper.
    lookahead : int
        In the order of the paper: rows that are tried between two questions to the row blocks. The
        active rows do not depend on it.
    report_every : int
        Inclusions between two records of `history_`.
    random_state : int, RandomState instance or None
        Seed of whatever is random. Fits are the same again unless it is None or an instance.
    n_jobs, client, checkpoint_dir, resume, verbose
        Where a fit computes, what it keeps and what it shows: see `SparseGPClassifier`.

    Attributes
    ----------
    active_indices_ : array (d,)
        Numbers of the active rows in the training data, in order of inclusion.
    kernel_ : str
        The kernel as it was learnt, of standardised labels; length scales refer to scaled inputs.
    noise_variance_ : float
        In squared units of the labels.
    history_ : list of dict
        The learning curve of the last selection: n_active, seconds, train_mse.
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : array (p,)
        Only if all columns of the training data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegp import SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = SparseGPRegressor(n_active=50).fit(X[:300], y[:300])
    >>> mean, std = regressor.predict(X[300:], return_std=True)
    >>> bool(regressor.score(X[300:], y[300:]) > 0.45)
    True
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name
        self,
        *,
        n_active: int | None = 500,
        kernel: Any = "1*rbf",
        likelihood: str = "gaussian(0.3)",
        criterion: str = "information",
        learn: str = "evidence",
        major_steps: int = 5,
        minor_steps: int = TrainSettings.minor_steps,
        hyperprior: str = "1/noise: gamma(20, 0.02)",
        stub_entries: int | None = TrainSettings.stub_entries,
        shrink_every: int = TrainSettings.shrink_every,
        keep_best: float = TrainSettings.keep_best,
        scaling: str = TrainSettings.scaling,
        precision: str = "float64",
        panel: int | None = TrainSettings.panel,
        lookahead: int = TrainSettings.lookahead,
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
        self.likelihood = likelihood
        self.criterion = criterion
        self.learn = learn
        self.major_steps = major_steps
        self.minor_steps = minor_steps
        self.hyperprior = hyperprior
        self.stub_entries = stub_entries
        self.shrink_every = shrink_every
        self.keep_best = keep_best
        self.scaling = scaling
        self.precision = precision
        self.panel = panel
        self.lookahead = lookahead
        self.report_every = report_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.verbose = verbose
