"""Imports and look-ups at the end of the build, because nothing can be read during a call."""

from __future__ import annotations

import codecs
import linecache
import sys


def warm_up() -> None:
    """Imports the modules that the standard library would import at first use, and reads the sources for tracebacks."""
    import _strptime  # type: ignore[import-not-found]  # noqa: F401  `strptime` imports it
    import traceback

    if "logging" in sys.modules:
        from .. import _logging  # noqa: F401  it looks at a record, which has a time

    for codec in ("ascii", "latin-1", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "unicode_escape", "hex", "base64"):
        codecs.lookup(codec)
    for broken in ("undefined_name", "''.undefined_attribute", "int('x')", "{}['x']"):
        try:
            eval(broken, {"defined_name": 1})
        except Exception as error:
            traceback.format_exception(ExceptionGroup("group", [error]))
    # To draw the marks below a line of a traceback, the library parses the line. If that fails, it looks for a file.
    if hasattr(traceback, "_extract_caret_anchors_from_line_segment"):
        traceback._extract_caret_anchors_from_line_segment = lambda segment: None
        traceback.StackSummary._should_show_carets = lambda self, *args: False  # type: ignore[attr-defined]
    linecache.clearcache()
    for module in list(sys.modules.values()):
        file, loader = getattr(module, "__file__", None), getattr(module, "__loader__", None)
        if loader is not None and file and file.startswith(("/0/", "/1/")) and hasattr(loader, "get_source"):
            source = loader.get_source(module.__name__) or ""
            # Without a modification time, the cache never checks the file again.
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
