//! Additions to the text of the document: everything else in it stays as it is written.

use anyhow::{Context, Result, bail, ensure};
use openapi_impact::pascal_case;

use crate::document::{Document, Pointer};
use crate::validate::{members, operations, resolved};

const DECISION: &str = "†";

/// A line that the text no longer has. No line of YAML has this character.
const REMOVED: &str = "\0";

/// The document with the blocks to insert, each with the index of the line that it stands before.
pub(crate) struct Yaml {
    document: Document,
    lines: Vec<String>,
    insertions: Vec<(usize, String)>,
}

impl Yaml {
    pub(crate) fn of(document: Document) -> Self {
        let lines = document.text.lines().map(str::to_owned).collect();
        Self { document, lines, insertions: Vec::new() }
    }

    pub(crate) fn text(mut self) -> String {
        // From the last one on, so that the places of the others stay.
        self.insertions.sort_by_key(|(index, _)| *index);
        for (index, block) in self.insertions.into_iter().rev() {
            self.lines.insert(index, block);
        }
        self.lines.retain(|line| line != REMOVED);
        self.lines.join("\n") + "\n"
    }

    pub(super) fn add_field(&mut self, schema: &str, name: &str, kind: &str, text: &str) -> Result<()> {
        let pointer = self.schema(schema)?;
        let value = self.value(&pointer);
        ensure!(value["properties"].get(name).is_none(), "{schema} has {name} already");
        // Objects of responses are open; their optional properties may be null.
        let is_nullable = value["additionalProperties"] == true;
        self.add_property(&pointer.at("properties"), name, &type_lines(kind), is_nullable, text)
    }

    pub(crate) fn add_property(
        &mut self,
        properties: &Pointer,
        name: &str,
        kind: &[String],
        is_nullable: bool,
        text: &str,
    ) -> Result<()> {
        let block = self.block(properties)?;
        let indent = indent_of(&self.lines[block.start]) + 2;
        let mut property = format!("{:indent$}{}:", "", quoted(name));
        let nullable = is_nullable.then_some("nullable: true");
        for line in kind.iter().map(String::as_str).chain(nullable) {
            property += &format!("\n{:indent$}  {line}", "");
        }
        property +=
            &format!("\n{:indent$}  description: |\n{:indent$}    {DECISION} {}", "", "", sentence(text));
        self.insertions.push((block.end, property));
        Ok(())
    }

    pub(crate) fn add_line(&mut self, pointer: &Pointer, line: &str) -> Result<()> {
        let start = self.block(pointer)?.start;
        let indent = indent_of(&self.lines[start]) + 2;
        self.insertions.push((start + 1, format!("{:indent$}{line}", "")));
        Ok(())
    }

    pub(crate) fn set_type(&mut self, pointer: &Pointer, kind: &str) -> Result<()> {
        let mut block = self.block(pointer)?;
        let Some(at) = block.clone().find(|at| self.lines[*at].trim_start().starts_with("type: ")) else {
            return Ok(());
        };
        let indent = indent_of(&self.lines[at]);
        let format = format!("{:indent$}format: ", "");
        if let Some(format) = block.find(|at| self.lines[*at].starts_with(&format)) {
            self.lines[format] = REMOVED.to_owned();
        }
        let lines = type_lines(kind).into_iter().map(|line| format!("{:indent$}{line}", ""));
        self.lines[at] = lines.collect::<Vec<_>>().join("\n");
        Ok(())
    }

    pub(crate) fn add_word(
        &mut self,
        pointer: &Pointer,
        word: &str,
        meaning: &str,
        is_terminal: bool,
    ) -> Result<()> {
        let value = self.value(pointer);
        let has_meanings = value["description"].as_str().is_some_and(|text| text.contains("\n- `"));
        let list = ["x-extensible-enum", "enum"].into_iter().find(|key| value.get(key).is_some());
        let list = list.with_context(|| format!("{pointer} has no list of words"))?;
        self.add_item(&pointer.at(list), word)?;
        if is_terminal {
            self.add_item(&pointer.at("x-terminal"), word)?;
        }
        if has_meanings {
            let description = self.block(&pointer.at("description"))?;
            let indent = indent_of(&self.lines[description.start]) + 2;
            let terminal = if is_terminal { " Terminal." } else { "" };
            let item = format!("{:indent$}- `{word}`: {DECISION} {}{terminal}", "", sentence(meaning));
            self.insertions.push((description.end, item));
        }
        Ok(())
    }

