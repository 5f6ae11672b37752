//! Node of `crates/node/examples/vision`: trained models from packages, run for real. `.ci/nodes` runs this.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use inferstore::Inputs;
use inferstore_node::{Config as NodeConfig, prepare};
use serde_json::Value;

use super::bench::{Bench, Node};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/node/examples/vision")
}

/// Runs a line of Python in the environment of the node, and returns its output. The allocator overwrites
/// freed memory, so that a network that reads freed memory returns noise.
fn python(line: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(folder().join(".venv/bin/python"));
    command.current_dir(folder()).env("MALLOC_PERTURB_", "165").arg("-c").arg(line).args(arguments);
    let ran = command.output();
    let ran = ran.expect("the environment is there");
    assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

fn inputs(folder: &Path) {
    let line = "import sys,cv2,numpy as np,matplotlib as m; f=sys.argv[1]; \
        p=cv2.imread(m.get_data_path()+'/sample_data/grace_hopper.jpg'); p=cv2.resize(p,(320,376)); \
        cv2.imwrite(f+'/portrait.png',p); cv2.imwrite(f+'/small.png',cv2.resize(p,(101,120))); \
        cv2.imwrite(f+'/night.png',((p/255.)**2*40).astype('uint8')); \
        cv2.imwrite(f+'/view.png',cv2.warpAffine(p,np.float32([[.9,-.1,20],[.1,.9,0]]),(320,376))); \
        cv2.imwrite(f+'/green.png',np.full((50,80,3),(0,200,0),'uint8')); \
        v=cv2.VideoWriter(f+'/video.mp4',cv2.VideoWriter_fourcc(*'mp4v'),12,(320,240)); \
        [v.write(p[i:i+240].copy()) for i in range(24)]; v.release()";
    python(line, &[folder]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "installs the packages of crates/node/examples/vision"]
async fn the_vision_node_runs_every_kind_that_it_serves() {
    let bench = Bench::start().await;
    let service = bench.service.nodes_url().expect("there is a listener").parse().expect("it is a URL");
    let mut config =
        NodeConfig::read_for(&folder().join("node.json"), Some(&service)).expect("the settings are right");
    prepare(&mut config, Path::new("python3")).await.expect("the packages can be installed");
    let mut kinds: Vec<String> = config.models.keys().cloned().collect();
    let node = Node::with(config, &bench.key);

    let scratch = tempfile::tempdir().expect("a temporary folder");
    inputs(scratch.path());
    let file = |name: &str| scratch.path().join(name);
    let one = |input: &str, name: &str| Inputs::new().file(input, file(name));
    let range = "Full-range model (best for faces within 5 meters)";
    let differs = "import cv2,sys; a=cv2.imread(sys.argv[1]); b=cv2.imread(sys.argv[2]); \
                   print(a.shape==b.shape and (a!=b).any())";
    let doubled = "import cv2,sys; print(cv2.imread(sys.argv[1]).shape)";
    // The subject in the middle is kept, and the upper left corner is background.
    let cut = "import cv2,sys; a=cv2.imread(sys.argv[1],-1)[...,3]; print(a[260,160]>200, a[5,5]<60)";
    let replaced = "import cv2,sys; a=cv2.imread(sys.argv[1]).astype(int); b=cv2.imread(sys.argv[2]).astype(int); \
                    print(a[5,5,1]-a[5,5,0]>120, abs(a[260,160]-b[260,160]).max()<40)";
    let brighter = "import cv2,sys; print(cv2.imread(sys.argv[1]).mean()>1.5*cv2.imread(sys.argv[2]).mean())";
    let video = "import cv2,sys; v=cv2.VideoCapture(sys.argv[1]); _,p=v.read(); \
                 print(int(v.get(cv2.CAP_PROP_FRAME_COUNT)), p.shape, p.max()>128)";
    let wide = "import cv2,sys; a=cv2.imread(sys.argv[1]); print(a.shape)";
    let two = |name: &str| one("input_1", "portrait.png").file("input_2", file(name));
    let behind = || one("input", "green.png").file("background_path", file("portrait.png"));
    let detect = || one("input", "portrait.png").set("model", range).set("confidence", 0.5);
    for (model, inputs, output, check, other, expected) in [
        ("face-detection", detect(), "output", differs, "portrait.png", "True"),
        ("face-mesh", one("input", "portrait.png"), "output", differs, "portrait.png", "True"),
        ("background-removal", one("input", "portrait.png"), "output", cut, "portrait.png", "True True"),
        ("background-replacement", behind(), "output", replaced, "portrait.png", "True True"),
        (
            "super-resolution",
            one("input_image", "small.png"),
            "output_image",
            doubled,
            "small.png",
            "(240, 202, 3)",
        ),
        (
            "super-resolution-alt",
            one("input_image", "small.png"),
            "output_image",
            doubled,
            "small.png",
            "(240, 202, 3)",
        ),
        (
            "semantic-low-light-enhancement",
            one("input_image", "night.png"),
            "output_image",
            brighter,
            "night.png",
            "True",
        ),
        ("feature-matching", two("view.png"), "output", wide, "view.png", "(376, 640, 3)"),
        ("video-edge-map", one("input", "video.mp4"), "output", video, "video.mp4", "24 (240, 320, 3) True"),
    ] {
        kinds.retain(|kind| kind != model);
        let result = bench.run(model, inputs).await.unwrap_or_else(|failure| panic!("{model}: {failure}"));
        let made = scratch.path().join(if model == "video-edge-map" { "made.mp4" } else { "made.png" });
        std::fs::write(&made, bench.download(&result[output]).await).expect("the folder is ours");
        assert_eq!(python(check, &[&made, &file(other)]), expected, "{model}");
        if model == "face-mesh" {
            let landmarks = result["multi_face_landmarks"].as_str().unwrap_or_default();
            assert_eq!(landmarks.lines().count(), 478, "{landmarks}");
        }
    }
    assert_eq!(kinds, Vec::<String>::new(), "every kind of the node is tried");
    ten_seconds_of_video_become_ten_seconds_of_edges(&bench, scratch.path()).await;
    enlargements_keep_to_the_picture(&bench, scratch.path()).await;

    let text = file("text.png");
    std::fs::write(&text, "no picture").expect("the folder is ours");
    let message =
        bench.run("face-mesh", Inputs::new().file("input", &text)).await.expect_err("it is no picture");
    assert!(message.contains("input is not a picture that can be read"), "{message}");
    let nothing: Result<Value, String> = bench.run("face-mesh", one("input", "green.png")).await;
    assert_eq!(nothing.expect("no face is no failure")["multi_face_landmarks"], "");
    let ended = tokio::time::timeout(Duration::from_secs(30), node.stop()).await;
    ended.expect("it ends soon").expect("the node ends in order");
}

async fn enlargements_keep_to_the_picture(bench: &Bench, folder: &Path) {
    const LEAST_DECIBELS: f64 = 20.0;
    let small = folder.join("small.png");
    let nearness = "import cv2,sys; a=cv2.imread(sys.argv[1]); b=cv2.imread(sys.argv[2]); \
                    b=cv2.resize(b,a.shape[1::-1],interpolation=cv2.INTER_CUBIC); \
                    print(min(cv2.PSNR(a,b), cv2.PSNR(a[:80,:80].copy(),b[:80,:80].copy())))";
    let check = |made: &Path| {
        let decibels: f64 = python(nearness, &[made, &small]).parse().expect("a number");
        assert!(decibels > LEAST_DECIBELS, "{}: {decibels} dB", made.display());
    };
    let models = ["super-resolution", "super-resolution-alt"];
    let runs = models.iter().cycle().take(8).enumerate().map(async |(number, model)| {
        let result = bench.run(model, Inputs::new().file("input_image", &small)).await;
        let result = result.unwrap_or_else(|failure| panic!("{model}: {failure}"));
        let made = folder.join(format!("{number}-{model}.png"));
        std::fs::write(&made, bench.download(&result["output_image"]).await).expect("the folder is ours");
        check(&made);
    });
    join_all(runs).await;
    for network in ["photos", "drawn"] {
        let line = format!(
            "import sys,larger; from pathlib import Path; \
             larger.{network}()({{'input_image': sys.argv[1]}}, Path(sys.argv[2]))"
        );
        python(&line, &[&small, folder]);
        check(&folder.join("picture.png"));
    }
}

/// Writes 300 pictures of a square that moves 3 pixels to the right in each, at 30 pictures a second.
const MAKE_VIDEO: &str = "
import sys, cv2, numpy as np
video = cv2.VideoWriter(sys.argv[1], cv2.VideoWriter_fourcc(*'mp4v'), 30, (1280, 720))
for number in range(300):
    picture = np.zeros((720, 1280, 3), np.uint8)
    picture[300:400, 3 * number + 40 : 3 * number + 140] = 255
    video.write(picture)
video.release()";

/// Plays a video to its end. Prints the number of its pictures, their size and rate, and in how many of them the
/// outermost edges are those of the square, and the codec.
const PLAY_VIDEO: &str = "
import sys, cv2, numpy as np
video = cv2.VideoCapture(sys.argv[1])
count = right = 0
while True:
    is_there, picture = video.read()
    if not is_there:
        break
    columns = np.nonzero(picture[..., 0] > 128)[1]
    ends = (3 * count + 40, 3 * count + 139)
    right += len(columns) > 0 and abs(columns.min() - ends[0]) < 4 and abs(columns.max() - ends[1]) < 4
    count += 1
print(count, *(int(video.get(of)) for of in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)),
    video.get(cv2.CAP_PROP_FPS), int(right), int(video.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, 'little').decode())";

async fn ten_seconds_of_video_become_ten_seconds_of_edges(bench: &Bench, folder: &Path) {
    let [video, edges] = ["ten-seconds.mp4", "ten-seconds-of-edges.mp4"].map(|name| folder.join(name));
    python(MAKE_VIDEO, &[&video]);
    let result = bench.run("video-edge-map", Inputs::new().file("input", &video)).await;
    let result = result.unwrap_or_else(|failure| panic!("video-edge-map: {failure}"));
    let url = result["output"].as_str().unwrap_or_default();
    assert!(url.ends_with(".mp4"), "{url}");
    let bytes = bench.download(&result["output"]).await;
    std::fs::write(&edges, bytes).expect("the folder is ours");
    assert_eq!(python(PLAY_VIDEO, &[&edges]), "300 1280 720 30.0 300 VP90", "browsers play VP9");
}
