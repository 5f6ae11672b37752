"""The methods of OpenCV that are nearest to the built-in models, on one core.

    python pictures.py                  prints a line for each method: kind, name, what both do, and why ours is behind
    python pictures.py NUMBER PHOTO     runs the method of a line

A run reads the photo as every picture that the kind takes, and writes the output to memory in the format and quality
of the built-in model. It prints seconds of processor time, without the start of Python, and the peak memory in MiB.
`crates/models/benches/speed.rs` runs this."""

import math
import pathlib
import sys
import time

import cv2
import numpy as np

cv2.setNumThreads(1)
CASCADE = cv2.data.haarcascades
# Quality and colors of the built-in models: none of the colors are halved.
JPEG = [
    cv2.IMWRITE_JPEG_QUALITY, 93, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444
]
# The pixels at which most of the built-in models estimate.
REDUCED = 1_000_000
# The longer side at which they cut out.
CUTOUT = 320


def read(file, how=cv2.IMREAD_COLOR):
    return cv2.imdecode(np.frombuffer(file, np.uint8), how)


def jpeg(picture):
    return cv2.imencode(".jpg", picture, JPEG)[1]


def png(picture):
    return cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1]


def scaled(picture, scale):
    return cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else picture


def reduced(picture):
    return scaled(picture, math.sqrt(REDUCED / (picture.shape[0] * picture.shape[1])))


def enlarged(plane, picture):
    return cv2.resize(plane, picture.shape[1::-1], interpolation=cv2.INTER_LINEAR)


def gray(picture):
    return cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)


def guided(guide, source, radius, epsilon):
    """The guided filter as slope and offset, by box filters: OpenCV without its extra modules has no other."""
    mean = lambda plane: cv2.blur(plane, (2 * radius + 1,) * 2)
    guide_mean, source_mean = mean(guide), mean(source)
    slope = (mean(guide * source) - guide_mean * source_mean) / (mean(guide * guide) - guide_mean**2 + epsilon)
    return mean(slope), mean(source_mean - slope * guide_mean)


def blending(file):
    background, picture, mask = read(file), read(file), read(file, cv2.IMREAD_GRAYSCALE)
    mask = np.where(mask >= 128, np.uint8(255), np.uint8(0))
    left, top, width, height = cv2.boundingRect(mask)
    center = (left + width // 2, top + height // 2)
    return jpeg(cv2.seamlessClone(picture, background, mask, center, cv2.MIXED_CLONE))


def harmonization(file):
    """Every hue is drawn into the sectors of the template, by a table over the hues of its surroundings."""
    picture = read(file)
    small = cv2.blur(cv2.cvtColor(reduced(picture).astype(np.float32) / 255, cv2.COLOR_BGR2Lab), (9, 9))
    colors = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_BGR2Lab)
    length, hue = cv2.cartToPolar(colors[..., 1], colors[..., 2], angleInDegrees=True)
    nearby = enlarged(small, picture)
    region = cv2.phase(nearby[..., 1], nearby[..., 2], angleInDegrees=True)
    # Sectors of 93.6 degrees at 0 and of 18 degrees at 180, turned to 30 degrees.
    first = np.abs(np.arange(361) - 30) < 130
    center = cv2.LUT(np.minimum(region, 255).astype(np.uint8), np.where(first, 30, 210).astype(np.float32)[:256])
    half = np.where(center == 30, np.float32(46.8), np.float32(9))
    offset = np.mod(hue - center + 180, 360) - 180
    drawn = center + np.copysign(half * (1 - cv2.exp(-((offset / half) ** 2) / 2)), offset)
    colors[..., 1], colors[..., 2] = cv2.polarToCart(length, drawn, angleInDegrees=True)
    return jpeg((cv2.cvtColor(colors, cv2.COLOR_Lab2BGR) * 255).round().astype(np.uint8))


def faces(picture, share):
    """Windows of the faces from this share of the shorter side, in the small picture, and its scale."""
    scale = min(1.0, 2.5 * 20 / share / min(picture.shape[:2]))
    small = gray(scaled(picture, scale))
    least = (int(min(small.shape) * share),) * 2
    cascade = cv2.CascadeClassifier(CASCADE + "haarcascade_frontalface_alt.xml")
    return cascade.detectMultiScale(small, 1.1, 3, minSize=least), small, scale