    fn add_item(&mut self, pointer: &Pointer, item: &str) -> Result<()> {
        let item = quoted(item);
        let block = self.block(pointer)?;
        let line = &mut self.lines[block.start];
        if let Some(start) = line.strip_suffix(']') {
            *line = format!("{start}, {item}]");
        } else {
            let indent = indent_of(&self.lines[block.end - 1]);
            self.insertions.push((block.end, format!("{:indent$}- {item}", "")));
        }
        Ok(())
    }

    pub(super) fn add_operation(&mut self, id: &str, like: &str, path: &str, summary: &str) -> Result<()> {
        let root = &self.document.value;
        ensure!(
            operations(root).all(|(.., operation)| operation["operationId"] != id),
            "{id} is there already"
        );
        let found = operations(root).find(|(.., operation)| operation["operationId"] == like);
        let (old_path, method, _, operation) =
            found.with_context(|| format!("there is no operation {like}"))?;
        let parameters =
            |path: &str| path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        let [new, old]: [Vec<String>; 2] = [path, old_path].map(parameters);
        ensure!(new == old, "{path} has other parameters than {old_path}, the path of {like}");
        let response = reference(&operation["responses"]["200"]).context("the neighbor has no 200")?;
        let schema = &resolved(root, &operation["responses"]["200"])["content"]["application/json"]["schema"];
        let envelope = reference(schema).context("the success of the neighbor has no named schema")?;
        let payload = reference(&resolved(root, schema)["properties"]["data"]);
        let record = pascal_case(id.trim_start_matches(|letter: char| letter.is_lowercase()));
        let new_response = format!("{}Success", pascal_case(id));

        let (path_item, is_new_path) = match root["paths"].get(path) {
            Some(item) if item.get(method).is_some() => bail!("{path} has a {method} already"),
            Some(_) => (path.to_owned(), false),
            None => (old_path.to_owned(), true),
        };
        let mut block = self.copy_described(&Pointer::of(&["paths", old_path, method]), summary)?;
        let old_summary = operation["summary"].as_str().unwrap_or_default();
        for (from, to) in [
            (format!("operationId: {like}"), format!("operationId: {id}")),
            (format!("summary: {old_summary}"), format!("summary: {summary}")),
            (format!("responses/{response}\""), format!("responses/{new_response}\"")),
        ] {
            block = block.replace(&from, &to);
        }
        block = with_path(&block, old_path, path);
        if is_new_path {
            let parameters = Pointer::of(&["paths", old_path, "parameters"]);
            let parameters = if root["paths"][old_path].get("parameters").is_some() {
                self.copy(&parameters)? + "\n"
            } else {
                String::new()
            };
            block = format!("\n  {path}:\n{parameters}{block}");
        }
        let end = self.block(&Pointer::of(&["paths", &path_item]))?.end;
        self.insertions.push((end, block));

        let (response, envelope) = (response.to_owned(), envelope.to_owned());
        let payload = payload.map(str::to_owned).filter(|_| !record.is_empty());
        let schemas = &self.document.value["components"]["schemas"];
        let mut names = vec![(response.clone(), new_response)];
        if let Some(payload) = &payload {
            for name in [format!("{record}Response"), record.clone()] {
                ensure!(
                    schemas.get(&name).is_none(),
                    "the schema {name} is there already: choose another operationId"
                );
            }
            names
                .extend([(envelope.clone(), format!("{record}Response")), (payload.clone(), record.clone())]);
        }
        let pointer = |section: &str, name: &str| Pointer::of(&["components", section, name]);
        let mut copies = vec![(pointer("responses", &response), false)];
        if let Some(payload) = &payload {
            copies.extend([(pointer("schemas", &envelope), false), (pointer("schemas", payload), true)]);
        }
        for (pointer, is_described) in copies {
            let block =
                if is_described { self.copy_described(&pointer, summary)? } else { self.copy(&pointer)? };
            // A title in a schema names a type as well.
            let title = if is_described { format!("title: {record}") } else { "title: ".to_owned() };
            let block = replaced(block, &names).replace("title: ", &title);
            self.insertions.push((self.block(&pointer)?.end, block));
        }
        Ok(())
    }

