//! Destinations of outputs: `-o` of `run`, `task show` and `task wait`, and downloads that replace only regular files.

mod staged;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use inferstore::{Download, DownloadEvent, Outcome};
use tokio::io::AsyncWriteExt;

use crate::exit;
use crate::failure::{Failure, Result};
use crate::progress::{Progress, watch};
use crate::settings::Session;
pub(crate) use staged::{absolute, relative_path};

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArguments {
    /// Download the outputs: into a file, a folder (it ends with a slash or has no extension), - for standard output, or
    /// a template such as '{input}-{model}.{ext}'; `inferstore help outputs` has the rule. An output without files is
    /// written as JSON into a file or to standard output, and printed beside a folder or a template
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<String>,
    /// Replace regular files that exist
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Show the output picture in the terminal
    #[arg(long)]
    pub(crate) show: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TemplateVariables {
    /// The name of the input file, without its extension.
    pub(crate) input: Option<String>,
    pub(crate) model: Option<String>,
}

#[derive(Debug, Clone)]
enum Destination {
    Stdout,
    File(PathBuf),
    Folder(String),
    Template(String),
}

/// Downloads of outputs, checked before anything is billed.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    destination: Option<Destination>,
    /// The files that the model declares to return; none if that is not known.
    declared: Vec<String>,
    overwrite: bool,
    show: bool,
}

pub(crate) type Saved = (String, PathBuf);

impl OutputArguments {
    pub(crate) fn is_used(&self) -> bool {
        self.out.is_some() || self.show
    }

    /// Returns true when the outputs go to a folder, also by a template.
    pub(crate) fn is_folder(&self, session: &Session) -> bool {
        let out = self.out.as_deref().filter(|out| *out != "-");
        out.map(|out| expanded(out, session)).is_some_and(|out| {
            let path = session.here(&out);
            out.contains('{') || (is_folder(&out, &path) && !is_special(&path))
        })
    }

    /// Checks the destination. `make_folder` makes its folder, `check_folder` does not. `outputs` are declared files.
    pub(crate) fn check(
        &self,
        check_folder: fn(&Path) -> Result,
        outputs: Option<&[String]>,
        session: &Session,
    ) -> Result<Delivery> {
        let declared = outputs.unwrap_or_default().to_vec();
        let delivery = Delivery { destination: None, declared, overwrite: self.overwrite, show: self.show };
        let out = self.out.as_deref();
        let destination = out.map(|out| delivery.destination(out, check_folder, session)).transpose()?;
        Ok(Delivery { destination, ..delivery })
    }
}

impl Delivery {
    fn destination(&self, out: &str, check: fn(&Path) -> Result, session: &Session) -> Result<Destination> {
        let is_several = self.declared.len() > 1;
        if out == "-" {
            return check_is_one("standard output", &self.declared).map(|()| Destination::Stdout);
        }
        if out.is_empty() {
            let hint = "give a file, a folder/ or `-`; nothing was sent";
            return Err(Failure::usage("-o has no path").with_hint(hint));
        }
        let out = expanded(out, session);
        if out.contains('{') {
            check_template(&out)?;
            if is_several {
                check_tells_outputs_apart(&out)?;
            }
            check(&session.here(fixed_folder(&out)))?;
            return Ok(Destination::Template(session.here(out).display().to_string()));
        }
        let path = session.here(&out);
        if let Err(error) = std::fs::symlink_metadata(&path)
            && error.kind() == io::ErrorKind::InvalidFilename
        {
            return Err(Failure::usage(format!("{out} cannot be written: {error}"))
                .with_hint("choose a shorter name; nothing was sent"));
        }
        if is_special(&path) {
            return check_is_one(&out, &self.declared).map(|()| Destination::File(path));
        }
        if is_folder(&out, &path) {
            check(&path)?;
            let folder = session.here(out.trim_end_matches('/'));
            return Ok(Destination::Folder(folder.display().to_string()));
        }
        check(path.parent().unwrap_or(Path::new("")))?;
        if path.is_file() && !self.overwrite && !is_several {
            return Err(exists(&out));
        }
        Ok(Destination::File(path))
    }
}

