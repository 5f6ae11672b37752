//! The same call: a run as a command, as Rust and as curl, ready to copy. None of them holds a key.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Map, Number, Value};

use crate::form::text_of;
use crate::pages::segment;

/// The names of the files among the inputs, which were chosen in a browser.
type Files = BTreeMap<String, String>;

/// The three calls for these inputs.
pub(crate) fn same_call(model: &str, inputs: &Map<String, Value>, files: &Files) -> Markup {
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

fn command(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let words = inputs.iter().map(|(name, value)| {
        let text = text_of(value);
        let word = match files.get(name) {
            Some(file) => format!("{name}=@{file}"),
            // One `@` in front names a file, and two of them stand for one.
            None if text.starts_with('@') => format!("{name}=@{text}"),
            None => format!("{name}={text}"),
        };
        format!(" \\\n  -i {}", quoted(&word))
    });
    format!("inferstore run {}{} --out .", quoted(model), words.collect::<String>())
}

fn rust(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let calls = inputs.iter().map(|(name, value)| match (files.get(name), value) {
        (Some(file), _) => format!("\n    .file({name:?}, {file:?})"),
        (None, Value::String(text)) => format!("\n    .set({name:?}, {text:?})"),
        (None, Value::Number(number)) => format!("\n    .set({name:?}, {})", literal(number)),
        (None, Value::Bool(value)) => format!("\n    .set({name:?}, {value})"),
        (None, value) => format!("\n    .set({name:?}, json!({value}))"),
    });
    format!(
        "let client = inferstore::Client::from_env()?;\nlet inputs = inferstore::Inputs::new(){};\n\
         let outcome = client.model({model:?}).run(inputs).await?;\noutcome.save_all(\"outputs\").await?;",
        calls.collect::<String>()
    )
}

/// A number as Rust reads it: without its type, a larger one would not compile.
fn literal(number: &Number) -> String {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) if i32::try_from(integer).is_err() => format!("{integer}_i64"),
        (None, Some(integer)) => format!("{integer}_u64"),
        _ => number.to_string(),
    }
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
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Map, json};

    use super::rust;

    #[test]
    fn a_large_number_has_its_type_in_rust() {
        for (number, literal) in [
            (json!(30), "30"),
            (json!(0.5), "0.5"),
            (json!(-3_000_000_000_i64), "-3000000000_i64"),
            (json!(u64::MAX), "18446744073709551615_u64"),
        ] {
            let inputs = Map::from_iter([("seed".to_owned(), number)]);
            let call = rust("a", &inputs, &BTreeMap::new());
            assert!(call.contains(&format!(".set(\"seed\", {literal})")), "{call}");
        }
    }
}
