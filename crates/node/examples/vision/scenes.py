"""Classical methods of OpenCV where it does more than the built-in ones: SIFT, and videos of every common format."""

import cv2
import numpy as np

import pictures
from worker import InputError

MAX_SIDE = 1600
MAX_LINES = 200
RATIO = 0.75
LOW, HIGH = 60, 150
MAX_FRAMES = 18_000


def grayscale(picture):
    scale = min(1, MAX_SIDE / max(picture.shape[:2]))
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else picture
    return cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), scale


def matches(first, second):
    """Places in both pictures that show the same: SIFT, matched both ways, that agree on one view (MAGSAC++)."""
    sift = cv2.SIFT_create(4000)
    (one, one_scale), (other, other_scale) = grayscale(first), grayscale(second)
    (points, features), (other_points, other_features) = (
        sift.detectAndCompute(one, None),
        sift.detectAndCompute(other, None),
    )
    nothing = np.empty((0, 2), np.float32)
    if features is None or other_features is None or len(points) < 2 or len(other_points) < 2:
        return nothing, nothing
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    back = {pair[0].queryIdx: pair[0].trainIdx for pair in matcher.knnMatch(other_features, features, k=1) if pair}
    good = [
        best
        for best, second_best in matcher.knnMatch(features, other_features, k=2)
        if best.distance < RATIO * second_best.distance and back.get(best.trainIdx) == best.queryIdx
    ]
    left = np.float32([points[match.queryIdx].pt for match in good]).reshape(-1, 2) / one_scale
    right = np.float32([other_points[match.trainIdx].pt for match in good]).reshape(-1, 2) / other_scale
    if len(good) < 8:
        return nothing, nothing
    _, inliers = cv2.findFundamentalMat(left, right, cv2.USAC_MAGSAC, 1.5, 0.999, 10_000)
    if inliers is None or inliers.sum() < 8:
        return nothing, nothing
    keep = inliers.ravel() == 1
    return left[keep], right[keep]


def match(inputs, folder):
    first, second = pictures.read(inputs, "input_1"), pictures.read(inputs, "input_2")
    left, right = matches(first, second)
    height = max(first.shape[0], second.shape[0])
    both = np.zeros((height, first.shape[1] + second.shape[1], 3), np.uint8)
    both[: first.shape[0], : first.shape[1]] = first
    both[: second.shape[0], first.shape[1] :] = second
    for index in np.linspace(0, len(left) - 1, min(len(left), MAX_LINES)).astype(int):
        start = tuple(int(value) for value in left[index].round())
        end = (int(right[index][0].round()) + first.shape[1], int(right[index][1].round()))
        hue = np.uint8([[[index * 47 % 180, 220, 255]]])
        color = tuple(int(value) for value in cv2.cvtColor(hue, cv2.COLOR_HSV2BGR)[0, 0])
        cv2.line(both, start, end, color, 1, cv2.LINE_AA)
        cv2.circle(both, start, 3, color, 1, cv2.LINE_AA)
        cv2.circle(both, end, 3, color, 1, cv2.LINE_AA)
    return {"output": pictures.write(both, folder, "matches")}


def edges(inputs, folder):
    video = cv2.VideoCapture(inputs["input"])
    size = (int(video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)))
    if not video.isOpened() or not all(size):
        raise InputError("input is not a video that can be read; send MP4, WebM, AVI, MOV or GIF")
    if size[0] * size[1] > pictures.MAX_PIXELS:
        raise InputError("the pictures of the video are too large")
    rate = video.get(cv2.CAP_PROP_FPS)
    rate = rate if 1 <= rate <= 240 else 25
    # VP9 is the one codec of the wheel that browsers play in MP4.
    out = cv2.VideoWriter(str(folder / "edges.mp4"), cv2.VideoWriter_fourcc(*"vp09"), rate, size, isColor=False)
    frames = 0
    while frames <= MAX_FRAMES:
        is_there, picture = video.read()
        if not is_there:
            break
        gray = cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), (5, 5), 0)
        out.write(cv2.Canny(gray, LOW, HIGH))
        frames += 1
    out.release()
    if frames == 0:
        raise InputError("the video has no pictures that can be read")
    if frames > MAX_FRAMES:
        raise InputError(f"the video has more than {MAX_FRAMES} pictures")
    return {"output": "edges.mp4"}