/// Returns true for a destination that is a folder, or becomes one.
pub(crate) fn is_folder(out: &str, path: &Path) -> bool {
    let is_file = path.is_file() || (!path.is_dir() && path.extension().is_some());
    !is_file || out.ends_with('/')
}

/// Fails for several outputs, which would be one behind the other in a stream. /dev/null drops all of them.
fn check_is_one(place: &str, outputs: &[String]) -> Result {
    if outputs.len() <= 1 || place == "/dev/null" {
        return Ok(());
    }
    let outputs = outputs.join(" and ");
    Err(Failure::usage(format!("{place} takes one file, and the output has {outputs}"))
        .with_hint("give a folder: -o outputs/"))
}

pub(crate) fn exists(out: &str) -> Failure {
    Failure::new(exit::INPUT, format!("{out} exists already"))
        .with_hint("choose another name, or give --overwrite")
}

fn check_template(template: &str) -> Result {
    const KNOWN: [&str; 5] = ["input", "model", "task", "name", "ext"];
    for part in template.split('{').skip(1) {
        let name = part.split_once('}').map(|(name, _)| name);
        if !name.is_some_and(|name| KNOWN.contains(&name)) {
            let shown = name.map_or_else(|| part.to_owned(), |name| format!("{name}}}"));
            return Err(Failure::usage(format!("{template:?} is no template: {{{shown} is not known"))
                .with_hint("use {input}, {model}, {task}, {name} and {ext}"));
        }
    }
    let rest = template.strip_suffix(".{ext}").unwrap_or(template);
    if rest.contains("{ext}") {
        return Err(Failure::usage("{ext} can only be the end of a template")
            .with_hint("such as -o '{input}-{model}.{ext}'"));
    }
    Ok(())
}

/// Fails for a template that gives all outputs of a run one path. With an extension of its own, each gets a number.
fn check_tells_outputs_apart(template: &str) -> Result {
    if template.contains("{name}") || template.ends_with(".{ext}") {
        return Ok(());
    }
    Err(Failure::usage(format!("the model has several outputs, and {template:?} is one path for all"))
        .with_hint("write {name} into the template, such as -o '{input}-{name}.{ext}'"))
}

