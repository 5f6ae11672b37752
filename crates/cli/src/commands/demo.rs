//! `inferstore demo`: the whole thing, once, on this machine.

use std::io::Cursor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use image::ImageFormat;
use image::imageops::FilterType;
use inferstore::{Client, File, Inputs, Outcome};
use inferstore_console::LOCAL_POLL;
use inferstore_service::{Config, Service};
use serde_json::json;

use super::console::{Beside, LOOPBACK};
use super::outcome::text;
use super::signals::Signals;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::lists;
use crate::output::{Format, Output};
use crate::progress::{Progress, watch};
use crate::settings::Session;
use crate::table::Fit;
use crate::values::size;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  inferstore demo\n  inferstore demo --out pictures")]
pub(crate) struct Arguments {
    /// Folder of the pictures
    #[arg(long, value_name = "DIR", default_value = "inferstore-demo")]
    out: PathBuf,
}

/// Small pictures that come with the command; a form upload carries them.
const HAZY: &[u8] = include_bytes!("../../demo/hazy.png");
const DARK: &[u8] = include_bytes!("../../demo/dark.png");

const AFTERWARDS: &str = "\
How to go on:
  inferstore serve             the same service, on a data folder that stays
  inferstore models list       its catalog, in another terminal";

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    let mut config = Config::ephemeral();
    // Nobody waits for a task that is under way.
    config.shutdown_timeout = Duration::ZERO;
    // A signal removes what the service has stored, too.
    let mut signals = Signals::new()?;
    let service = tokio::select! {
        started = Service::start(config) => {
            started.map_err(|error| Failure::local_failure("the service does not start", error))?
        }
        () = signals.next() => return Err(interrupted()),
    };
    let demo = Demo::run(&service, &arguments.out, &session);
    let mut done = tokio::select! {
        done = demo => done,
        () = signals.next() => Err(interrupted()),
    };
    // A person may want to look at it; a script wants an end.
    if done.is_ok() && session.environment.stdin_is_terminal && session.environment.stdout_is_terminal {
        done = look_at(&service, &session, &mut signals).await;
    }
    service.shutdown().await;
    done
}

/// The picture as a bitmap of more than 5 MiB, which a form does not carry.
fn enlarged(picture: &[u8]) -> Result<Vec<u8>> {
    let mut bitmap = Cursor::new(Vec::new());
    let written = image::load_from_memory(picture).and_then(|picture| {
        picture.resize_exact(1_600, 1_200, FilterType::Nearest).write_to(&mut bitmap, ImageFormat::Bmp)
    });
    written.map_err(|error| Failure::local_failure("the large picture cannot be made", error))?;
    Ok(bitmap.into_inner())
}

fn interrupted() -> Failure {
    Failure::new(exit::FAILED, "the demo was interrupted").with_hint("it keeps nothing but the pictures")
}

async fn look_at(service: &Service, session: &Session, signals: &mut Signals) -> Result {
    let beside = Beside::start(service, SocketAddr::new(LOOPBACK, 0), session).await;
    let beside = beside.map_err(|error| Failure::local_failure("the console does not start", error))?;
    let url = beside.console.url();
    session.output.data(format!("\nLook at it in a browser (Ctrl-C ends it):\n  {url}"))?;
    signals.next().await;
    beside.end().await;
    Ok(())
}

struct Demo<'a> {
    client: Client,
    out: &'a Path,
    session: &'a Session,
}

