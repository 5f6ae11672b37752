//! The same call as code to copy: the command, Rust, Python, TypeScript and curl. No code contains a key.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Map, Number, Value, json};

use crate::text::{segment, text_of};

type Files = BTreeMap<String, String>;

pub(crate) fn same_call(model: &str, inputs: &Map<String, Value>, files: &Files) -> Markup {
    let calls = [
        ("Command", command(model, inputs, files)),
        ("Rust", rust(model, inputs, files)),
        ("Python", python(model, inputs, files)),
        ("TypeScript", typescript(model, inputs, files)),
        ("curl", curl(model, inputs, files)),
    ];
    html! {
        section.card.call {
            h2 { "The same call" }
            @for (index, (name, text)) in calls.iter().enumerate() {
                details name="call" open[index == 0] {
                    summary { (name) }
                    div.code {
                        pre tabindex="0" role="group" aria-label={ "The same call: " (name) } { code { (text) } }
                        button.copy.quiet type="button" hidden { "Copy" }
                    }
                }
            }
            p.muted { "The address and the API key come from " code { "INFERSTORE_BASE_URL" } " and " code { "INFERSTORE_API_KEY" } ". The curl call creates the task; " code { "openapi/examples/run.sh" } " of the repository also waits for it. " a href="/docs" { "Reference" } }
        }
    }
}

fn command(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let words = inputs.iter().map(|(name, value)| {
        let text = text_of(value);
        let word = match files.get(name) {
            Some(file) => format!("{name}=@{file}"),
            // The command reads `@name` as a file, and `@@` as one `@`.
            None if text.starts_with('@') => format!("{name}=@{text}"),
            None => format!("{name}={text}"),
        };
        format!(" \\\n  -i {}", quoted(&word))
    });
    format!("inferstore run {}{} --out .", quoted(model), words.collect::<String>())
}

fn rust(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let calls = inputs.iter().map(|(name, value)| match (files.get(name), value) {
        (Some(file), _) => format!("\n        .file({name:?}, {file:?})"),
        (None, Value::String(text)) => format!("\n        .set({name:?}, {text:?})"),
        (None, Value::Number(number)) => format!("\n        .set({name:?}, {})", literal(number)),
        (None, Value::Bool(value)) => format!("\n        .set({name:?}, {value})"),
        (None, value) => format!("\n        .set({name:?}, serde_json::json!({value}))"),
    });
    format!(
        "use inferstore::{{Client, Error, Inputs}};\n\n#[tokio::main]\nasync fn main() -> Result<(), Error> {{\n    \
         let client = Client::from_env()?;\n    let inputs = Inputs::new(){};\n    \
         let outcome = client.model({model:?}).run(inputs).await?;\n    outcome.save_all(\"outputs\").await?;\n    \
         Ok(())\n}}",
        calls.collect::<String>()
    )
}

fn python(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let entries = inputs.iter().map(|(name, value)| {
        let value = match files.get(name) {
            Some(file) => format!("Path({})", Value::from(file.as_str())),
            None => python_literal(value),
        };
        format!("        {}: {value},\n", Value::from(name.as_str()))
    });
    format!(
        "from pathlib import Path\nfrom inferstore import Client\n\nwith Client() as client:\n    \
         outcome = client.run({}, {{\n{}    }})\n    print(client.save(outcome, \"outputs\"))",
        Value::from(model),
        entries.collect::<String>()
    )
}

fn python_literal(value: &Value) -> String {
    let joined = |texts: Vec<String>| texts.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(is_true) => if *is_true { "True" } else { "False" }.to_owned(),
        Value::Array(values) => format!("[{}]", joined(values.iter().map(python_literal).collect())),
        Value::Object(values) => {
            let entry = |(key, value)| format!("{}: {}", json!(key), python_literal(value));
            format!("{{{}}}", joined(values.iter().map(entry).collect()))
        }
        other => other.to_string(),
    }
}