    pub(super) fn add_kind(&mut self, name: &str, like: &str, text: &str) -> Result<()> {
        let schemas = &self.document.value["components"]["schemas"];
        let of_kind =
            |kind: &str| members(schemas).find(|(_, schema)| schema["x-model-kind"]["name"] == *kind);
        ensure!(of_kind(name).is_none(), "the model kind {name} is there already");
        let (input, schema) = of_kind(like).with_context(|| format!("there is no model kind {like}"))?;
        let output = schema["x-model-kind"]["output"].as_str().context("the neighbor has no output")?;
        let [old, new] = [like, name].map(|kind| kind.replace('-', " "));
        let title = new[..1].to_uppercase() + &new[1..];
        let pascal = pascal_case(&name.replace('-', "_"));
        let names = [
            (input.to_owned(), format!("{pascal}Input")),
            (output.to_owned(), format!("{pascal}Output")),
            (like.to_owned(), name.to_owned()),
            (old, new),
        ];
        let input = self.copy_described(&schema_pointer(input), &format!("{DECISION} {text}"))?;
        let input = input.replacen(&format!("{DECISION} "), &format!("{title}. "), 1);
        let output = schema_pointer(output);
        let blocks = [input, self.copy(&output)?].map(|block| replaced(block, &names)).join("\n");
        self.insertions.push((self.block(&output)?.end, blocks));
        Ok(())
    }

    pub(super) fn schema(&self, name: &str) -> Result<Pointer> {
        let pointer = schema_pointer(name);
        ensure!(!self.value(&pointer).is_null(), "there is no schema {name} in the document");
        Ok(pointer)
    }

    fn value(&self, pointer: &Pointer) -> &serde_json::Value {
        pointer.keys().iter().fold(&self.document.value, |value, key| &value[key.as_str()])
    }

    fn copy(&self, pointer: &Pointer) -> Result<String> {
        Ok(self.lines[self.block(pointer)?].join("\n"))
    }

    fn copy_described(&self, pointer: &Pointer, text: &str) -> Result<String> {
        let old = self.block(&pointer.at("description"))?;
        let indent = indent_of(&self.lines[old.start]);
        let new = format!("{:indent$}description: |\n{:indent$}  {DECISION} {}", "", "", sentence(text));
        Ok(self.copy(pointer)?.replacen(&self.lines[old].join("\n"), &new, 1))
    }

    /// The lines of a pointer: its key, and what is indented below it.
    fn block(&self, pointer: &Pointer) -> Result<std::ops::Range<usize>> {
        let start =
            self.document.index(pointer).with_context(|| format!("there is no {pointer} in the document"))?;
        let indent = indent_of(&self.lines[start]);
        let is_below = |line: &String| line.trim().is_empty() || indent_of(line) > indent;
        let mut end = start + 1 + self.lines[start + 1..].iter().take_while(|line| is_below(line)).count();
        while self.lines[end - 1].trim().is_empty() {
            end -= 1;
        }
        Ok(start..end)
    }
}

pub(crate) fn type_lines(kind: &str) -> Vec<String> {
    let (kind, format) = match kind {
        "null" | "object" | "array" => return Vec::new(),
        "integer" => (kind, Some("int64")),
        "number" => (kind, Some("double")),
        "date-time" => ("string", Some(kind)),
        _ => (kind, None),
    };
    let format = format.map(|format| format!("format: {format}"));
    [format!("type: {kind}")].into_iter().chain(format).collect()
}

/// The text as YAML: in quotes where it would be read as something else, such as `off`.
fn quoted(text: &str) -> String {
    let read: Option<serde_json::Value> = serde_saphyr::from_str(&format!("[{text}]")).ok();
    if read == Some(serde_json::json!([text])) { text.to_owned() } else { format!("{text:?}") }
}

fn schema_pointer(name: &str) -> Pointer {
    Pointer::of(&["components", "schemas", name])
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn reference(value: &serde_json::Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

fn replaced(text: String, names: &[(String, String)]) -> String {
    names.iter().fold(text, |text, (old, new)| {
        let mut parts = text.split(old.as_str());
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_whole =
                !replaced.ends_with(char::is_alphanumeric) && !part.starts_with(char::is_alphanumeric);
            replaced += if is_whole { new } else { old };
            replaced += part;
        }
        replaced
    })
}

/// The block with the path of its curl sample replaced; the values of the parameters stay.
fn with_path(block: &str, old: &str, new: &str) -> String {
    const BASE: &str = "$BASE_URL";
    let Some((before, rest)) = block.split_once(BASE) else { return block.to_owned() };
    let end = rest.find(['"', '?', ' ']).unwrap_or(rest.len());
    let sent: Vec<&str> = rest[..end].split('/').collect();
    let parameters = old.split('/').zip(sent).filter(|(part, _)| part.starts_with('{'));
    let filled = parameters.fold(new.to_owned(), |path, (parameter, value)| path.replace(parameter, value));
    format!("{before}{BASE}{filled}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_text_that_yaml_reads_as_something_else_is_quoted() {
        assert_eq!(["rank", "two words"].map(quoted), ["rank", "two words"]);
        assert_eq!(["y", "off", "1", "a, b"].map(quoted), ["\"y\"", "\"off\"", "\"1\"", "\"a, b\""]);
    }
}
