//! Real models in Python, if installed: OpenCV as a command, behind MLServer, and behind cog. `.ci/nodes`
//! installs them and runs this.

use std::path::{Path, PathBuf};
use std::process::Command;

use inferstore::Inputs;
use inferstore_measure::free_port;
use serde_json::{Value, json};

use super::bench::{Bench, Process};

/// Environment variable of the folder in which `.ci/nodes` has installed `mlserver` and `cog`.
const TOOLS: &str = "INFERSTORE_NODE_TOOLS";

fn python(environment: &str) -> PathBuf {
    let tools = std::env::var(TOOLS).expect("this runs by .ci/nodes, which says where Python is");
    Path::new(&tools).join(environment).join("bin/python")
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/node/examples").join(name)
}

fn opencv(line: &str, arguments: &[&Path]) -> String {
    let ran = Command::new(python("mlserver")).arg("-c").arg(line).args(arguments).output();
    let ran = ran.expect("Python is installed");
    assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

fn square(folder: &Path) -> PathBuf {
    let bright = |at: usize| (16..48).contains(&(at % 64)) && (16..48).contains(&(at / 64));
    let mut bytes = b"P5 64 64 255\n".to_vec();
    bytes.extend((0..64 * 64).map(|at| if bright(at) { 255 } else { 0 }));
    let file = folder.join("square.pgm");
    std::fs::write(&file, bytes).expect("the folder is ours");
    file
}

async fn shows_the_outline(bench: &Bench, url: &Value, folder: &Path) {
    let file = folder.join("edges.png");
    std::fs::write(&file, bench.download(url).await).expect("the folder is ours");
    let line = "import cv2,sys; i=cv2.imread(sys.argv[1],0); \
                print(i.shape, i[32,14:18].max(), i[32,32], i[4,4], 90 < (i>0).sum() < 260)";
    assert_eq!(opencv(line, &[&file]), "(64, 64) 255 0 0 True");
}

fn formats() -> (Value, Value) {
    let input = json!({ "type": "file", "mime_type": ["image/*"], "required": true, "position": 0 });
    let threshold = json!({ "type": "int", "required": true, "position": 1, "samples": ["100"] });
    let output = json!({ "output": { "type": "file", "mime_type": ["image/png"], "position": 0 } });
    (json!({ "input": input, "threshold": threshold }), output)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs what .ci/nodes installs"]
async fn opencv_as_a_command_draws_the_edges_of_images_and_videos() {
    let bench = Bench::start().await;
    let (inputs, outputs) = formats();
    bench.publish("edge-map", inputs, outputs).await;
    let video = json!({ "type": "file", "mime_type": ["video/*"], "required": true, "position": 0 });
    let edges = json!({ "type": "file", "mime_type": ["video/mp4"], "position": 0 });
    bench.publish("video-edges", json!({ "input": video }), json!({ "output": edges })).await;
    let command = json!({
        "command": [python("mlserver"), example("edge-map").join("edge_map.py")],
        "seconds": 60, "memory_mib": 4096
    });
    let node = bench.node(&json!({ "edge-map": command, "video-edges": command }));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inputs = Inputs::new().file("input", square(folder.path())).set("threshold", 100);
    let output = bench.run("edge-map", inputs).await.expect("the model succeeds");
    shows_the_outline(&bench, &output["output"], folder.path()).await;

    let video = folder.path().join("square.mp4");
    let line = "import cv2,sys; p=cv2.imread(sys.argv[1]); p=cv2.resize(p,(320,240)); \
                v=cv2.VideoWriter(sys.argv[2],cv2.VideoWriter_fourcc(*'mp4v'),10,(320,240)); \
                [v.write(p) for _ in range(12)]; v.release()";
    opencv(line, &[&folder.path().join("square.pgm"), &video]);
    let inputs = Inputs::new().file("input", video);
    let output = bench.run("video-edges", inputs).await.expect("the model succeeds");
    assert!(output["output"].as_str().is_some_and(|url| url.ends_with("output.mp4")), "{output}");
    let edges = folder.path().join("edges.mp4");
    std::fs::write(&edges, bench.download(&output["output"]).await).expect("the folder is ours");
    let line = "import cv2,sys; v=cv2.VideoCapture(sys.argv[1]); \
                n=int(v.get(cv2.CAP_PROP_FRAME_COUNT)); _,p=v.read(); \
                codec=int(v.get(cv2.CAP_PROP_FOURCC)).to_bytes(4,'little').decode(); print(n, p.shape, p.max() > 128, codec)";
    assert_eq!(opencv(line, &[&edges]), "12 (240, 320, 3) True VP90", "browsers play VP9");

    let text = folder.path().join("text.png");
    std::fs::write(&text, "no picture").expect("the folder is ours");
    let inputs = Inputs::new().file("input", text).set("threshold", 100);
    let message = bench.run("edge-map", inputs).await.expect_err("this is no picture");
    assert!(message.contains("neither an image nor a video"), "{message}");
    node.stop().await.expect("the node ends in order");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs what .ci/nodes installs"]
async fn a_model_behind_mlserver_is_run_over_the_open_inference_protocol() {
    let bench = Bench::start().await;
    let (inputs, mut outputs) = formats();
    outputs["pixels"] = json!({ "type": "int", "position": 1 });
    bench.publish("edges", inputs, outputs).await;
    let port = free_port().expect("a free port");
    let server = format!("http://127.0.0.1:{port}");
    let node = bench.node(&json!({ "edges": { "open_inference": server, "server_model": "edge-map" } }));
    let mut mlserver = Command::new(python("mlserver").with_file_name("mlserver"));
    mlserver.args(["start", "."]).current_dir(example("mlserver"));
    mlserver.env("MLSERVER_HTTP_PORT", port.to_string());
    mlserver.env("MLSERVER_GRPC_PORT", free_port().expect("a free port").to_string());
    mlserver.env("MLSERVER_METRICS_PORT", free_port().expect("a free port").to_string());
    mlserver.env("PYTHONDONTWRITEBYTECODE", "1");
    let running = Process::start(&mut mlserver);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let inputs = Inputs::new().file("input", square(folder.path())).set("threshold", 100);
    let output = bench.run("edges", inputs).await.expect("the model succeeds");
    shows_the_outline(&bench, &output["output"], folder.path()).await;
    assert!(output["pixels"].as_i64().is_some_and(|pixels| (90..260).contains(&pixels)), "{output}");

    let text = folder.path().join("text.png");
    std::fs::write(&text, "no picture").expect("the folder is ours");
    let inputs = Inputs::new().file("input", text).set("threshold", 100);
    let message = bench.run("edges", inputs).await.expect_err("this is no picture");
    assert!(message.contains("the model server responded with"), "{message}");
    node.stop().await.expect("the node ends in order");
    running.kill();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs what .ci/nodes installs"]
async fn a_model_behind_cog_is_run_by_its_predictions() {
    let bench = Bench::start().await;
    let (inputs, outputs) = formats();
    bench.publish("edges", inputs, outputs).await;
    let port = free_port().expect("a free port");
    let node = bench.node(&json!({ "edges": { "cog": format!("http://127.0.0.1:{port}") } }));
    let python = python("cog");
    let mut cog = Command::new(&python);
    cog.args(["-m", "cog.server.http", "--host", "127.0.0.1"]).current_dir(example("cog"));
    // cog starts a second Python by name.
    let path = std::env::var("PATH").unwrap_or_default();
    cog.env("PATH", format!("{}:{path}", python.parent().unwrap_or(Path::new("")).display()));
    cog.env("PORT", port.to_string()).env("COG_PREDICT_TYPE_STUB", "predict.py:Predictor");
    cog.env("PYTHONDONTWRITEBYTECODE", "1");
    let running = Process::start(&mut cog);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let inputs = Inputs::new().file("input", square(folder.path())).set("threshold", 100);
    let output = bench.run("edges", inputs).await.expect("the model succeeds");
    shows_the_outline(&bench, &output["output"], folder.path()).await;

    let text = folder.path().join("text.png");
    std::fs::write(&text, "no picture").expect("the folder is ours");
    let inputs = Inputs::new().file("input", text).set("threshold", 100);
    let message = bench.run("edges", inputs).await.expect_err("this is no picture");
    assert!(message.contains("the input is not an image that can be read"), "{message}");
    node.stop().await.expect("the node ends in order");
    running.kill();
}
