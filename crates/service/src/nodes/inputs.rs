//! From the inputs of a task to what a model is given: files are fetched, numbers read.

use inferstore_models::{Input, Inputs};
use serde_json::{Map, Value};

use super::run::Failed;
use crate::Error;
use crate::catalog::{Format, Kind};
use crate::lifecycle::app::App;
use crate::queue::Lease;

/// The inputs of a leased task, with the contents of its files.
pub(crate) async fn gather(app: &App, lease: &Lease) -> Result<Inputs, Failed> {
    let submitted: Map<String, Value> = serde_json::from_str(&lease.input)
        .map_err(|cause| Error::new("reading the inputs of a task", cause))?;
    let declared = Format::kept(&lease.input_format)?;
    let mut inputs = Vec::new();
    for (name, value) in submitted {
        let kind = declared.get(&name).map(|descriptor| descriptor.kind);
        let input = match (kind, value) {
            (Some(Kind::File), Value::String(url)) => Input::File(fetch(app, &name, &url).await?),
            (_, Value::String(text)) => Input::Text(text),
            (_, Value::Number(number)) => Input::Number(number.as_f64().unwrap_or(f64::NAN)),
            (_, other) => Input::Text(other.to_string()),
        };
        inputs.push((name, input));
    }
    Ok(inputs.into_iter().collect())
}

/// The file behind a URL. Files of the service's own object store are read where they lie.
async fn fetch(app: &App, name: &str, url: &str) -> Result<Vec<u8>, Failed> {
    let Some((bucket, key)) = app.objects.locate(url) else {
        return app.fetcher.fetch(url).await.map_err(|why| Failed::input(format!("{name}: {why}")));
    };
    let Some(opened) = app.objects.read(&bucket, &key).await? else {
        let message = format!("{name}: there is no file at this URL; upload it first, or again");
        return Err(Failed::input(message));
    };
    Ok(opened.bytes().await?)
}
