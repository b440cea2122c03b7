"""Export two models, put a page that runs them together in build/web/site, and serve it.

    python -m examples.web              # or make web
    python -m examples.web --check      # opens the page in headless Chromium, compares with eager

The folder has plain files only: any web server can take it.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
from pathlib import Path

from . import RUNTIME, InstallError, install_packages
from .check import check_page
from .export import export_models

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "web"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and has the browser ask whether they changed."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing: only errors are printed."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.web", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--check", action="store_true", help="compare the page with eager")
    parser.add_argument("--screenshot", type=Path, help="with --check: a picture of the page")
    options = parser.parse_args()
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        print(f"{'skipped: ' * options.check}{' and '.join(missing)} not installed")
        return 0 if options.check else 1
    runtime = install_packages(BUILD / "runtime", RUNTIME) / "onnxruntime-web" / "dist"
    models = export_models(BUILD / "site" / "models")
    files = [HERE / name for name in ("index.html", "page.mjs", "models.mjs")]
    files += [runtime / "ort.wasm.bundle.min.mjs", runtime / "ort-wasm-simd-threaded.wasm"]
    for file in files:
        shutil.copy(file, BUILD / "site")
    address = ("127.0.0.1", 0 if options.check else options.port)
    handler = functools.partial(Handler, directory=BUILD / "site")
    with http.server.ThreadingHTTPServer(address, handler) as server:
        if options.check:
            return check_page(server, BUILD, models, options.screenshot)
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InstallError as error:
        is_check = "--check" in sys.argv
        print(f"{'skipped: ' * is_check}{error}")
        sys.exit(0 if is_check else 1)
    except KeyboardInterrupt:
        sys.exit(0)