def detection(file):
    picture = read(file)
    windows, _, scale = faces(picture, 1 / 30)
    for window in windows:
        left, top, width, height = (int(value / scale) for value in window)
        cv2.rectangle(picture, (left, top), (left + width, top + height), (60, 240, 30), 10)
    return jpeg(picture)


def mesh(file):
    """Eyes in each face, as near as OpenCV gets without its extra modules and a download."""
    picture = read(file)
    windows, small, scale = faces(picture, 1 / 12)
    eyes = cv2.CascadeClassifier(CASCADE + "haarcascade_eye.xml")
    for left, top, width, height in windows:
        face = small[top : top + height, left : left + width]
        for x, y, w, h in eyes.detectMultiScale(face, 1.1, 3):
            center = (int((left + x + w / 2) / scale), int((top + y + h / 2) / scale))
            cv2.circle(picture, center, int(w / 2 / scale), (240, 230, 90), 8)
    return jpeg(picture)


def matching(file):
    first, second = read(file), read(file)
    orb = cv2.ORB_create(1500, scaleFactor=1.25, nlevels=7)
    (points, ours), (others, theirs) = (orb.detectAndCompute(gray(reduced(each)), None) for each in (first, second))
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING).knnMatch(ours, theirs, k=2)
    back = {match.queryIdx: match.trainIdx for match in cv2.BFMatcher(cv2.NORM_HAMMING).match(theirs, ours)}
    good = [
        best
        for best, next_best in pairs
        if best.distance < 0.85 * next_best.distance and back[best.trainIdx] == best.queryIdx
    ]
    left = np.float32([points[match.queryIdx].pt for match in good])
    right = np.float32([others[match.trainIdx].pt for match in good])
    _, kept = cv2.estimateAffine2D(left, right)
    both = cv2.hconcat([first, second])
    scale = first.shape[1] / reduced(first).shape[1]
    agreeing = kept.ravel() == 1
    for start, end in list(zip(left[agreeing] * scale, right[agreeing] * scale))[:80]:
        end = (int(end[0]) + first.shape[1], int(end[1]))
        cv2.line(both, (int(start[0]), int(start[1])), end, (60, 240, 30), 8)
    return jpeg(both)


def cutout(picture):
    """The subject by GrabCut from the border, with its edges refined by a guided filter, from 0 to 255."""
    small = scaled(picture, CUTOUT / max(picture.shape[:2]))
    height, width = small.shape[:2]
    border = round(0.06 * min(height, width))
    mask = np.zeros((height, width), np.uint8)
    inner = (border, border, width - 2 * border, height - 2 * border)
    cv2.grabCut(small, mask, inner, np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_RECT)
    rough = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.float32)
    middle = reduced(picture)
    guide = gray(middle).astype(np.float32) / 255
    slope, offset = guided(guide, enlarged(rough, middle), 8, 1e-4)
    luma = gray(picture).astype(np.float32) / 255
    alpha = enlarged(slope, picture) * luma + enlarged(offset, picture)
    return cv2.convertScaleAbs(np.clip(alpha, 0, 1), alpha=255)


def removal(file):
    picture = read(file)
    return png(cv2.merge([*cv2.split(picture), cutout(picture)]))


def replacement(file):
    picture, background = read(file), read(file)
    share = cv2.cvtColor(cutout(picture), cv2.COLOR_GRAY2BGR)
    shown = cv2.multiply(picture, share, scale=1 / 255)
    return jpeg(cv2.add(shown, cv2.multiply(background, 255 - share, scale=1 / 255)))


def brightened(picture):
    """The light by a guided filter, raised by a gamma, after smoothing that stops at edges."""
    quiet = cv2.bilateralFilter(picture, 5, 12, 3)
    light = reduced(quiet).max(axis=2).astype(np.float32) / 255
    slope, offset = guided(light, light, 28, 0.005)
    brightest = cv2.max(cv2.max(quiet[..., 0], quiet[..., 1]), quiet[..., 2]).astype(np.float32) / 255
    light = np.clip(enlarged(slope, picture) * brightest + enlarged(offset, picture), 0.02, 1)
    gain = cv2.pow(light, 0.7 - 1)
    return cv2.multiply(quiet, cv2.merge([gain] * 3), dtype=cv2.CV_8U)