/// The folder of a template that all its files are below.
fn fixed_folder(template: &str) -> &str {
    let fixed = template.split('{').next().unwrap_or_default();
    fixed.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Makes the folder, and shows that a file can be written into it.
pub(crate) fn make_folder(folder: &Path) -> Result {
    let folder = or_here(folder);
    let made = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
    made.map_err(|error| unwritable(folder, error))
}

/// Shows that a file can be written into the folder, or into that in which it would be made.
pub(crate) fn check_folder(folder: &Path) -> Result {
    let existing = folder.ancestors().find(|folder| folder.exists());
    let checked = tempfile::tempfile_in(or_here(existing.unwrap_or(Path::new(""))));
    checked.map(drop).map_err(|error| unwritable(folder, error))
}

fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

fn unwritable(folder: &Path, error: io::Error) -> Failure {
    Failure::new(exit::INPUT, format!("{} cannot be written: {error}", folder.display()))
        .with_hint("choose another folder for -o; nothing was sent")
}

pub(crate) fn expanded(path: &str, session: &Session) -> String {
    match (path.strip_prefix('~'), session.environment.variable("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path.to_owned(),
    }
}

impl Delivery {
    /// The folder of the outputs, if there may be several.
    pub(crate) fn folder(&self, session: &Session) -> Option<PathBuf> {
        let folder = match self.destination.as_ref()? {
            Destination::Folder(folder) => folder.as_str(),
            Destination::Template(template) => fixed_folder(template),
            Destination::Stdout | Destination::File(_) => return None,
        };
        Some(session.here(folder))
    }

    /// Returns true when each of several runs has outputs of its own.
    pub(crate) fn tells_runs_apart(&self) -> bool {
        let Some(Destination::Template(template)) = &self.destination else { return true };
        template.contains("{input}") || template.contains("{task}")
    }

    /// Downloads the outputs, and returns where they are. Prints them if standard output was asked for.
    pub(crate) async fn deliver(
        &self,
        outcome: &Outcome,
        names: &TemplateVariables,
        session: &Session,
    ) -> Result<Vec<Saved>> {
        let mut saved = Vec::new();
        let result = match &self.destination {
            Some(destination) => self.save(destination, outcome, names, &mut saved, session).await,
            None if self.show => {
                let folder = tempfile::tempdir()
                    .map_err(|error| Failure::local_failure("no temporary folder can be made", error))?;
                let template = format!("{}/{{name}}.{{ext}}", folder.path().display());
                let destination = Destination::Template(template);
                self.save(&destination, outcome, names, &mut saved, session).await?;
                return show(&saved, session).map(|()| Vec::new());
            }
            None => Ok(()),
        };
        if self.show {
            show(&saved, session)?;
        }
        result.map(|()| saved)
    }

    /// Fails if the path of an output is known before the run and taken, unless `--overwrite` or `replaced` permit it.
    pub(crate) fn check_free(
        &self,
        names: &TemplateVariables,
        replaced: &[PathBuf],
        session: &Session,
    ) -> Result {
        let is_known = match &self.destination {
            _ if self.overwrite => false,
            Some(Destination::File(path)) => !is_special(path),
            Some(Destination::Template(template)) => {
                let is_named = names.input.is_some() || !template.contains("{input}");
                is_named && !template.contains("{task}") && !template.ends_with(".{ext}")
            }
            _ => false,
        };
        let Some(destination) = self.destination.as_ref().filter(|_| is_known) else { return Ok(()) };
        let is_several = self.declared.len() > 1;
        let path = |output: &String| absolute(&destination.path("", is_several, names, output));
        let mut paths = self.declared.iter().map(path);
        match paths.find(|path| path.exists() && !replaced.contains(path)) {
            Some(taken) => Err(exists(&relative_path(&taken, session).display().to_string())),
            None => Ok(()),
        }
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.destination, Some(Destination::Stdout))
    }

    async fn save(
        &self,
        destination: &Destination,
        outcome: &Outcome,
        names: &TemplateVariables,
        saved: &mut Vec<Saved>,
        session: &Session,
    ) -> Result {
        let mut progress = Progress::new(&session.output);
        let outputs: Vec<String> = outcome.urls().map(|(name, _)| name.to_owned()).collect();
        if outputs.is_empty() {
            let values = outcome.output.to_string();
            match destination {
                Destination::Stdout => session.output.data(values)?,
                Destination::File(path) => {
                    write_new(path, &(values + "\n"), self.overwrite)?;
                    saved.push(("output".to_owned(), relative_path(path, session)));
                }
                Destination::Folder(_) | Destination::Template(_) => {}
            }
            return Ok(());
        }
        match destination {
            Destination::Stdout => check_is_one("standard output", &outputs)?,
            Destination::File(path) if is_special(path) => {
                check_is_one(&path.display().to_string(), &outputs)?;
            }
            Destination::Template(template) if outputs.len() > 1 => check_tells_outputs_apart(template)?,
            _ => {}
        }
        for name in &outputs {
            let download = outcome.download(name)?.limits(|limits| limits.overwrite = self.overwrite);
            if matches!(destination, Destination::Stdout) {
                to_stdout(download, session).await?;
                continue;
            }
            let path = destination.path(outcome.task.as_str(), outputs.len() > 1, names, name);
            let path = match without_variable(&path) {
                None => {
                    if let (Destination::Template(_), Some(folder)) = (destination, path.parent()) {
                        std::fs::create_dir_all(folder)
                            .map_err(Failure::of_path(folder, "cannot be made"))?;
                    }
                    save_to(download, &path, |event| progress.download(name, event)).await?;
                    path
                }
                Some(stem) => {
                    let file = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let download = download.to_dir(stem.parent().unwrap_or(Path::new("")), file);
                    watch(download, |event| progress.download(name, event)).await?.path
                }
            };
            progress.done(name, Some("downloaded"));
            saved.push((name.clone(), relative_path(&path, session)));
        }
        Ok(())
    }
}

fn write_new(path: &Path, text: &str, overwrite: bool) -> Result {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!overwrite && !is_special(path));
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&path.display().to_string()),
        _ => Failure::of_path(path, "cannot be written")(error),
    })
}

