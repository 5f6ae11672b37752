"""Faces by MediaPipe: BlazeFace boxes, and the mesh of 478 landmarks. Weights: Apache-2.0, in the package."""

import cv2
import mediapipe as mp

import pictures
from worker import InputError

detection = mp.solutions.face_detection
mesh = mp.solutions.face_mesh
RANGES = {
    "Short-range model (best for faces within 2 meters)": 0,
    "Full-range model (best for faces within 5 meters)": 1,
}
MAX_FACES = 16
GREEN, BLACK = (77, 242, 26), (0, 0, 0)
MESH, CONTOUR = (190, 190, 60), (80, 240, 90)


def boxes(picture, model, confidence):
    """The faces of a picture, as left, top, right, bottom and confidence, in pixels."""
    height, width = picture.shape[:2]
    with detection.FaceDetection(model_selection=model, min_detection_confidence=confidence) as detector:
        found = detector.process(pictures.rgb(picture)).detections or []
    faces = []
    for face in found:
        box = face.location_data.relative_bounding_box
        left, top = box.xmin * width, box.ymin * height
        faces.append((left, top, left + box.width * width, top + box.height * height, face.score[0]))
    return faces


def detect(inputs, folder):
    picture = pictures.read(inputs, "input")
    if inputs["model"] not in RANGES:
        raise InputError(f"model is one of: {'; '.join(RANGES)}")
    thickness = max(2, min(picture.shape[:2]) // 300)
    for left, top, right, bottom, score in boxes(picture, RANGES[inputs["model"]], float(inputs["confidence"])):
        corners = (round(left), round(top)), (round(right), round(bottom))
        cv2.rectangle(picture, *corners, BLACK, thickness + 2)
        cv2.rectangle(picture, *corners, GREEN, thickness)
        place = (corners[0][0], max(corners[0][1] - 4, 12))
        cv2.putText(picture, f"{score:.2f}", place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, BLACK, 3)
        cv2.putText(picture, f"{score:.2f}", place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, GREEN, 1)
    return {"output": pictures.write(picture, folder, "faces")}


def landmarks(picture):
    """The landmarks of every face: shares of width and height, and depth as a share of the width."""
    with mesh.FaceMesh(static_image_mode=True, refine_landmarks=True, max_num_faces=MAX_FACES) as model:
        found = model.process(pictures.rgb(picture)).multi_face_landmarks or []
    return [[(point.x, point.y, point.z) for point in face.landmark] for face in found]


def plot_mesh(inputs, folder):
    picture = pictures.read(inputs, "input")
    height, width = picture.shape[:2]
    faces = landmarks(picture)
    lines = []
    for number, face in enumerate(faces):
        places = [(round(x * width), round(y * height)) for x, y, _ in face]
        size = max(place[0] for place in places) - min(place[0] for place in places)
        thickness = max(1, size // 250)
        for edges, color in ((mesh.FACEMESH_TESSELATION, MESH), (mesh.FACEMESH_CONTOURS, CONTOUR),
                             (mesh.FACEMESH_IRISES, CONTOUR)):
            for start, end in edges:
                cv2.line(picture, places[start], places[end], color, thickness, cv2.LINE_AA)
        if len(faces) > 1:
            lines.append(f"face {number}")
        lines.extend(f"{index}: {x:.4f} {y:.4f} {z:.4f}" for index, (x, y, z) in enumerate(face))
    return {
        "output": pictures.write(picture, folder, "mesh"),
        "multi_face_landmarks": "".join(f"{line}\n" for line in lines),
    }