def low_light(file):
    return jpeg(brightened(read(file)))


def semantic_low_light(file):
    picture = read(file)
    faces(picture, 1 / 16)
    return jpeg(brightened(picture))


def haze(file):
    """The dark channel prior, by minima of OpenCV."""
    picture = read(file)
    small = reduced(picture).astype(np.float32) / 255
    patch = np.ones((29, 29), np.uint8)
    dark = cv2.erode(small.min(axis=2), patch)
    air = np.maximum(small[dark >= np.quantile(dark, 0.999)].mean(axis=0), 0.05).astype(np.float32)
    rough = 1 - 0.92 * np.minimum(cv2.erode((small / air).min(axis=2), patch), 1)
    slope, offset = guided(gray(small), rough, 56, 1e-3)
    luma = gray(picture).astype(np.float32) / 255
    through = np.clip(enlarged(slope, picture) * luma + enlarged(offset, picture), 0.1, 1)
    colors = picture.astype(np.float32) / 255
    return jpeg(cv2.convertScaleAbs(np.clip((colors - air) / through[..., None] + air, 0, 1), alpha=255))


def lanczos(file):
    return jpeg(cv2.resize(read(file), None, fx=2, fy=2, interpolation=cv2.INTER_LANCZOS4))


def back_projection(file):
    """Lanczos' filter and eight rounds of back-projection, kept within the values nearby, strip by strip."""
    small, halo, rows = read(file), 12, 150
    large = np.empty((2 * small.shape[0], 2 * small.shape[1], 3), np.uint8)
    for top in range(0, small.shape[0], rows):
        first, last = max(top - halo, 0), min(top + rows + halo, small.shape[0])
        wanted = small[first:last].astype(np.float32)
        least, most = (
            cv2.resize(extreme(wanted, np.ones((3, 3))), None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST) + add
            for extreme, add in ((cv2.erode, -5), (cv2.dilate, 5))
        )
        strip = cv2.resize(wanted, None, fx=2, fy=2, interpolation=cv2.INTER_LANCZOS4)
        for _ in range(8):
            error = wanted - cv2.resize(strip, wanted.shape[1::-1], interpolation=cv2.INTER_AREA)
            strip += cv2.resize(error, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
            strip = cv2.min(cv2.max(strip, least), most)
        bottom = min(top + rows, small.shape[0])
        kept = strip[2 * (top - first) : 2 * (bottom - first)]
        large[2 * top : 2 * bottom] = cv2.convertScaleAbs(cv2.max(kept, 0))
    return jpeg(large)


def cubic(file):
    return jpeg(cv2.resize(read(file), None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC))


def edges(file):
    smooth = cv2.GaussianBlur(read(file, cv2.IMREAD_GRAYSCALE), (5, 5), 0)
    return cv2.imencode(".gif", cv2.cvtColor(cv2.Canny(smooth, 36, 82), cv2.COLOR_GRAY2BGR))[1]


def anime(file):
    """The usual cartoon: smoothing that stops at edges on a reduced picture, and lines by a threshold nearby."""
    picture = read(file)
    flat = cv2.pyrDown(cv2.pyrDown(picture))
    for _ in range(3):
        flat = cv2.bilateralFilter(flat, 9, 15, 7)
    flat = cv2.resize(cv2.pyrUp(cv2.pyrUp(flat)), picture.shape[1::-1])
    smooth = cv2.medianBlur(gray(picture), 7)
    ink = cv2.adaptiveThreshold(smooth, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 9, 2)
    return jpeg(cv2.bitwise_and(flat, cv2.cvtColor(ink, cv2.COLOR_GRAY2BGR)))


def extraction(file):
    small = cv2.resize(read(file), (200, 150), interpolation=cv2.INTER_AREA)
    colors = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_BGR2Lab).reshape(-1, 3)
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_MAX_ITER, 20, 0.1)
    _, labels, centers = cv2.kmeans(colors, 12, None, stop, 1, cv2.KMEANS_PP_CENTERS)
    return centers[np.argsort(-np.bincount(labels.ravel()))]


