//! Built-in models: every kind of the catalog runs on a fresh service, within limits.

use std::path::Path;
use std::time::Duration;

use inferstore::{Client, File, Inputs};
use inferstore_document::kinds::{self, KindSchemas};
use inferstore_document::{members, resolve};
use inferstore_service::{Config, Service};

use crate::client::Quickly;
use crate::client::on_the_service::audited;

const PROGRAM: &str = env!("CARGO_BIN_EXE_model-worker");

pub(crate) async fn start(change: impl FnOnce(&mut Config)) -> (Service, Client) {
    let mut config = Config::ephemeral();
    config.model_process = Some(vec![PROGRAM.into()]);
    change(&mut config);
    let service = Service::start(config).await.expect("the service starts");
    let key = service.api_key().expect("the service is fresh").to_owned();
    let client = Client::new(service.base_url(), key).expect("the address is right");
    (service, client)
}

pub(crate) fn picture(side: usize) -> File {
    let mut bytes = vec![b'B', b'M'];
    let row = (3 * side).next_multiple_of(4);
    let size = u32::try_from(54 + row * side).expect("it is small");
    bytes.extend(size.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(54_u32.to_le_bytes());
    bytes.extend(40_u32.to_le_bytes());
    let length = i32::try_from(side).expect("it is small");
    bytes.extend(length.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(24_u16.to_le_bytes());
    bytes.extend([0; 24]);
    for y in 0..side {
        for x in 0..row / 3 {
            let far = (x as f64 - side as f64 / 2.0).hypot(y as f64 - side as f64 / 2.0) / side as f64;
            let color: [u8; 3] = if far < 0.3 { [40, 120, 230] } else { [90, 60, 30] };
            bytes.extend(color.map(|value| value.wrapping_add(((x * 7 + y * 13) % 11) as u8)));
        }
        bytes.resize(54 + row * (y + 1), 0);
    }
    File::bytes("disk.bmp", bytes).with_mime("image/bmp")
}

const VIDEO: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\
    !\xf9\x04\0\x0a\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0\
    !\xf9\x04\0\x0a\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;";

fn inputs() -> Vec<(&'static str, Inputs)> {
    let input = |kind: KindSchemas| {
        let values = kind.legal_inputs().swap_remove(0);
        let video = File::bytes("video.gif", VIDEO.to_vec()).with_mime("image/gif");
        let file = if kind.name == "video-edge-map" { video } else { picture(96) };
        let properties = members(&kind.input["properties"]).map(|(name, property)| (name, resolve(property)));
        let inputs = properties.fold(Inputs::new(), |inputs, (name, property)| {
            if property["format"] == "uri" {
                inputs.file(name, file.clone())
            } else {
                inputs.set(name, values[name].clone())
            }
        });
        (kind.name, inputs)
    };
    kinds::kinds().map(input).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_the_catalog_runs_on_a_fresh_service() {
    for is_in_process in [false, true] {
        let change = |config: &mut Config| {
            if is_in_process {
                config.model_process = None;
            }
        };
        let (service, client) = start(change).await;
        let mut failed = Vec::new();
        for (model, inputs) in inputs() {
            let outcome = client.model(model).run(inputs).quickly().deadline(Duration::from_secs(90)).await;
            match outcome {
                Ok(outcome) => {
                    let outputs = outcome.output.as_object().map_or(0, serde_json::Map::len);
                    assert!(outputs > 0, "{model} has no output");
                }
                Err(error) => failed.push(format!("{model}: {error}")),
            }
        }
        assert_eq!(failed, Vec::<String>::new(), "in process: {is_in_process}");
        audited(&service).await;
        service.shutdown().await;
    }
}

pub(crate) fn model_processes(program: &Path) -> Vec<i32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("there is a list of processes");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| {
        let about = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let is_ours =
            about("status").lines().any(|line| line.strip_prefix("PPid:").map(str::trim) == Some(&own));
        is_ours && Path::new(about("cmdline").split('\0').next().unwrap_or_default()) == program
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_process_has_no_more_than_its_limits() {
    let (service, client) = start(|config| config.limits.memory = 64 << 20).await;
    let run = client.model("image-to-anime").run(Inputs::new().file("input", picture(1500)));
    // The client would refuse the picture before its upload.
    let outcome = run.options(|run| run.skip_validation = true).await;
    let refused = outcome.expect_err("it needs more memory").to_string();
    assert!(refused.contains("send a smaller picture"), "{refused}");
    let limit = |process: i32, name: &str| {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    };
    // Services of other tests have processes with other limits.
    let memory = (576_u64 << 20).to_string();
    let process = model_processes(Path::new(PROGRAM))
        .into_iter()
        .find(|process| limit(*process, "Max address space") == memory);
    let process = process.expect("it is kept for the next run");
    assert_eq!(limit(process, "Max core file size"), "0");
    assert_eq!(limit(process, "Max open files"), "64");
    let environment = std::fs::read(format!("/proc/{process}/environ")).expect("it is ours");
    assert_eq!(String::from_utf8_lossy(&environment), "");
    service.shutdown().await;
}
