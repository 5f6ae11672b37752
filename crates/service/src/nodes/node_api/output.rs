//! Validation of outputs from a node against the declaration of the task's model version.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::{Entries, Format, Kind, check_output};
use crate::http::response::Failure;
use crate::nodes::Nodes;
use crate::nodes::OUTPUTS;

pub(super) type Outputs = Entries<Box<RawValue>>;

pub(in crate::nodes) fn check_file(declared: &Format, file: &str, mime: &str) -> Result<(), String> {
    let name = file.split('.').next().unwrap_or_default();
    let Some(descriptor) = declared.get(name).filter(|descriptor| descriptor.kind == Kind::File) else {
        return Err(format!(
            "a file is called by an output that is a file, such as output.png; {name:?} is none"
        ));
    };
    let ending = file.strip_prefix(name).unwrap_or_default();
    if ending.len() > 20 || !ending.bytes().all(|byte| byte == b'.' || byte.is_ascii_alphanumeric()) {
        return Err("the end of a file's name has letters and digits, and not many of them".to_owned());
    }
    match &descriptor.mime_type {
        Some(patterns) if !patterns.iter().any(|pattern| fits(pattern, mime)) => {
            Err(format!("{name} is declared as {}, and this file is {mime}", patterns.join(", ")))
        }
        _ => Ok(()),
    }
}

fn fits(pattern: &str, mime: &str) -> bool {
    let essence = mime.split(';').next().unwrap_or_default().trim();
    match pattern.split_once('/') {
        Some(("*", "*")) => true,
        Some((category, "*")) => {
            essence.split_once('/').is_some_and(|(own, _)| own.eq_ignore_ascii_case(category))
        }
        _ => essence.eq_ignore_ascii_case(pattern),
    }
}

/// Checks that exactly the declared outputs are present, and that each file was stored under this lease,
/// `<task>/<attempt>`. Returns the outputs as JSON in the order of their declaration, and the keys of the files.
pub(super) async fn check(
    nodes: &Nodes,
    declared: &Format,
    lease: &str,
    outputs: &Outputs,
) -> Result<(String, Vec<String>), Failure> {
    for (name, _) in &outputs.0 {
        if declared.get(name).is_none() {
            let name: String = name.chars().take(80).collect();
            return Err(Failure::unprocessable(format!("{name:?} is no output of this task")));
        }
    }
    let mut written = Vec::new();
    let mut files = Vec::new();
    for (name, descriptor) in declared.parameters() {
        let value = outputs.get(name).ok_or_else(|| missing(name))?;
        check_output(descriptor, value.get())
            .map_err(|complaint| Failure::unprocessable(format!("the output {name} {complaint}")))?;
        if descriptor.kind == Kind::File {
            files.push(check_url(nodes, name, value.get(), lease).await?);
        }
        written.push(format!("{}:{value}", Value::from(name)));
    }
    Ok((format!("{{{}}}", written.join(",")), files))
}

async fn check_url(nodes: &Nodes, name: &str, value: &str, lease: &str) -> Result<String, Failure> {
    let refused = || {
        Failure::unprocessable(format!(
            "the output {name} must be the URL of a file that was put for this lease"
        ))
    };
    let url: String = serde_json::from_str(value).map_err(|_| refused())?;
    let (bucket, key) = nodes.objects.locate(&url).await?.ok_or_else(refused)?;
    let file = key.strip_prefix(lease).and_then(|file| file.strip_prefix('/')).ok_or_else(refused)?;
    let is_own = bucket == OUTPUTS && file.split('.').next() == Some(name);
    if is_own && nodes.database.object(&bucket, &key).await?.is_some() { Ok(key) } else { Err(refused()) }
}

fn missing(name: &str) -> Failure {
    Failure::unprocessable(format!("the output {name} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_of_an_output_a_short_plain_end_and_a_declared_type() -> Result<(), crate::Error> {
        let declared = r#"{
            "picture": {"type": "file", "position": 0, "mime_type": ["image/*"]},
            "text": {"type": "string", "position": 1},
            "any": {"type": "file", "position": 2, "mime_type": ["*/*"]}
        }"#;
        let declared = Format::kept(declared)?;
        let longest = format!("picture.{}", "a".repeat(19));
        for (file, mime, is_accepted) in [
            ("picture.png", "image/png", true),
            ("picture.tar.gz", "IMAGE/webp; q=1", true),
            (&*longest, "image/png", true),
            (&*format!("{longest}a"), "image/png", false),
            (&*format!("{longest}{}", "a".repeat(20)), "image/png", false),
            ("picture.p-g", "image/png", false),
            ("text.txt", "text/plain", false),
            ("other.png", "image/png", false),
            ("picture.txt", "text/plain", false),
            ("any.txt", "text/plain", true),
        ] {
            assert_eq!(check_file(&declared, file, mime).is_ok(), is_accepted, "{file} {mime}");
        }
        Ok(())
    }
}
