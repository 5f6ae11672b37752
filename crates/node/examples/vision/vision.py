"""Trained models for kinds of the catalog. Everything runs on the CPU, and nothing is fetched at run time."""

import os

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import cv2

import faces
import larger
import people
import scenes
from worker import serve

cv2.setNumThreads(2)

MODELS = {
    "face-detection": faces.detect,
    "face-mesh": faces.plot_mesh,
    "background-removal": people.remove_background,
    "background-replacement": people.replace_background,
    "semantic-low-light-enhancement": people.enhance,
    "super-resolution": larger.photos(),
    "super-resolution-alt": larger.drawn(),
    "feature-matching": scenes.match,
    "video-edge-map": scenes.edges,
}

if __name__ == "__main__":
    serve(MODELS)
