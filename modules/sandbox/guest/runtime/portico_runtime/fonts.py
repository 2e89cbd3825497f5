"""Matplotlib's list of fonts, which takes seconds to make."""

import os
import shutil


def list_fonts():
    """Put it into a folder that matplotlib can write to."""
    if not os.path.isdir("/tmp/.matplotlib"):
        shutil.copytree("/opt/portico/matplotlib", "/tmp/.matplotlib", copy_function=shutil.copyfile)
