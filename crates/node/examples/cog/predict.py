"""The edges of an image behind cog."""

import tempfile

from cog import BasePredictor, Input, Path


class Predictor(BasePredictor):
    def predict(
        self, input: Path = Input(description="An image"), threshold: int = Input(default=100)
    ) -> Path:
        import cv2

        image = cv2.imread(str(input), cv2.IMREAD_GRAYSCALE)
        if image is None:
            raise ValueError("the input is not an image that can be read")
        out = Path(tempfile.mkdtemp()) / "edges.png"
        cv2.imwrite(str(out), cv2.Canny(cv2.GaussianBlur(image, (5, 5), 0), threshold, 2 * threshold))
        return out
