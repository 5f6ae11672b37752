//! Worker process of the built-in models: speaks the node protocol, and is confined before it reads a picture. A
//! picture that crashes its decoder or exhausts memory ends this process, not the service.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use inferstore_models::{Input, Inputs, Limits, Model, Output, built_in, memory_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{run_limits, without_file};
use crate::models::Failed;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) model: String,
    pub(crate) folder: PathBuf,
    /// Inputs: files as paths, numbers as numbers, everything else as text.
    pub(crate) inputs: BTreeMap<String, Value>,
    pub(crate) files: BTreeSet<String>,
    pub(crate) seconds: f64,
    /// True to measure the run only: the output is `memory` in bytes.
    pub(crate) measure: bool,
}

/// Serves built-in models as a worker: reads a line of JSON from standard input for each run, and writes one to
/// standard output at its end. Ends the process when standard input closes, even during a run. `Config::model_process`
/// names the program that calls this function. Fails if the confinement, a read or a write fails.
pub fn serve_models(pixels: u64, memory: u64) -> io::Result<()> {
    confine(memory)?;
    let models: BTreeMap<&str, Arc<dyn Model>> =
        built_in().into_iter().map(|model| (model.kind(), model)).collect();
    let mut stdout = io::stdout().lock();
    let mut write = |line: Value| {
        writeln!(stdout, "{line}")?;
        stdout.flush()
    };
    let lines = read_lines()?;
    write(json!({ "ready": true }))?;
    for line in lines {
        let request: Request = serde_json::from_str(&line).map_err(io::Error::other)?;
        let ended = match models.get(request.model.as_str()) {
            Some(model) => run(&**model, &request, pixels, memory),
            None => Err(Failed::model(format!("this process does not run {}", request.model))),
        };
        write(match ended {
            Ok(output) => json!({ "output": output }),
            Err(failed) => json!({ "error": { "kind": failed.kind, "message": failed.message } }),
        })?;
    }
    Ok(())
}

/// Reads standard input in a thread. Ends the process at its end: the service is gone, and no process reads results.
fn read_lines() -> io::Result<mpsc::Receiver<String>> {
    let (sender, lines) = mpsc::channel();
    let read = move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        std::process::exit(0);
    };
    thread::Builder::new().spawn(read)?;
    Ok(lines)
}

fn run(model: &dyn Model, request: &Request, pixels: u64, memory: u64) -> Result<Map<String, Value>, Failed> {
    let inputs =
        inputs(request).map_err(|cause| Failed::model(format!("an input cannot be read: {cause}")))?;
    let mut limits = run_limits(model, pixels, memory);
    if request.measure {
        return Ok(Map::from_iter([("memory".to_owned(), json!(memory_of(model, &inputs, &limits)))]));
    }
    let time = Duration::try_from_secs_f64(request.seconds).unwrap_or(Duration::MAX);
    limits.deadline = Instant::now().checked_add(time);
    limit_processor_time(time);
    let outputs = model.run(&inputs, &limits)?;
    drop(inputs);
    let mut by_name = Map::new();
    for (name, output) in outputs {
        let value = match output {
            Output::Text(text) => text,
            Output::File { bytes, extension, .. } => {
                let file = format!("{name}.{extension}");
                write(&request.folder.join(&file), &bytes, &limits).map_err(|cause| {
                    Failed::model(format!("the output {name} cannot be written: {cause}"))
                })?;
                file
            }
        };
        by_name.insert(name.to_owned(), Value::String(value));
    }
    Ok(by_name)
}

/// Writes a file. On a full disk, retries until the deadline of the run.
fn write(path: &Path, bytes: &[u8], limits: &Limits) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(200);
    loop {
        match std::fs::write(path, bytes) {
            Err(cause)
                if matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
                    && limits.deadline.is_some_and(|deadline| Instant::now() < deadline) =>
            {
                thread::sleep(PAUSE);
            }
            written => return written,
        }
    }
}

