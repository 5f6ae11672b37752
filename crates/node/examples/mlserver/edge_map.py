"""The edges of an image behind MLServer, which speaks the Open Inference Protocol."""

import base64

import cv2
import numpy
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput


class EdgeMap(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = {tensor.name: tensor.data.root[0] for tensor in payload.inputs}
        image = cv2.imdecode(numpy.frombuffer(base64.b64decode(given["input"]), numpy.uint8), cv2.IMREAD_GRAYSCALE)
        if image is None:
            raise ValueError("the input is not an image that can be read")
        low = int(given.get("threshold", 100))
        drawn = cv2.Canny(cv2.GaussianBlur(image, (5, 5), 0), low, 2 * low)
        _, png = cv2.imencode(".png", drawn)
        return InferenceResponse(
            model_name=self.name,
            outputs=[
                ResponseOutput(
                    name="output",
                    shape=[1],
                    datatype="BYTES",
                    data=[base64.b64encode(png.tobytes()).decode()],
                    parameters=Parameters(content_type="base64"),
                ),
                ResponseOutput(
                    name="pixels", shape=[1], datatype="INT64", data=[int(numpy.count_nonzero(drawn))]
                ),
            ],
        )