impl Destination {
    /// The path of an output. It ends with `.{ext}` if the extension is that of what is downloaded.
    fn path(&self, task: &str, is_several: bool, names: &TemplateVariables, output: &str) -> PathBuf {
        let template = match self {
            // One file for each output, named after it.
            Self::File(path) if is_several && !is_special(path) => {
                let stem = path.file_stem().unwrap_or_default().display();
                let extension = path.extension().unwrap_or_default().display();
                return path.with_file_name(format!("{stem}-{}.{extension}", short(&harmless(output))));
            }
            Self::File(path) => return path.clone(),
            Self::Folder(folder) if is_several => format!("{folder}/{{input}}-{{model}}-{{name}}.{{ext}}"),
            Self::Folder(folder) => format!("{folder}/{{input}}-{{model}}.{{ext}}"),
            Self::Template(template) => template.clone(),
            Self::Stdout => "-".to_owned(),
        };
        named(&template, task, names, output).into()
    }
}

fn without_variable(path: &Path) -> Option<PathBuf> {
    let has_variable = path.extension().is_some_and(|extension| extension == "{ext}");
    has_variable.then(|| path.with_extension(""))
}

/// The most bytes of a name of others in the name of an output: a file name has 255 at most.
const MAX_NAME: usize = 80;

/// The template with its names; what others wrote leads to no other folder.
fn named(template: &str, task: &str, names: &TemplateVariables, output: &str) -> String {
    let input = harmless(names.input.as_deref().unwrap_or(task));
    let model = harmless(names.model.as_deref().unwrap_or("output"));
    let [task, output] = [task, output].map(harmless);
    // The input of a batch is cut already, and ends with what tells it apart.
    let input = &input[..input.floor_char_boundary(2 * MAX_NAME)];
    let words = [
        ("{input}", input),
        ("{model}", short(&model)),
        ("{task}", short(&task)),
        ("{name}", short(&output)),
    ];
    words.into_iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value))
}

pub(crate) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

/// A text that leads to no other folder, and is no part of a template.
pub(crate) fn harmless(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() || matches!(c, '/' | '\\' | '{'), "_");
    text.replace("..", "_")
}

/// Downloads to a path. A symlink is followed, a device or a pipe is written into, and a replaced file keeps its mode.
pub(crate) async fn save_to(
    download: Download,
    path: &Path,
    show: impl FnMut(&DownloadEvent),
) -> Result<inferstore::DownloadedFile> {
    let path = followed(path)?;
    if !is_special(&path) {
        return Ok(watch(download.to_file(path), show).await?);
    }
    let failed = Failure::of_path::<io::Error>(&path, "cannot be written");
    let mut file = tokio::fs::OpenOptions::new().write(true).open(&path).await.map_err(&failed)?;
    let mut downloaded = inferstore::DownloadedFile::default();
    let mut stream = download.stream();
    while let Some(bytes) = stream.next().await {
        let bytes = bytes?;
        file.write_all(&bytes).await.map_err(&failed)?;
        downloaded.size += bytes.len() as u64;
    }
    file.flush().await.map_err(&failed)?;
    downloaded.path.clone_from(&path);
    Ok(downloaded)
}

pub(crate) async fn to_stdout(download: Download, session: &Session) -> Result {
    let mut stream = download.stream();
    while let Some(bytes) = stream.next().await {
        session.output.bytes(&bytes?)?;
    }
    Ok(())
}

/// The path behind symlinks, which may not exist yet.
fn followed(path: &Path) -> Result<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        // What a process has open is a link too, whose target is no path: /dev/stdout leads to `pipe:[7]`.
        if is_special(&path) {
            return Ok(path);
        }
        let Ok(target) = std::fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Failure::of_path(&path, "cannot be written")("too many symlinks"))
}

/// Returns true for a device, a pipe or a socket.
pub(crate) fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn show(saved: &[Saved], session: &Session) -> Result {
    if !session.environment.stdout_is_terminal {
        session.note("standard output is no terminal, so no picture is shown");
        return Ok(());
    }
    for (_, path) in saved {
        crate::view::show(&session.here(path), session)?;
    }
    Ok(())
}
