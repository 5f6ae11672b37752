//! The places of an operation outside of the document, each written if it is not there.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use openapi_impact::snake_case;
use quote::ToTokens;
use serde_json::Value;
use syn::visit::Visit;

use super::edits::Edits;
use crate::places::{self, CALLS, CLIENT, Code, HANDLERS, NOT_YET, PROBES, TEST_KIT, WIRE};
use crate::tables::constant_case;
use crate::validate::{members, operations, resolved};

struct Handle {
    id: &'static str,
    file: &'static str,
    name: &'static str,
    checked: &'static str,
    in_calls: &'static str,
    in_probes: &'static str,
    in_wire: &'static str,
}

const HANDLES: [Handle; 4] = [
    Handle {
        id: "ModelId",
        file: "crates/client/src/resources/model.rs",
        name: "Model",
        checked: "let id = model_id(&handle.id)?;",
        in_calls: "model",
        in_probes: "&owns.model",
        in_wire: "&model(\"m-1\")",
    },
    Handle {
        id: "TaskId",
        file: "crates/client/src/run/task.rs",
        name: "Task",
        checked: "let id = handle.id;",
        in_calls: "client.task(first.id())",
        in_probes: "&owns.ended",
        in_wire: "&task(\"t-1\")",
    },
    Handle {
        id: "FolderName",
        file: "crates/client/src/resources/mod.rs",
        name: "Folder",
        checked: "let id = handle.listable()?;",
        in_calls: "folder",
        in_probes: "\"documents\"",
        in_wire: "&\"samples\".parse().expect(\"a folder has a name\")",
    },
    Handle {
        id: "",
        file: "crates/client/src/client.rs",
        name: "Client",
        checked: "",
        in_calls: "client",
        in_probes: "\"\"",
        in_wire: "",
    },
];

/// The argument of a generated method that takes the body.
const BODY: &str = "body";

/// A value for any other required argument.
const ANY_VALUE: &str = "\"1\".parse().expect(\"a value\")";

struct Method {
    arguments: Vec<(String, String)>,
    payload: String,
}

/// Adds the code that the operation lacks. `generated` is the generated client.
pub(super) fn add(edits: &mut Edits<'_>, document: &Value, id: &str, generated: &str) -> Result<()> {
    let found = operations(document).find(|(.., operation)| operation["operationId"] == id);
    let (path, method, _, operation) = found.with_context(|| {
        format!("{id} is no operation of the document: add it by hand, or name a neighbor with --like")
    })?;
    let (name, constant) = (snake_case(id), constant_case(id));
    let generated = Method::read(generated, &name)?;
    let is_of = |handle: &&Handle| generated.arguments.iter().any(|(_, kind)| kind.ends_with(handle.id));
    let handle = HANDLES.iter().find(is_of).unwrap_or(&HANDLES[3]);
    let is_id = |kind: &str| !handle.id.is_empty() && kind.ends_with(handle.id);
    let rest: Vec<_> = generated.arguments.iter().filter(|(_, kind)| !is_id(kind)).collect();
    let request = operation.get("requestBody").map(|body| example(resolved(document, body)));
    let response = example(resolved(document, &operation["responses"]["200"]));
    let lacking = Code::read(edits.root)?.lacks(path, operation);
    let lacks = |place: &str| lacking.contains(&place);

    if lacks(HANDLERS) {
        let file = sibling(edits.root, path)?;
        let argument = if path.contains('{') { ", ApiPath(_id): ApiPath" } else { "" };
        let body = if request.is_some() { ", _: ApiJson<serde_json::Value>" } else { "" };
        let route = format!("\n        .route(\"{path}\", axum::routing::{method}({name}))");
        edits.insert_in(&file, "Router::new()", "\n}", &route)?;
        edits.append(
            &file,
            &format!(
                "async fn {name}(Caller {{ .. }}: Caller{argument}{body}) -> Done {{\n    \
             Err(Failure::new(axum::http::StatusCode::NOT_IMPLEMENTED, \"{id} {NOT_YET}\"))\n}}\n"
            ),
        )?;
    }
    if lacks(CLIENT) {
        let parameters: String =
            rest.iter().map(|(name, kind)| format!(", {name}: {}", owned(kind))).collect();
        let arguments = generated.arguments.iter().map(|(name, kind)| match kind.as_str() {
            kind if is_id(kind) => "&id".to_owned(),
            kind if kind.starts_with('&') => format!("&{name}"),
            kind if kind.starts_with("Option<&") => format!("{name}.as_ref()"),
            _ => name.clone(),
        });
        let (payload, discard) = match generated.payload.as_str() {
            "NoData" => ("()".to_owned(), ".map(drop)"),
            payload => (of_the_crate(payload), ""),
        };
        let summary = operation["summary"].as_str().unwrap_or_default();
        let text = format!(
            "\n\n    /// {summary}.\n    pub fn {name}(&self{parameters}) -> BoxFuture<'static, Result<{}>> {{\n    \
             let handle = self.clone();\n    futures_util::FutureExt::boxed(async move {{\n    {}\n    let call = \
             handle.core.call(inferstore_api::operations::{constant});\n    call.send(|api| \
             api.{name}({})).await{discard}\n    }})\n    }}",
            payload,
            handle.checked,
            arguments.collect::<Vec<_>>().join(", "),
        );
        let file = format!("\nimpl {} {{\n", handle.name);
        edits.insert_in(handle.file, &file, "\n}", &text)?;
    }
    let in_wire = generated.arguments.iter().map(|(name, kind)| match kind.as_str() {
        kind if is_id(kind) => handle.in_wire.to_owned(),
        kind if kind.starts_with("Option<") => "None".to_owned(),
        _ if name == BODY => format!("&request(\"{id}\")"),
        kind => format!("{}{ANY_VALUE}", if kind.starts_with('&') { "&" } else { "" }),
    });
    if lacks(WIRE) {
        let arguments: Vec<_> = in_wire.collect();
        let call = format!(
            "sends!({name}, \"{id}\", async |client| client.{name}({}).await);\n",
            arguments.join(", ")
        );
        edits.insert(WIRE, "\n#[test]\nfn every_operation", &call)?;
    }
    if lacks(CALLS) {
        let arguments = rest.iter().map(|(name, kind)| match &request {
            _ if kind.starts_with("Option<") => "None".to_owned(),
            Some(body) if name == BODY => {
                format!("serde_json::from_value(serde_json::json!({body})).expect(\"the example\")")
            }
            _ => ANY_VALUE.to_owned(),
        });
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let call = format!("    {}.{name}({arguments}).await.expect(\"{id}\");\n", handle.in_calls);
        edits.insert(CALLS, "\n    let journal", &call)?;
    }
    if lacks(TEST_KIT) {
        let data = response.get("data").map_or_else(|| "null".to_owned(), Value::to_string);
        let arm = format!("            \"{id}\" => Some(json!({data})),\n");
        edits.insert_in(TEST_KIT, "fn perform(", "            _ => None,\n", &arm)?;
    }
    if lacks(PROBES) {
        let body = request.map_or_else(|| "None".to_owned(), |body| format!("Some(json!({body}))"));
        let arm = format!("        \"{id}\" => vec![probe({}, {body})],\n", handle.in_probes);
        edits.insert(PROBES, "        _ if !template", &arm)?;
    }
    Ok(())
}