fn inputs(request: &Request) -> io::Result<Inputs> {
    let read = |(name, value): (&String, &Value)| {
        let input = match value {
            Value::String(path) if request.files.contains(name) => {
                Input::File(std::fs::read(Path::new(path))?)
            }
            value => without_file(value),
        };
        Ok((name.clone(), input))
    };
    request.inputs.iter().map(read).collect::<io::Result<Vec<_>>>().map(Inputs::from_iter)
}

#[cfg(unix)]
fn confine(memory: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    /// Address space of the program itself.
    const PROGRAM: u64 = 512 << 20;
    const OPEN_FILES: u64 = 64;
    const FILE_SIZE: u64 = 512 << 20;
    for (resource, most) in [
        (Resource::As, memory.saturating_add(PROGRAM)),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Fsize, FILE_SIZE),
        (Resource::Core, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Lets the system kill this process if a run takes far more processor time than its timeout.
#[cfg(unix)]
fn limit_processor_time(time: Duration) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::time::{ClockId, clock_gettime};

    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = u64::try_from(used.tv_sec).unwrap_or(0);
    let most = used.saturating_add(time.mul_f32(1.25).as_secs()).saturating_add(2);
    let maximum = getrlimit(Resource::Cpu).maximum;
    // The hard limit stays, which the system may have set lower.
    let _ = setrlimit(Resource::Cpu, Rlimit { current: Some(most), maximum });
}

#[cfg(not(unix))]
fn confine(_: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn limit_processor_time(_: Duration) {}

#[cfg(test)]
mod tests {
    use inferstore_models::largest_picture;
    use tempfile::TempDir;

    use super::*;
    use crate::config::Config;

    fn header(width: u32, height: u32) -> Vec<u8> {
        let numbers =
            |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        let sizes = numbers(&[54 + 3 * width * height, 0, 54, 40, width, height]);
        [&b"BM"[..], &sizes, &[1, 0, 24, 0], &numbers(&[0, 3 * width * height, 0, 0, 0, 0])].concat()
    }

    #[test]
    fn a_worker_takes_pictures_up_to_the_declared_size_and_no_larger() -> io::Result<()> {
        let limits = Config::ephemeral().limits;
        let folder = TempDir::new()?;
        for model in built_in() {
            let run_with = |width: u32| {
                let path = folder.path().join("picture.bmp");
                std::fs::write(&path, header(width, 1_000))?;
                let names = [
                    "input",
                    "input_image",
                    "background_path",
                    "bg_img",
                    "obj_img",
                    "mask_img",
                    "input_1",
                    "input_2",
                ];
                let files = names.map(|name| (name.to_owned(), json!(path)));
                let others = [
                    ("method", "Poisson"),
                    ("template", "v_shape"),
                    ("angle", "1"),
                    ("confidence", "0.5"),
                    ("model", "Full-range model (best for faces within 5 meters)"),
                ];
                let others = others.map(|(name, value)| (name.to_owned(), json!(value)));
                let request = Request {
                    model: model.kind().to_owned(),
                    folder: folder.path().to_owned(),
                    inputs: files.into_iter().chain(others).collect(),
                    files: names.map(str::to_owned).into(),
                    seconds: 60.0,
                    measure: false,
                };
                let ended = run(&*model, &request, limits.pixels, limits.memory);
                Ok::<_, io::Error>(ended.err().map(|failed| failed.message).unwrap_or_default())
            };
            let limits = Limits { pixels: limits.pixels, memory: limits.memory, deadline: None };
            let declared = largest_picture(&*model, &limits).unwrap_or_default();
            let width = u32::try_from(declared / 1_000).map_err(io::Error::other)?;
            let (fits, too_large) = (run_with(width)?, run_with(width + 1)?);
            assert!(!fits.contains("megapixels"), "{}: {fits}", model.kind());
            let words = format!("this model takes at most {}", declared / 1_000_000);
            assert!(too_large.contains(&words), "{}: {too_large}", model.kind());
        }
        Ok(())
    }
}
