"""Reading a cluster file: YAML that says which cluster to use, or to start for one run.

The keys are ``kind``, ``workers``, ``security``, ``seconds`` and the options of the kind, all
at the top: see `sparsegp.execution.kinds`.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from sparsegp.errors import ClusterError, SettingsError, SparseGPError
from sparsegp.execution.clusters import Connection
from sparsegp.execution.kinds import KINDS, ClusterFile, Kind
from sparsegp.execution.kinds.base import NONE, TEMPORARY
from sparsegp.execution.security import Certificate

WORDS = {
    str: "a text (in quotes)",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
FILES = ("tls_ca_file", "tls_cert", "tls_key")


def open_cluster_file(path: Path) -> Connection:
    """Start the cluster of a file, or connect to it.

    Raises
    ------
    SettingsError
        If the file is wrong, or a package is missing.
    ClusterError
        If the cluster does not start in time.
    """
    file = read_cluster_file(path)
    kind = KINDS[file.kind]
    if kind.needs is not None and find_spec(kind.needs) is None:
        raise SettingsError(
            f"{path}: kind {file.kind} needs the package {kind.needs}; install it with: "
            f"pip install 'sparsegp[{kind.extra}]'"
        )
    try:
        return kind.start(file)
    except SparseGPError:
        raise
    except Exception as error:  # whatever a library of clusters raises
        reason = str(error) or type(error).__name__
        raise ClusterError(
            f"{path}: a cluster of kind {file.kind} with {file.workers} workers did not start "
            f"({reason}); check its options, or give it longer by 'seconds'"
        ) from error


def read_cluster_file(path: Path) -> ClusterFile:
    """Read and check a file, without starting anything.

    Raises
    ------
    SettingsError
        If it cannot be read, a key is unknown or missing, or a value is of another type.
    """
    content = _load(path)
    name = _take(path, content, "kind", (str,))
    if name not in KINDS:
        raise SettingsError(f"{path}: unknown kind {name!r}; known: {', '.join(KINDS)}")
    kind, workers = KINDS[name], _take(path, content, "workers", (int,))
    seconds = _take(path, content, "seconds", (int, float), 60.0)
    if workers < 1 or not seconds > 0:
        raise SettingsError(
            f"{path}: workers must be at least 1 and seconds more than 0, "
            f"got {workers} and {seconds:g}"
        )
    security = _security(path, content.pop("security", None))
    _check_options(path, name, kind, content)
    return ClusterFile(path, name, workers, security, float(seconds), content)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the cluster file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise SettingsError(f"{path} is not valid YAML: {reason}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError(f"{path} must hold keys and values, such as 'kind: local'")
    return content


def _take(
    path: Path, content: dict[str, Any], key: str, kinds: tuple[type, ...], default: Any = None
) -> Any:
    """Remove a key and return its value, which must be there if there is no default."""
    value = content.pop(key, default)
    if value is None:
        raise SettingsError(f"{path}: {key} is missing; it is {WORDS[kinds[0]]}")
    _check(path, key, value, kinds)
    return value


def _check(path: Path, key: str, value: Any, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:  # a truth value is no number
        known = " or ".join(WORDS[kind] for kind in kinds)
        raise SettingsError(f"{path}: {key} must be {known}, got {value!r}")


def _check_options(path: Path, name: str, kind: Kind, options: dict[str, Any]) -> None:
    for key, value in options.items():
        if key not in kind.options:
            known = ", ".join(sorted(["kind", "workers", "security", "seconds", *kind.options]))
            raise SettingsError(f"{path}: unknown key {key!r} of kind {name}; known: {known}")
        _check(path, key, value, kind.options[key])
    for key in kind.required:
        if not options.get(key):
            raise SettingsError(f"{path}: {key} is missing; it is {WORDS[kind.options[key][0]]}")


def _security(path: Path, said: Any) -> Certificate | str | None:
    if said is None or (isinstance(said, str) and said in (NONE, TEMPORARY)):
        return said
    if isinstance(said, dict) and set(said) == set(FILES):
        for key in FILES:
            _check(path, f"security.{key}", said[key], (str,))
        return Certificate(*(path.parent / Path(said[key]).expanduser() for key in FILES))
    raise SettingsError(
        f"{path}: security must be {TEMPORARY}, {NONE}, or a table of {', '.join(FILES)}; "
        f"got {said!r}"
    )