impl Method {
    fn read(generated: &str, name: &str) -> Result<Self> {
        let file = syn::parse_file(generated).context("the generated code cannot be read")?;
        let mut finder = Finder { name, found: None };
        finder.visit_file(&file);
        let signature = finder.found.with_context(|| format!("{name} is not generated"))?;
        let arguments = signature.inputs.iter().filter_map(|argument| match argument {
            syn::FnArg::Typed(argument) => Some((plain(&argument.pat), plain(&argument.ty))),
            syn::FnArg::Receiver(_) => None,
        });
        let output = plain(&signature.output);
        let payload = output.split_once("Envelope<").and_then(|(_, rest)| rest.split_once(">>,"));
        let (payload, _) = payload.with_context(|| format!("{name} returns no envelope"))?;
        Ok(Self { arguments: arguments.collect(), payload: payload.to_owned() })
    }
}

struct Finder<'a> {
    name: &'a str,
    found: Option<syn::Signature>,
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.sig.ident == self.name {
            self.found = Some(function.sig.clone());
        }
    }
}

fn plain(tokens: &impl ToTokens) -> String {
    let text: String = tokens.to_token_stream().to_string().split_whitespace().collect();
    text.replace("'a", "")
}

fn of_the_crate(kind: &str) -> String {
    kind.replace("types::", "inferstore_api::types::")
}

fn owned(kind: &str) -> String {
    of_the_crate(&kind.replace('&', ""))
}

fn example(body: &Value) -> Value {
    let examples = &body["content"]["application/json"]["examples"];
    members(examples).next().map_or(Value::Null, |(_, example)| example["value"].clone())
}

/// The file with the most handlers whose path begins as this one does.
fn sibling(root: &Path, path: &str) -> Result<String> {
    let mut best = (0, 0, String::new());
    for entry in fs::read_dir(root.join(HANDLERS)).with_context(|| format!("cannot read {HANDLERS}"))? {
        let file = entry.with_context(|| format!("cannot read {HANDLERS}"))?.path();
        let text = places::text_of(&file)?;
        let routes = text.split('"').filter(|text| text.starts_with("/api-key/"));
        let same =
            routes.map(|route| route.split('/').zip(path.split('/')).take_while(|(a, b)| a == b).count());
        let same: Vec<usize> = same.collect();
        let longest = same.iter().copied().max().unwrap_or_default();
        let count = same.iter().filter(|length| **length == longest).count();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        best = best.max((longest, count, format!("{HANDLERS}/{name}")));
    }
    ensure!(best.0 > 0, "no handler in {HANDLERS} has a path like {path}");
    Ok(best.2)
}
