//! The same call: a run as a command, as Rust and as curl, ready to copy. None of them holds a key.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::files::FileName;
use crate::form::text_of;
use crate::pages::segment;

/// The three calls for these inputs. Files that were chosen in a browser go by their names.
pub(crate) fn same_call(
    model: &str,
    inputs: &Map<String, Value>,
    files: &BTreeMap<String, FileName>,
) -> Markup {
    let calls = [
        ("Command", command(model, inputs, files)),
        ("Rust", rust(model, inputs, files)),
        ("curl", curl(model, inputs)),
    ];
    html! {
        section.card.call {
            h2 { "The same call" }
            @for (index, (name, text)) in calls.iter().enumerate() {
                details name="call" open[index == 0] {
                    summary { (name) }
                    div.code {
                        pre tabindex="0" aria-label={ "The same call: " (name) } { code { (text) } }
                        button.copy.quiet type="button" hidden { "Copy" }
                    }
                }
            }
            p.muted { "The API key comes from " code { "INFERSTORE_API_KEY" } ". " a href="/docs" { "Reference" } }
        }
    }
}

fn command(model: &str, inputs: &Map<String, Value>, files: &BTreeMap<String, FileName>) -> String {
    let mut command = format!("inferstore run {}", quoted(model));
    for (name, value) in inputs {
        let word = match files.get(name) {
            Some(file) => format!("{name}=@{}", file.name),
            // An `@` in front names a file, and two of them stand for one.
            None => format!(
                "{name}={}",
                text_of(value).replacen('@', "@@", usize::from(text_of(value).starts_with('@')))
            ),
        };
        command.push_str(&format!(" \\\n  -i {}", quoted(&word)));
    }
    command + " --out ."
}

fn rust(model: &str, inputs: &Map<String, Value>, files: &BTreeMap<String, FileName>) -> String {
    let mut code =
        "let client = inferstore::Client::from_env()?;\nlet inputs = inferstore::Inputs::new()".to_owned();
    for (name, value) in inputs {
        let call = match (files.get(name), value) {
            (Some(file), _) => format!("file({name:?}, {:?})", file.name),
            (None, Value::Array(_) | Value::Object(_) | Value::Null) => {
                format!("set({name:?}, json!({value}))")
            }
            (None, Value::String(text)) => format!("set({name:?}, {text:?})"),
            (None, value) => format!("set({name:?}, {value})"),
        };
        code.push_str(&format!("\n    .{call}"));
    }
    code + &format!(
        ";\nlet outcome = client.model({model:?}).run(inputs).await?;\noutcome.save_all(\"outputs\").await?;"
    )
}

fn curl(model: &str, inputs: &Map<String, Value>) -> String {
    let body = serde_json::to_string_pretty(inputs).unwrap_or_default();
    format!(
        "curl \"$INFERSTORE_BASE_URL/api-key/model/{}/task\" \\\n  -H \"x-api-key: $INFERSTORE_API_KEY\" \\\n  \
         -H 'content-type: application/json' \\\n  -d {}",
        segment(model),
        quoted(&body)
    )
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=@./:,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
