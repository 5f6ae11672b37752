"""Measures built-in and trained models on pictures whose right answer is known.

    python benchmark.py INFERSTORE [SHEET.png]

INFERSTORE is the program `inferstore`. Both sides are asked by the worker protocol. Prints Markdown; the sheet shows
input, built-in and trained results side by side.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from skimage import data
from skimage.metrics import structural_similarity

FOLDER = Path(__file__).parent
PIXELS, MEMORY = "50000000", str(2 << 30)
SHORT = "Short-range model (best for faces within 2 meters)"
FULL = "Full-range model (best for faces within 5 meters)"
random = np.random.default_rng(11)


class Worker:
    """A process that runs models, the time that they take and the memory of its largest moment."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert json.loads(self.process.stdout.readline())["ready"]
        self.seconds = {}

    def run(self, kind, pictures, /, **values):
        """The outputs of a model by name: pictures as arrays, everything else as text."""
        with tempfile.TemporaryDirectory() as folder:
            inputs = dict(values)
            for name, picture in pictures.items():
                inputs[name] = f"{folder}/{name}.png"
                cv2.imwrite(inputs[name], picture)
            task = {
                "task": "t", "model": kind, "folder": folder, "inputs": inputs, "files": list(pictures),
                "output_format": {}, "seconds": 300, "measure": False,
            }
            begun = time.perf_counter()
            print(json.dumps(task), file=self.process.stdin, flush=True)
            line = json.loads(self.process.stdout.readline())
            self.seconds.setdefault(kind, []).append(time.perf_counter() - begun)
            if "error" in line:
                return None
            read = lambda value: cv2.imread(f"{folder}/{value}", cv2.IMREAD_UNCHANGED)
            files = {name: value for name, value in line["output"].items() if value.endswith(".png")}
            return line["output"] | {name: read(value) for name, value in files.items()}

    def memory(self):
        """The most memory that the process had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def time(self, model):
        return f"{np.mean(self.seconds.get(model, [0])):.2f} s"


def bgr(picture):
    if picture.ndim == 2:
        picture = np.dstack([picture] * 3)
    return cv2.cvtColor(np.ascontiguousarray(picture[..., :3]), cv2.COLOR_RGB2BGR)


def photos():
    left = data.stereo_motorcycle()[0]
    whole = [data.astronaut(), data.chelsea(), data.coffee(), data.rocket(), left]
    # An even size, so that half of it can be doubled.
    return [bgr(photo)[: photo.shape[0] // 2 * 2, : photo.shape[1] // 2 * 2] for photo in whole]


def psnr(picture, truth):
    error = np.mean((picture.astype(float) - truth.astype(float)) ** 2)
    return 10 * np.log10(255**2 / max(error, 1e-9))


def quality(pictures, truths):
    ssim = [structural_similarity(a, b, channel_axis=2) for a, b in zip(pictures, truths)]
    return f"{np.mean([psnr(a, b) for a, b in zip(pictures, truths)]):.2f} dB", f"{np.mean(ssim):.3f}"


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def table(*heads):
    print()
    row(*heads)
    row(*["---"] * len(heads))


def enlargement(built_in, trained, sheet):
    truths = photos()
    small = [cv2.resize(truth, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for truth in truths]
    bicubic = [cv2.resize(s, t.shape[1::-1], interpolation=cv2.INTER_CUBIC) for s, t in zip(small, truths)]
    table("twice the size, 5 photos", "PSNR", "SSIM", "time")
    row("bicubic", *quality(bicubic, truths), "")
    for model in ("super-resolution", "super-resolution-alt"):
        for worker in (built_in, trained):
            results = [worker.run(model, {"input_image": picture})["output_image"] for picture in small]
            row(f"{model}, {worker.name}", *quality(results, truths), worker.time(model))
            if model == "super-resolution":
                sheet.add(model, worker.name, results[1][100:250, 150:350])
        if model == "super-resolution":
            sheet.add(model, "input", small[1][50:125, 75:175])
    # The alternative keeps every given pixel: its large picture lies on the grid of one without every second pixel.
    small = [np.ascontiguousarray(truth[::2, ::2]) for truth in truths]
    grid = np.float32([[2, 0, 0], [0, 2, 0]])
    how = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REPLICATE}
    bicubic = [cv2.warpAffine(s, grid, t.shape[1::-1], **how) for s, t in zip(small, truths)]
    table("without every second pixel, 5 photos", "PSNR", "SSIM")
    row("bicubic, on the same grid", *quality(bicubic, truths))
    results = [built_in.run("super-resolution-alt", {"input_image": picture})["output_image"] for picture in small]
    row(f"super-resolution-alt, {built_in.name}", *quality(results, truths))


def night(built_in, trained, sheet):
    truths = photos()
    dark = [
        np.clip(
            (((truth / 255.0) ** 2.2 * 0.06) ** (1 / 2.2) + random.normal(0, 0.008, truth.shape)) * 255, 0, 255
        ).astype(np.uint8)
        for truth in truths
    ]
    table("6 % of the light, and noise; 5 photos", "PSNR", "SSIM", "time")
    row("as it is", *quality(dark, truths), "")
    for model, workers in (
        ("low-light-enhancement", (built_in,)),
        ("semantic-low-light-enhancement", (built_in, trained)),
    ):
        for worker in workers:
            results = [worker.run(model, {"input_image": picture})["output_image"] for picture in dark]
            row(f"{model}, {worker.name}", *quality(results, truths), worker.time(model))
            if model.startswith("semantic"):
                sheet.add(model, worker.name, results[0])
    sheet.add("semantic-low-light-enhancement", "input", dark[0])


def haze(built_in, sheet):
    left, _, disparity = data.stereo_motorcycle()
    truth = bgr(left).astype(float)
    known = np.isfinite(disparity) & (disparity > 0)
    near = np.where(known, disparity, np.median(disparity[known]))
    table("haze over a scene of known depth", "PSNR", "SSIM", "time")
    for strength in (0.6, 1.2):
        through = np.exp(-strength * np.clip(near.max() / near / 4, 0, 3))[..., None]
        hazy = (truth * through + np.array([225, 220, 215]) * (1 - through)).astype(np.uint8)
        result = built_in.run("haze-removal", {"input_image": hazy})["output_image"]
        row(f"strength {strength}: as it is", *quality([hazy], [truth.astype(np.uint8)]), "")
        row(f"strength {strength}: built-in", *quality([result], [truth.astype(np.uint8)]), built_in.time("haze-removal"))
    sheet.add("haze-removal", "input", hazy)
    sheet.add("haze-removal", built_in.name, result)


def overlap(result, truth):
    if result is None:
        return 0.0
    mask = result["output"][..., 3] > 127
    return (mask & truth).sum() / max(1, (mask | truth).sum())


def masks(built_in, trained, sheet):
    # A silhouette with the texture of one photo before others.
    silhouette = cv2.resize((~data.horse()).astype(np.uint8), (400, 328)) > 0
    grounds = [data.coffee(), data.rocket(), data.brick(), data.grass(), data.gravel()]
    scenes = []
    for index, texture in enumerate((data.chelsea(), data.astronaut(), data.coffee())):
        for ground in grounds[index % 2 :: 2]:
            behind = cv2.resize(bgr(ground), (400, 328))
            front = cv2.resize(bgr(texture), (400, 328))
            edge = cv2.GaussianBlur(silhouette.astype(np.float32), (3, 3), 0)[..., None]
            scenes.append((front * edge + behind * (1 - edge)).astype(np.uint8))
    # The outline of the astronaut, drawn by hand.
    outline = np.array([
        (150, 78), (158, 45), (185, 22), (220, 12), (255, 18), (285, 40), (300, 75), (290, 105), (275, 130),
        (285, 150), (300, 170), (330, 190), (355, 230), (365, 290), (358, 340), (400, 330), (460, 350), (500, 420),
        (505, 511), (15, 511), (25, 440), (45, 360), (50, 300), (70, 240), (105, 205), (125, 180), (130, 150),
        (150, 135), (155, 110),
    ], np.int32)
    person = bgr(data.astronaut())
    truth = np.zeros(person.shape[:2], np.uint8)
    cv2.fillPoly(truth, [outline], 1)
    table("background removal", "IoU, a person", f"IoU, {len(scenes)} composed things", "refused", "time")
    for worker in (built_in, trained):
        results = [worker.run("background-removal", {"input": scene}) for scene in scenes]
        person_result = worker.run("background-removal", {"input": person})
        found = [overlap(result, silhouette) for result in results if result is not None]
        mean = f"{np.mean(found):.2f}" if found else "none"
        refused = f"{results.count(None)} of {len(results)}" if None in results else "none"
        row(worker.name, f"{overlap(person_result, truth > 0):.2f}" if person_result else "refused", mean, refused,
            worker.time("background-removal"))
        if person_result:
            sheet.add("background-removal", worker.name, person_result["output"])
    sheet.add("background-removal", "input", person)


def boxes(result, scene):
    """How many boxes of green were drawn."""
    drawn = np.all(np.abs(result.astype(int) - np.array([77, 242, 26])) < 40, axis=2)
    drawn &= np.any(np.abs(result.astype(int) - scene.astype(int)) > 20, axis=2)
    closed = cv2.morphologyEx(drawn.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    contours, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    areas = [cv2.boundingRect(contour) for contour in contours]
    return [box for box in areas if box[2] > 24 and box[3] > 24]


def detection(built_in, trained, sheet):
    # A hundred faces and a hundred other things of 25 pixels, each in the middle of a larger picture.
    patches = data.lfw_subset()
    scenes = []
    for patch in patches:
        large = cv2.resize((patch * 255).astype(np.uint8), (120, 120), interpolation=cv2.INTER_CUBIC)
        scene = np.full((240, 240), int(np.median(large)), np.uint8)
        scene[60:180, 60:180] = large
        scenes.append(cv2.cvtColor(cv2.GaussianBlur(scene, (3, 3), 0), cv2.COLOR_GRAY2BGR))
    table("100 faces of 25 pixels, enlarged, and 100 other things", "found", "false", "time")
    for worker in (built_in, trained):
        for words, name in ((SHORT, "short range"), (FULL, "full range")):
            hits = []
            for scene in scenes:
                result = worker.run("face-detection", {"input": scene}, model=words, confidence="0.5")["output"]
                hits.append(any(abs(x + w / 2 - 120) < 45 and abs(y + h / 2 - 120) < 50 for x, y, w, h in boxes(result, scene)))
            row(f"{worker.name}, {name}", sum(hits[:100]), sum(hits[100:]), worker.time("face-detection"))
    person = bgr(data.astronaut())
    for worker in (built_in, trained):
        result = worker.run("face-detection", {"input": person}, model=FULL, confidence="0.5")
        sheet.add("face-detection", worker.name, result["output"])
    sheet.add("face-detection", "input", person)


def mesh(built_in, trained, sheet):
    person = bgr(data.astronaut())
    found = {}
    for worker in (built_in, trained):
        result = worker.run("face-mesh", {"input": person})
        lines = [line.split(": ")[1].split(" ") for line in result["multi_face_landmarks"].splitlines() if ": " in line]
        found[worker.name] = np.array(lines, float)[:, :2] * 512
        sheet.add("face-mesh", worker.name, result["output"][0:220, 120:340])
    sheet.add("face-mesh", "input", person[0:220, 120:340])
    # Corners of the eyes, tip of the nose, corners of the mouth, chin: in the 68 and in the 478 points.
    pairs = [(36, 33), (39, 133), (42, 362), (45, 263), (30, 1), (48, 61), (54, 291), (8, 152)]
    ours, theirs = found["built-in"], found["trained"]
    unit = np.linalg.norm(theirs[468] - theirs[473])
    error = np.mean([np.linalg.norm(ours[a] - theirs[b]) for a, b in pairs]) / unit
    table("face mesh of the astronaut", "points", "from the trained one, in distances of the pupils", "time")
    row("built-in", len(ours), f"{error:.2f}", built_in.time("face-mesh"))
    row("trained", len(theirs), "", trained.time("face-mesh"))


def matching(trained):
    import scenes

    table("two views by a known homography, trained node (SIFT)", "matches", "within 2 pixels")
    for name, photo in zip(("astronaut", "cat", "coffee", "rocket", "motorcycle"), photos()):
        height, width = photo.shape[:2]
        view = np.array([[0.85, -0.22, 60], [0.18, 0.9, -10], [1e-4, 2e-4, 1]])
        other = (cv2.warpPerspective(photo, view, (width, height)) * 0.8).astype(np.uint8)
        left, right = scenes.matches(photo, other)
        moved = cv2.perspectiveTransform(left[:, None], view)[:, 0] if len(left) else left
        near = np.linalg.norm(moved - right, axis=1) < 2
        row(name, len(left), f"{100 * near.mean():.0f} %" if len(left) else "")


class Sheet:
    """Results side by side, a row for each model."""

    SIZE = (232, 174)

    def __init__(self):
        self.cells = {}

    def add(self, model, column, picture):
        if picture.ndim == 3 and picture.shape[2] == 4:
            share = picture[..., 3:] / 255
            picture = (picture[..., :3] * share + np.array([200, 120, 220]) * (1 - share)).astype(np.uint8)
        width, height = self.SIZE
        scale = min(width / picture.shape[1], height / picture.shape[0])
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST
        small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=how)[:height, :width]
        cell = np.full((height, width, 3), 255, np.uint8)
        top, left = (height - small.shape[0]) // 2, (width - small.shape[1]) // 2
        cell[top : top + small.shape[0], left : left + small.shape[1]] = small
        self.cells.setdefault(model, {})[column] = cell

    def write(self, file):
        rows = []
        for model, cells in self.cells.items():
            empty = np.full((self.SIZE[1], self.SIZE[0], 3), 255, np.uint8)
            line = np.hstack([cells.get(column, empty) for column in ("input", "built-in", "trained")])
            head = np.full((22, line.shape[1], 3), 255, np.uint8)
            for index, text in enumerate((model[:30], "built-in", "trained" if "trained" in cells else "")):
                place = (index * self.SIZE[0] + 4, 16)
                cv2.putText(head, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, (0, 0, 0), 1, cv2.LINE_AA)
            rows += [head, line]
        whole = Image.fromarray(cv2.cvtColor(np.vstack(rows), cv2.COLOR_BGR2RGB))
        whole.quantize(160, dither=Image.Dither.NONE).save(file, optimize=True)


def main():
    program, *files = sys.argv[1:]
    built_in = Worker("built-in", [program, "model-worker", PIXELS, MEMORY])
    trained = Worker("trained", [sys.executable, "vision.py"])
    sheet = Sheet()
    detection(built_in, trained, sheet)
    mesh(built_in, trained, sheet)
    masks(built_in, trained, sheet)
    enlargement(built_in, trained, sheet)
    night(built_in, trained, sheet)
    haze(built_in, sheet)
    matching(trained)
    table("process", "memory at its peak")
    for worker in (built_in, trained):
        row(worker.name, f"{worker.memory():.0f} MB")
        worker.process.stdin.close()
    if files:
        sheet.write(files[0])


if __name__ == "__main__":
    main()
