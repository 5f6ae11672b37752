//! The generated methods of the Python package.

use std::fmt::Write;

use anyhow::Result;
use openapi_impact::Tree;

use super::{File, Kind, Member, Operation};

impl<'a> File<'a> {
    /// A base class with an overload of each method for each kind.
    pub(super) fn python_methods(&mut self, kinds: &[Kind<'_>], class: &str, prefix: &str) -> Result<()> {
        write!(self.text, "\n\nclass {class}:\n    \"\"\"Methods for the kinds of the document.\"\"\"\n")?;
        for (method, options, documentation) in [
            (
                "run",
                "RunOptions",
                "Uploads the files, creates the task at most once, waits for it, and returns its outcome.",
            ),
            ("create_once", "CreateOptions", "Creates the task at most once, and returns its identifier."),
        ] {
            let result =
                |output: &str| if method == "run" { format!("Outcome[{output}]") } else { "str".to_owned() };
            let mut overload = |model: &str, inputs: &str, output: &str| {
                write!(
                    self.text,
                    "\n    @overload\n    {prefix}def {method}(\n        self, model: {model}, inputs: {inputs}, \
                     **options: Unpack[{options}]\n    ) -> {}: ...\n",
                    result(output)
                )
            };
            for Kind { name, input, output } in kinds {
                overload(&format!("Literal[{name:?}]"), input, output)?;
            }
            overload("ModelId", "Mapping[str, Any]", "Any")?;
            let wait = if prefix.is_empty() { "" } else { "await " };
            write!(
                self.text,
                "\n    {prefix}def {method}(self, model: str, inputs: Mapping[str, Any], **options: Any) -> {}:\n        \
                 \"\"\"{documentation}\"\"\"\n        return {wait}self._{method}(model, inputs, **options)\n\n    \
                 {prefix}def _{method}(\n        self, /, model: str, inputs: Mapping[str, Any], **options: Any\n    \
                 ) -> {}:\n        raise NotImplementedError\n",
                result("Any"),
                result("Any")
            )?;
        }
        Ok(())
    }

    pub(super) fn python_operations(&mut self, document: &'a Tree, class: &str, prefix: &str) -> Result<()> {
        write!(self.text, "\n\nclass {class}:\n    \"\"\"Methods that follow from the document.\"\"\"\n")?;
        let wait = if prefix.is_empty() { "" } else { "await " };
        write!(
            self.text,
            "\n    @abstractmethod\n    {prefix}def _operation(\n        self, /, name: str, method: str, path: str, \
             **options: Unpack[CallOptions]\n    ) -> Any: ...\n"
        )?;
        for operation in self.operations(document) {
            let Operation { id, method, places, result, secret, summary, .. } = &operation;
            let name = openapi_impact::snake_case(operation.name);
            let mut head: String =
                places.iter().map(|(name, type_of)| format!(", {name}: {type_of}")).collect();
            if !operation.named.is_empty() {
                head.push_str(", *");
                operation.named.iter().for_each(|(name, type_of)| {
                    let (name, type_of) =
                        (openapi_impact::snake_case(name), type_of.trim_end_matches(" | None"));
                    head.push_str(&format!(", {name}: {type_of} | None = None"));
                });
            }
            let object = |members: &[&str]| {
                let members =
                    members.iter().map(|name| format!("{name:?}: {}", openapi_impact::snake_case(name)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            };
            let mut path = format!("{:?}", operation.path);
            for (variable, _) in places {
                let filled = format!("{{segment('{variable}', {variable})}}");
                path = path.replace(&format!("{{{variable}}}"), &filled);
            }
            let mark = if path.contains('{') { "f" } else { "" };
            let body = operation.body.as_ref().map(|body| format!(", json_body={}", object(body)));
            let body = body.unwrap_or_default();
            let query = match operation.query.is_empty() {
                true => String::new(),
                false => format!(", query={}", object(&operation.query)),
            };
            let once = if operation.is_repeatable { "" } else { ", repeatable=False" };
            let call = format!("{wait}self._operation({id:?}, {method:?}, {mark}{path}{body}{query}{once})");
            let call = match result {
                Some(result) if !secret.is_empty() => {
                    let member = |Member { name, is_required, .. }: &Member<'_>| match is_required {
                        true => format!("data[{name:?}]"),
                        false => format!("data.get({name:?})"),
                    };
                    let members: Vec<String> = secret.iter().map(member).collect();
                    format!("data = {call}\n        return {result}({})", members.join(", "))
                }
                Some(result) => format!("data: {result} = {call}\n        return data"),
                None => call,
            };
            let result = result.as_deref().unwrap_or("None");
            let summary = format!("\"\"\"{summary}\"\"\"");
            write!(
                self.text,
                "\n    {prefix}def {name}(self{head}) -> {result}:\n        {summary}\n        {call}\n"
            )?;
        }
        Ok(())
    }
}
