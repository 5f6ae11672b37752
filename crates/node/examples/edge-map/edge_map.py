"""The edges of an image or of every picture of a video, by Canny's method: a model as a command.

Reads the task as JSON on standard input, writes the outputs as JSON on standard output.
"""

import json
import sys
from pathlib import Path

import cv2

LOW, HIGH = 100, 200


def edges(picture):
    blurred = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), (5, 5), 0)
    return cv2.Canny(blurred, LOW, HIGH)


def of_image(picture, folder):
    cv2.imwrite(str(folder / "edges.png"), edges(picture))
    return "edges.png"


def of_video(path, folder):
    video = cv2.VideoCapture(path)
    size = (int(video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)))
    rate = video.get(cv2.CAP_PROP_FPS) or 25
    # VP9 is the one codec of the wheel that browsers play in MP4.
    out = cv2.VideoWriter(
        str(folder / "edges.mp4"), cv2.VideoWriter_fourcc(*"vp09"), rate, size, isColor=False
    )
    pictures = 0
    while True:
        there_is_more, picture = video.read()
        if not there_is_more:
            break
        out.write(edges(picture))
        pictures += 1
    out.release()
    if pictures == 0:
        sys.exit("this is neither an image nor a video that can be read")
    return "edges.mp4"


task = json.load(sys.stdin)
path, folder = task["inputs"]["input"], Path(task["folder"])
picture = cv2.imread(path)
wants_video = "video/mp4" in task["output_format"]["output"]["mime_type"]
output = of_video(path, folder) if wants_video or picture is None else of_image(picture, folder)
json.dump({"output": output}, sys.stdout)
