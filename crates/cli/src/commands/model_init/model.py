"""A model of your own: a function from inputs to outputs. Files are paths, numbers may be strings."""

from PIL import Image, ImageFilter, UnidentifiedImageError

from worker import InputError, serve


MAX_PIXELS = 50_000_000  # as in model.json


def run(inputs, folder):
    try:
        picture = Image.open(inputs["picture"])
        if picture.width * picture.height > MAX_PIXELS:
            raise InputError("picture has more than 50 megapixels; send a smaller one")
        picture = picture.convert("RGB")
    except (UnidentifiedImageError, OSError):
        raise InputError("picture is not an image that can be read") from None
    radius = float(inputs["radius"])
    # Replace this line by your model.
    result = picture.filter(ImageFilter.GaussianBlur(radius))
    result.save(folder / "result.png")
    width, height = result.size
    return {"result": "result.png", "note": f"{width} x {height} pixels, radius {radius:g}"}


# Load weights here, before the first task.
serve({"MODEL": run})
