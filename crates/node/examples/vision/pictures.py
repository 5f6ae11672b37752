"""Pictures in and out: read upright and within a limit, written as PNG."""

import cv2
import numpy as np

from worker import InputError

# Larger pictures would take minutes on a CPU.
MAX_PIXELS = 24_000_000


def read(inputs, name):
    """The picture of an input as rows of blue, green and red from 0 to 255."""
    picture = cv2.imread(inputs[name], cv2.IMREAD_COLOR)
    if picture is None:
        raise InputError(f"{name} is not a picture that can be read; send a PNG, JPEG, WebP or BMP file")
    if picture.shape[0] * picture.shape[1] > MAX_PIXELS:
        raise InputError(f"{name} has more than {MAX_PIXELS} pixels; send a smaller picture")
    return picture


def rgb(picture):
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


def write(picture, folder, name):
    """Writes a PNG and returns its name in the folder of the run."""
    cv2.imwrite(str(folder / f"{name}.png"), np.clip(picture, 0, 255).astype(np.uint8))
    return f"{name}.png"


def guided(guide, source, radius, epsilon):
    """The guided filter: `source` smoothed, with the edges of `guide`; both from 0 to 1."""
    size = (2 * radius + 1, 2 * radius + 1)

    def mean(plane):
        return cv2.boxFilter(plane, -1, size, borderType=cv2.BORDER_REFLECT)

    guide_mean, source_mean = mean(guide), mean(source)
    slope = (mean(guide * source) - guide_mean * source_mean) / (mean(guide * guide) - guide_mean**2 + epsilon)
    return mean(slope) * guide + mean(source_mean - slope * guide_mean)


def luma(picture):
    return cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY).astype(np.float32) / 255
