"""Sphinx extension: only a page that holds a picture to play with loads the script for it.

Jupyter Book adds every script below _static to every page. Here widgets/base.js stays on the pages with a data-widget, which then loads
what it needs from its own folder, and the other files of widgets/ stay on none.
"""


def only_where_used(app, pagename, templatename, context, doctree):
    """Listener of html-page-context."""
    kept = ["base.js"] if 'data-widget="' in (context.get("body") or "") else []
    context["script_files"] = [file for file in context.get("script_files", ())
                               if "/widgets/" not in str(file.filename) or str(file.filename).rpartition("/")[2] in kept]


def setup(app):
    app.connect("html-page-context", only_where_used)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