fn typescript(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let entries = inputs.iter().map(|(name, value)| {
        let value = match files.get(name).map(|file| Value::from(file.as_str())) {
            Some(file) => format!("new File([await openAsBlob({file})], {file})"),
            None => value.to_string(),
        };
        format!("  {}: {value},\n", Value::from(name.as_str()))
    });
    let import = if files.is_empty() { "" } else { "import { openAsBlob } from \"node:fs\";\n" };
    format!(
        "{import}import {{ Client }} from \"inferstore\";\n\n\
         const client = new Client({{ baseUrl: process.env.INFERSTORE_BASE_URL!, apiKey: process.env.INFERSTORE_API_KEY! }});\n\
         const outcome = await client.run({}, {{\n{}}});\nconsole.log(outcome.output);",
        Value::from(model),
        entries.collect::<String>()
    )
}

/// Returns a number as a Rust literal: a large integer does not compile without its type.
fn literal(number: &Number) -> String {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) if i32::try_from(integer).is_err() => format!("{integer}_i64"),
        (None, Some(integer)) => format!("{integer}_u64"),
        _ => number.to_string(),
    }
}

const UPLOAD: &str = r#"upload() { # FILE MIME
  jq -n --arg name "${1##*/}" --arg mime "$2" --argjson size "$(wc -c < "$1")" \
    '{folder: "samples", $name, $mime, $size}' |
    curl -sS "$INFERSTORE_BASE_URL/api-key/storage/upload/create-presigned-url" \
      -H "x-api-key: $INFERSTORE_API_KEY" -H 'content-type: application/json' -d @- > target.json &&
  endpoint=$(jq -er '.data.endpoint // error(.message)' target.json) &&
  jq -r '.data.fields | fromjson | to_entries[] | "form-string = \("\(.key)=\(.value)" | tojson)"' target.json |
    curl -sS --fail-with-body --globoff -K - -F "file=@\"$1\"" "$endpoint" >&2 &&
  jq -er .data.download_url target.json
}
"#;

fn curl(model: &str, inputs: &Map<String, Value>, files: &Files) -> String {
    let given: Map<_, _> = inputs.clone().into_iter().filter(|(name, _)| !files.contains_key(name)).collect();
    let body = quoted(&serde_json::to_string_pretty(&given).unwrap_or_default());
    let task = format!(
        "curl -sS --fail-with-body --retry 5 \"$INFERSTORE_BASE_URL/api-key/model/{}/task\" \\\n  \
         -H \"idempotency-key: $(od -An -tx1 -N16 /dev/urandom | tr -d ' \\n')\" \\\n  \
         -H \"x-api-key: $INFERSTORE_API_KEY\" -H 'content-type: application/json' -d ",
        segment(model)
    );
    if files.is_empty() {
        return task + &body;
    }
    let (mut uploads, mut arguments, mut names) = (String::new(), String::new(), Vec::new());
    for (index, (name, file)) in files.iter().enumerate() {
        let mime = mime_guess::from_path(file).first_or_octet_stream();
        uploads += &format!("file{index}=$(upload {} {mime}) &&\n", quoted(file));
        arguments += &format!(" --arg file{index} \"$file{index}\"");
        names.push(format!("{}: $file{index}", Value::from(name.as_str())));
    }
    let added = quoted(&format!(". + {{{}}}", names.join(", ")));
    format!("{UPLOAD}{uploads}printf %s {body} | jq{arguments} {added} |\n  {task}@-")
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
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

    use super::{curl, python, rust, typescript};

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

    #[test]
    fn every_language_gets_values_as_it_writes_them() {
        let inputs = json!({"flag": true, "list": [null, "it's"], "photo": "FILE_URL"});
        let inputs: Map<_, _> = inputs.as_object().cloned().unwrap_or_default();
        let files = BTreeMap::from([("photo".to_owned(), "my cat.png".to_owned())]);
        let python = python("a", &inputs, &files);
        assert!(python.contains(r#""flag": True"#) && python.contains(r#"[None, "it's"]"#), "{python}");
        assert!(python.contains(r#""photo": Path("my cat.png")"#), "{python}");
        let typescript = typescript("a", &inputs, &files);
        assert!(
            typescript.contains(r#"new File([await openAsBlob("my cat.png")], "my cat.png")"#),
            "{typescript}"
        );
        let curl = curl("a", &inputs, &files);
        assert!(curl.contains("upload 'my cat.png' image/png") && !curl.contains("FILE_URL"), "{curl}");
        assert!(curl.contains(r"it'\''s"), "{curl}");
        assert_eq!(curl.matches("idempotency-key: $(").count(), 1, "{curl}");
    }
}
