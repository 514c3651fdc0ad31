"""Configuration of Sphinx: `python -m sphinx -W -b html docs build/docs`."""

import sys
from pathlib import Path

import sparsegp

sys.path.insert(0, str(Path(__file__).parent))

project = "sparsegp"
author = "The sparsegp developers"
version = release = sparsegp.__version__

extensions = [
    "measured",
    "myst_nb",
    "settings_list",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # of the notebook and the gallery, in a folder that is thrown away
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
suppress_warnings = ["config.cache"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections say the shapes too
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"sparsegp {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_copyright = False
html_show_sourcelink = False
