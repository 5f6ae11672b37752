"""What a picture shows, by MediaPipe's selfie segmentation (people; weights: Apache-2.0, in the package).

A picture without people is cut out by GrabCut from its border, which knows colors and not things.
"""

import cv2
import mediapipe as mp
import numpy as np

import faces
import pictures
from worker import InputError

# Less of a picture than this is no person but noise.
LEAST_PERSON = 0.01
LEAST_SUBJECT, MOST_SUBJECT = 0.01, 0.95
GRABCUT_SIDE = 480


def person(picture):
    """How much each pixel belongs to a person, from 0 to 1, at the size of the network."""
    height, width = picture.shape[:2]
    with mp.solutions.selfie_segmentation.SelfieSegmentation(model_selection=0) as model:
        return model.process(pictures.rgb(picture)).segmentation_mask.astype(np.float32)


def subject(picture):
    """How much each pixel belongs to the subject, from 0 to 1."""
    mask = person(picture)
    if (mask > 0.5).mean() < LEAST_PERSON:
        mask = by_border(picture)
    # The network sees 256 pixels; the edges are those of the picture.
    radius = max(2, max(picture.shape[:2]) // 256)
    fine = pictures.guided(pictures.luma(picture), mask, radius, 1e-4)
    return np.clip((fine - 0.5) * 1.6 + 0.5, 0, 1)


def by_border(picture):
    height, width = picture.shape[:2]
    scale = min(1, GRABCUT_SIDE / max(height, width))
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    rows, columns = small.shape[:2]
    if min(rows, columns) < 16:
        raise InputError("the picture is too small to tell a subject from its background")
    border = max(2, min(rows, columns) // 16)
    mask = np.full((rows, columns), cv2.GC_BGD, np.uint8)
    mask[border:, border:-border] = cv2.GC_PR_FGD
    cv2.grabCut(small, mask, None, np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_MASK)
    found = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD))
    if not LEAST_SUBJECT < found.mean() < MOST_SUBJECT:
        raise InputError("no person and nothing else stands out from the border of the picture")
    return cv2.resize(found.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)


def without_background(picture, mask):
    """The colors of the subject, without what shines through from behind at its edges."""
    sure = (mask > 0.95).astype(np.float32)
    radius = max(3, max(picture.shape[:2]) // 120)
    size = (2 * radius + 1, 2 * radius + 1)
    near = cv2.boxFilter(sure, -1, size)[..., None]
    inner = cv2.boxFilter(picture.astype(np.float32) * sure[..., None], -1, size) / np.maximum(near, 1e-3)
    share = np.where((near > 1e-3) & (mask < 0.95)[..., None], 1 - mask[..., None], 0)
    return picture * (1 - share) + inner * share


def remove_background(inputs, folder):
    picture = pictures.read(inputs, "input")
    mask = subject(picture)
    cut = np.dstack([without_background(picture, mask), mask * 255])
    return {"output": pictures.write(cut, folder, "subject")}


def replace_background(inputs, folder):
    background, picture = pictures.read(inputs, "input"), pictures.read(inputs, "background_path")
    mask = subject(picture)
    height, width = picture.shape[:2]
    scale = max(height / background.shape[0], width / background.shape[1])
    size = (max(width, round(background.shape[1] * scale)), max(height, round(background.shape[0] * scale)))
    scaled = cv2.resize(background, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    top, left = (scaled.shape[0] - height) // 2, (scaled.shape[1] - width) // 2
    behind = scaled[top : top + height, left : left + width]
    share = mask[..., None]
    both = without_background(picture, mask) * share + behind * (1 - share)
    return {"output": pictures.write(both, folder, "picture")}


def enhance(inputs, folder):
    """Brightens a dark picture: people by what skin wants, everything else by how dark the picture is."""
    picture = pictures.read(inputs, "input_image")
    colors = picture.astype(np.float32) / 255
    brightest = colors.max(axis=2)
    mean = float(np.clip(brightest.mean(), 0.02, 0.99))
    light = pictures.guided(brightest, brightest, max(2, min(picture.shape[:2]) // 30), (0.15 * mean) ** 2)
    light = np.clip(light, 0.02, 1)
    gain = light ** (np.clip(np.log(0.55) / np.log(mean), 0.3, 1) - 1)
    # The networks were trained on pictures that one can see.
    preview = np.clip(colors * gain[..., None] * 255, 0, 255).astype(np.uint8)
    quiet = cv2.fastNlMeansDenoisingColored(preview, None, 5, 10, 5, 15)
    mask = pictures.guided(pictures.luma(quiet), person(quiet), max(2, max(picture.shape[:2]) // 128), 1e-3)
    mask = np.clip(mask, 0, 1)
    bright = pictures.luma(quiet)
    skins = []
    for left, top, right, bottom, _ in faces.boxes(quiet, 1, 0.5):
        inner = bright[max(0, round(top)) : max(0, round(bottom)), max(0, round(left)) : max(0, round(right))]
        if inner.size:
            skins.append(float(inner.mean()))
    wanted = 0.56 / max(0.05, np.mean(skins)) if skins else 1.1
    factor = float(np.clip(wanted, 0.8, 1.6)) ** mask
    # Noise is smoothed by as much as it was raised; people keep their detail.
    noisy = (np.clip((gain - 1.5) / 3, 0, 1) * (1 - 0.6 * mask))[..., None]
    result = (preview * (1 - noisy) + quiet * noisy) * factor[..., None]
    over = np.maximum(result.max(axis=2, keepdims=True) / 255, 1)
    return {"output_image": pictures.write(result / over, folder, "picture")}