# Why OpenCV is quicker, where it is.
PLAIN = "OpenCV weighs fixed neighbors of each new pixel"
ANIME = "OpenCV smooths a picture of a sixteenth of the pixels in bytes, and enlarges that"
CASCADES = "OpenCV skips the window beside one that fails the first stage, where ours tests each"
BYTES = "OpenCV works on bytes, with AVX-512 where the processor has it, and ours mostly on floating point, with AVX2"
# What both sides do where they cut out.
CUTOUT_NOTE = (
    "both cut out at {} pixels of the longer side and refine the edges at full size by a guided filter; ours also looks "
    "for people by a network".format(CUTOUT)
)
# Kind, name, what both sides do, why ours is behind if it is, and method.
METHODS = [
    (
        "image-blending", "OpenCV, seamlessClone",
        "both solve for the stronger gradients of object and background; ours by multigrid, theirs by sine transforms",
        "", blending,
    ),
    (
        "color-harmonization", "OpenCV, hues of Lab by the same template",
        "both draw each hue into the sector of its surroundings; ours also fits the template and draws the wheel of hues",
        BYTES, harmonization,
    ),
    (
        "face-detection", "OpenCV, CascadeClassifier",
        "both test the same cascade at the same sizes of faces, by sums of rectangles in integers, and draw boxes",
        CASCADES, detection,
    ),
    (
        "feature-matching", "OpenCV, ORB and estimateAffine2D",
        "both match some 1,500 corners on seven scales both ways, fit one affine change of view, and draw it",
        BYTES, matching,
    ),
    ("background-replacement", "OpenCV, grabCut", CUTOUT_NOTE, BYTES, replacement),
    (
        "face-mesh", "OpenCV, cascades of faces and of eyes",
        "ours finds faces and fits 68 points to each; theirs finds faces and their eyes alone, by a second cascade",
        CASCADES, mesh,
    ),
    (
        "semantic-low-light-enhancement", "OpenCV, the same and CascadeClassifier",
        "as `low-light-enhancement`, with faces found; ours also treats sky and lamps", BYTES, semantic_low_light,
    ),
    (
        "low-light-enhancement", "OpenCV, gamma of a guided filter, bilateralFilter",
        "both raise the light by a gamma over a guided filter and smooth the noise; ours fits the gamma to the picture",
        BYTES, low_light,
    ),
    (
        "super-resolution", "OpenCV, Lanczos and back-projection",
        "the same method; ours in two rounds of 1.75 times the error, theirs in eight rounds of the error, as good as that",
        "", back_projection,
    ),
    (
        "super-resolution", "OpenCV, resize by Lanczos",
        "ours also corrects the picture by back-projection: 0.4 dB more on the photos of `docs/models.md`",
        PLAIN, lanczos,
    ),
    (
        "super-resolution-alt", "OpenCV, resize by cubics",
        "ours also looks for the edge through each new pixel: 0.3 dB more on photos without every second pixel",
        PLAIN, cubic,
    ),
    (
        "haze-removal", "OpenCV, dark channel by erode",
        "both find haze by the dark channel at a megapixel and refine it at full size by a guided filter; ours spares the "
        "sky", "", haze,
    ),
    (
        "video-edge-map", "OpenCV, Canny", "both smooth, find edges with two thresholds, and write a GIF", BYTES, edges,
    ),
    ("background-removal", "OpenCV, grabCut", CUTOUT_NOTE, BYTES, removal),
    (
        "image-to-anime", "OpenCV, bilateralFilter and adaptiveThreshold",
        "both flatten the colors in three rounds and draw dark lines; ours keeps edges of full size, and steps lightness",
        ANIME, anime,
    ),
    (
        "color-extraction", "OpenCV, kmeans",
        "both cluster a reduced picture; ours in Oklab and merged where colors look alike, theirs in Lab", "", extraction,
    ),
]


def main():
    if len(sys.argv) == 1:
        for *texts, _ in METHODS:
            print(*texts, sep="\t")
        return
    number, photo = sys.argv[1:]
    kind, name, _, _, method = METHODS[int(number)]
    began = time.process_time()
    method(pathlib.Path(photo).read_bytes())
    seconds = time.process_time() - began
    status = pathlib.Path("/proc/self/status").read_text()
    memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(f"{kind:32} {seconds:.3f} s {memory:.0f} MiB, {name}")


if __name__ == "__main__":
    main()
