"""The directive `settings`: the settings that a dataclass declares, as a list."""

import re
from pkgutil import resolve_name
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sparsegp.cli.options import of_setting
from sparsegp.fields import KINDS, Setting, declared


def described(text: str) -> list[nodes.Node]:
    """Return a text whose parts in backquotes are literal."""
    parts = re.split(r"`([^`]+)`", text)
    return [nodes.literal("", p) if i % 2 else nodes.Text(p) for i, p in enumerate(parts)]


def option_of(setting: Setting) -> str:
    """Return the option of the command line, as it is typed."""
    found = of_setting(setting)(lambda: None).__click_params__[0]  # as click's decorators leave it
    return " ".join([*found.opts, *([] if found.is_flag else [found.metavar])])


def facts(setting: Setting) -> str:
    """Return kind, range or names, and default in one line."""
    bounds = {
        "at least": setting.least,
        "above": setting.above,
        "at most": setting.most,
        "below": setting.below,
    }
    found = [KINDS[setting.kind] + (f" or `{setting.word}`" if setting.word else "")]
    found += [f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None]
    if setting.choices:
        found = ["one of " + ", ".join(f"`{name}`" for name in setting.names)]
    default = setting.unset or (f"`{setting.default}`" if setting.default != "" else "none")
    return f"{', '.join(found).capitalize()}. Default: {default}."


class Settings(SphinxDirective):
    """List the settings of a class, but not those of the classes in the option `without`."""

    required_arguments = 1
    option_spec: ClassVar = {"without": str}

    def run(self) -> list[nodes.Node]:
        """Return a definition list, an entry for each setting."""
        known = declared(resolve_name(self.arguments[0]))
        if "without" in self.options:
            left_out = declared(resolve_name(self.options["without"]))
            known = {name: each for name, each in known.items() if name not in left_out}
        entries = []
        for name, each in known.items():
            term = nodes.term("", "", nodes.literal("", name), nodes.Text(", "))
            term += nodes.literal("", option_of(each))
            term["ids"].append(f"setting-{name.replace('_', '-')}")
            body = nodes.definition("", nodes.paragraph("", "", *described(each.description)))
            body += nodes.paragraph("", "", *described(facts(each)))
            entries.append(nodes.definition_list_item("", term, body))
        return [nodes.definition_list("", *entries)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True}
