//! Published examples: programs that run a model on a picture with only an HTTP library. Each runs against a
//! service that loses the response to a create and returns an HTML page to a poll. The published judge of programs finds
//! what survives, what is billed twice and what hangs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::service::{Service, build_command};
use crate::tools::{absolute, must, output_of};

/// Folder of the examples.
pub const FOLDER: &str = "openapi/examples";

/// Program of the folder that runs any program with each fault.
pub const JUDGE: &str = "judge.py";

/// Example program with its language.
pub struct Example {
    /// File in the folder.
    pub file: &'static str,
    /// Language.
    pub language: &'static str,
    /// Compiler of the file, with its last options. Empty for a language that runs source files.
    compiler: &'static [&'static str],
    program: &'static [&'static str],
}

/// All examples.
pub const EXAMPLES: [Example; 7] = [
    Example { file: "run.sh", language: "curl", compiler: &[], program: &["sh"] },
    Example { file: "run.cs", language: "C#", compiler: &MCS, program: &["mono", "run.exe"] },
    Example { file: "run.go", language: "Go", compiler: &[], program: &["go", "run"] },
    Example { file: "run.java", language: "Java", compiler: &[], program: &["java"] },
    Example { file: "run.kt", language: "Kotlin", compiler: &KOTLINC, program: &["java", "-jar", "run.jar"] },
    Example { file: "run.php", language: "PHP", compiler: &[], program: &["php"] },
    Example { file: "run.rb", language: "Ruby", compiler: &[], program: &["ruby"] },
];

const MCS: [&str; 3] =
    ["mcs", "-r:System.Net.Http,System.Runtime.Serialization,System.Xml,System.Xml.Linq", "-out:run.exe"];
const KOTLINC: [&str; 4] = ["kotlinc", "-include-runtime", "-d", "run.jar"];

const JUDGED: &str = "run.sh";
const KEY: &str = " -H \"idempotency-key: $key\"";
const POLL: &str = "call -o \"$work/task.json\" \"$BASE_URL/api-key/task/$task/detail\"";
const POLL_ONCE: &str = "curl -sS --fail -K \"$work/key\" -o \"$work/task.json\" \"$BASE_URL/api-key/task/$task/detail\" || sleep 3600";

const WORK: &str = "target/examples";
pub(crate) const PHOTO: &str = "crates/cli/demo/hazy.png";
const JPEG: &str = "crates/models/samples/small.jpg";

pub(crate) fn run(root: &Path) -> Result<String> {
    let folder = absolute(&root.join(WORK))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let photo = folder.join("photo.png");
    fs::copy(root.join(PHOTO), &photo).context("cannot copy the picture")?;
    // Above the limit of the form: a picture may have trailing bytes.
    let large = folder.join("large.png");
    let mut content = fs::read(&photo).context("cannot read the picture")?;
    content.resize(5_242_881, 0);
    fs::write(&large, content).context("cannot write the large picture")?;
    let jpeg = folder.join("photo.jpg");
    fs::copy(root.join(JPEG), &jpeg).context("cannot copy the photo")?;
    let service = Service::start(&["--balance", "1000", "--controls-port", "0"])?;
    for example in &EXAMPLES {
        let file = absolute(&root.join(FOLDER).join(example.file))?;
        if let Some((compiler, options)) = example.compiler.split_first() {
            must(compiler, Command::new(compiler).args(options).arg(&file).current_dir(&folder))
                .with_context(|| format!("{} does not compile", example.file))?;
        }
        for (input, mime) in [(&large, "image/png"), (&jpeg, "image/jpeg")] {
            example.run(&file, &service, input, &folder.join("result"))?;
            let stored = service.last_upload()?;
            ensure!(stored["mime"] == mime, "{} uploads {mime} as {}", example.file, stored["mime"]);
        }
    }
    judge(root, &folder)?;
    Ok(format!(
        "{} examples create one task through a lost response; {JUDGE} finds mistakes\n",
        EXAMPLES.len()
    ))
}

/// Runs the judge on an example, on the same without an idempotency key, and on one that does not end after a failed poll.
fn judge(root: &Path, folder: &Path) -> Result<()> {
    let judge = absolute(&root.join(FOLDER).join(JUDGE))?;
    let good = fs::read_to_string(root.join(FOLDER).join(JUDGED)).context("cannot read the example")?;
    ensure!(good.contains(KEY) && good.contains(POLL), "{JUDGED} has no key or no poll to remove");
    let naive = good.replace(KEY, "");
    let hanging = good.replace(POLL, POLL_ONCE);
    let lost = "createTask: response lost";
    for (program, options, code, line) in [
        (&good, &["--only", "createTask"][..], 0, "6 of 6 survived"),
        (&naive, &["--only", lost], 1, "billed twice"),
        (&hanging, &["--only", "getTask: 502", "--timeout", "10"], 1, "hung"),
    ] {
        fs::write(folder.join("judged.sh"), program).context("cannot write the judged program")?;
        let mut command = Command::new("python3");
        command.arg(&judge).args(options).args(["--", "sh", "judged.sh", "photo.png", "judged.png"]);
        command.current_dir(folder).env("INFERSTORE_COMMAND", build_command()?);
        let judged = command.output().context("cannot run Python")?;
        let output = output_of(&judged);
        ensure!(judged.status.code() == Some(code) && output.contains(line), "expected {line:?}:\n{output}");
    }
    Ok(())
}

impl Example {
    fn run(&self, file: &Path, service: &Service, photo: &Path, result: &Path) -> Result<()> {
        let html = json!({"content-type": "text/html"});
        let page = json!({
            "operation": "getTask", "effect": "status", "status": 502, "headers": html, "body": "<h1>502</h1>", "times": 1,
        });
        let lost = json!({"operation": "createTask", "effect": "lose_response", "times": 1});
        service.control("POST", "/reset", &Value::Null)?;
        service.control("POST", "/faults", &lost)?;
        service.control("POST", "/faults", &page)?;
        let _ = fs::remove_file(result);
        let (program, options) = self.program.split_first().context("an example has a program")?;
        let mut command = Command::new(program);
        command.args(options).current_dir(result.parent().context("a result is in a folder")?);
        if self.compiler.is_empty() {
            command.arg(file);
        }
        command.arg(photo).arg(result);
        must(program, service.connect(&mut command)).with_context(|| format!("{} fails", self.file))?;
        let picture = fs::read(result).with_context(|| format!("{} writes no picture", self.file))?;
        let begin = fs::read(photo).context("cannot read the picture")?;
        ensure!(picture.get(..3) == begin.get(..3), "{} writes something else than a picture", self.file);
        let state = service.control("GET", "/", &Value::Null)?;
        let tasks: u64 =
            state["tasks"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        ensure!(tasks == 1, "{} creates {tasks} tasks", self.file);
        let creates = service.control("GET", "/journal?operation=createTask", &Value::Null)?;
        let creates = creates.as_array().map_or(0, Vec::len);
        ensure!(creates == 2, "{} sends {creates} creates", self.file);
        Ok(())
    }
}
