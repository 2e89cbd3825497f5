"""A backend of matplotlib for programs without a screen: what would be shown
is saved as a file, and what was neither shown nor saved is saved at the end."""

import os

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

_count = 0


class FigureManager(FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        save_all()


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager

    def print_figure(self, *args, **options):
        written = super().print_figure(*args, **options)
        self.figure._portico_saved = True
        return written


def save_all():
    """Save and close every figure that has something on it."""
    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        if not getattr(figure, "_portico_saved", False) and (figure.axes or figure.texts or figure.lines or figure.images):
            figure.savefig(_free(), bbox_inches="tight")
        Gcf.destroy(manager)


def _free():
    global _count
    while True:
        _count += 1
        name = "/mnt/data/figure_%d.png" % _count
        if not os.path.lexists(name):
            return name