impl Demo<'_> {
    fn output(&self) -> &Output {
        &self.session.output
    }

    /// A line for people: beside the data where another format is asked for.
    fn say(&self, line: impl AsRef<str>) -> Result {
        if self.output().options.format == Format::Table {
            return self.output().data(line);
        }
        line.as_ref().lines().for_each(|line| self.output().note(line));
        Ok(())
    }

    fn title(&self, text: &str) -> Result {
        self.say(format!("\n{}", self.output().emphasized(text)))
    }

    async fn run(service: &Service, out: &Path, session: &Session) -> Result {
        let client = session.client_of(service.base_url(), service.api_key().unwrap_or_default())?;
        std::fs::create_dir_all(session.here(out)).map_err(Failure::of_path(out, "cannot be made"))?;
        let demo = Demo { client, out, session };
        demo.say(demo.output().emphasized("The service runs in this process"))?;
        demo.say(format!("  API             {}", service.base_url()))?;
        demo.say(format!("  object storage  {}", service.storage_url()))?;
        let before = demo.balance().await?;

        demo.title("Uploads, straight to object storage")?;
        let enlarged = enlarged(HAZY)?;
        let hazy = demo.upload("hazy.png", HAZY.to_vec(), "as a form, because it is small").await?;
        let dark = demo.upload("dark.png", DARK.to_vec(), "as a form, because it is small").await?;
        let large =
            demo.upload("landscape.bmp", enlarged, "as one PUT, because it has more than 5 MiB").await?;

        demo.title("Models")?;
        let mut rows = Vec::new();
        let harmony = Inputs::new().set("input_image", &large).set("template", "v_shape").set("angle", 30);
        for (model, inputs) in [
            ("haze-removal", Inputs::new().set("input_image", &hazy)),
            ("low-light-enhancement", Inputs::new().set("input_image", &dark)),
            ("color-harmonization", harmony),
            ("color-extraction", Inputs::new().set("input", &large)),
        ] {
            let outcome = demo.model(model, inputs).await?;
            let cost = outcome.cost.as_ref().map(ToString::to_string).unwrap_or_default();
            for (output, place) in demo.save_outputs(model, &outcome).await? {
                let record = json!({"model": model, "cost": cost, "output": output, "place": place});
                rows.push(([model.to_owned(), cost.clone(), output, place.clone()], record, place));
            }
        }
        let columns =
            [("MODEL", Fit::Drop(2)), ("COST", Fit::Drop(3)), ("OUTPUT", Fit::Drop(1)), ("WHERE", Fit::Keep)];
        demo.output().report(&lists::report(columns, rows))?;

        let after = demo.balance().await?;
        demo.title("Money")?;
        demo.say(format!("  before  {before}"))?;
        demo.say(format!("  after   {after}"))?;
        demo.say(format!("\nThe pictures are in {}.\n", demo.out.display()))?;
        demo.say(AFTERWARDS)?;
        let picture = demo.out.join("hazy.png");
        demo.say(format!("  inferstore run haze-removal {} -o clear.png", picture.display()))
    }

    async fn balance(&self) -> Result<String> {
        let balance = self.client.balance().await?;
        let [held, free] = [balance.balance, balance.free_balance].map(Option::unwrap_or_default);
        Ok(format!("{held} and {free} free credits"))
    }

    /// Stores a picture beside the outputs and uploads it. A file of another content is not replaced.
    async fn upload(&self, label: &str, content: Vec<u8>, how: &str) -> Result<String> {
        let path = self.out.join(label);
        let at = self.session.here(&path);
        if std::fs::read(&at).is_ok_and(|present| present != content) {
            let headline = format!("{} exists already, and is no picture of the demo", path.display());
            return Err(Failure::new(exit::INPUT, headline).with_hint("--out names another folder"));
        }
        std::fs::write(at, &content).map_err(Failure::of_path(&path, "cannot be written"))?;
        let mut progress = Progress::new(self.output());
        let upload = self.client.folder("samples").upload(File::bytes(label, content)).events();
        let uploaded = watch(upload, |event| progress.upload(label, event)).await?;
        progress.end();
        self.say(format!("  {:<14} {:>9}  {how}", uploaded.name, size(uploaded.size)))?;
        Ok(uploaded.download_url)
    }

    async fn model(&self, model: &str, inputs: Inputs) -> Result<Outcome> {
        let mut progress = Progress::new(self.output());
        progress.state(model, "beginning");
        let run = self.client.model(model).run(inputs).poll(LOCAL_POLL).events();
        Ok(watch(run, |event| progress.status(model, event)).await?)
    }

    /// Downloads what came out, and returns where each output is, or what it is. An output that another demo has stored
    /// is stored once, and a file of another content gets a name of its own.
    async fn save_outputs(&self, model: &str, outcome: &Outcome) -> Result<Vec<(String, String)>> {
        let mut kept = Vec::new();
        for (name, value) in outcome.output.as_object().into_iter().flatten() {
            let Ok(download) = outcome.download(name) else {
                kept.push((name.clone(), text(value)));
                continue;
            };
            let folder = self.session.here(self.out);
            let stem = format!("{model}-{name}");
            let mut path = download.to_dir(&folder, &stem).await?.path;
            let plain = folder.join(stem).with_extension(path.extension().unwrap_or_default());
            let content = |path: &Path| std::fs::read(path).ok();
            if path != plain && content(&path) == content(&plain) && std::fs::remove_file(&path).is_ok() {
                path = plain;
            }
            let file = self.out.join(path.file_name().unwrap_or_default());
            kept.push((name.clone(), file.display().to_string()));
        }
        Ok(kept)
    }
}
