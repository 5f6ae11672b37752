//! The generated methods of the TypeScript package.

use std::fmt::Write;

use anyhow::Result;
use openapi_impact::Tree;

use super::{File, Kind, Member, Operation};

impl<'a> File<'a> {
    pub(super) fn typescript_kinds(&mut self, kinds: &[Kind<'_>]) -> Result<()> {
        self.text.push_str(
            "\n/** The inputs and the output of each model kind, by the identifier of its model. */\n",
        );
        self.text.push_str("export interface Kinds {\n");
        for Kind { name, input, output } in kinds {
            writeln!(self.text, "  {name:?}: {{ input: {input}; output: {output} }};")?;
        }
        self.text.push_str("}\n");
        Ok(())
    }

    pub(super) fn typescript_operations(&mut self, document: &'a Tree) -> Result<()> {
        self.text.push_str(
            "\n/** Options of a call. */\nexport interface CallOptions {\n  body?: unknown;\n  query?: Record<string, unknown>;\n  \
             repeatable?: boolean;\n  /** The idempotency key. */\n  key?: string;\n}\n\n/** Methods that follow from the document. */\nexport abstract class Operations {\n  \
             protected abstract operation<T>(name: string, method: string, path: string, options?: CallOptions): Promise<T>;\n",
        );
        for operation in self.operations(document) {
            let Operation { id, name, method, places, named, result, secret, summary, .. } = &operation;
            let mut head: Vec<String> =
                places.iter().map(|(name, type_of)| format!("{name}: {type_of}")).collect();
            if !named.is_empty() {
                let named: Vec<String> =
                    named.iter().map(|(name, type_of)| format!("{name}?: {type_of}")).collect();
                head.push(format!("query: {{ {} }} = {{}}", named.join("; ")));
            }
            let mut path = format!("`{}`", operation.path);
            for (variable, _) in places {
                let filled = format!("${{segment(\"{variable}\", {variable})}}");
                path = path.replace(&format!("{{{variable}}}"), &filled);
            }
            let mut options = Vec::new();
            if let Some(body) = &operation.body {
                let is_required = |member: &&str| places.iter().any(|(name, _)| name == member);
                let required: Vec<&str> = body.iter().copied().filter(is_required).collect();
                let required = required.join(", ");
                options.push(match (required.is_empty(), named.is_empty()) {
                    (true, _) => "body: query".to_owned(),
                    (false, true) => format!("body: {{ {required} }}"),
                    (false, false) => format!("body: {{ {required}, ...query }}"),
                });
            }
            if !operation.query.is_empty() {
                options.push("query".to_owned());
            }
            if !operation.is_repeatable {
                options.push("repeatable: false".to_owned());
            }
            let options =
                if options.is_empty() { String::new() } else { format!(", {{ {} }}", options.join(", ")) };
            let result = result.as_deref().unwrap_or("void");
            let data: Vec<String> = secret.iter().map(Member::given).collect();
            let (of, then) = match data.is_empty() {
                true => (String::new(), String::new()),
                false => {
                    let data = data.join("; ");
                    (format!("<{{ {data} }}>"), format!(".then((data) => new {result}(data))"))
                }
            };
            write!(
                self.text,
                "\n  /** {summary} */\n  {name}({}): Promise<{result}> {{\n    return this.operation{of}({id:?}, \
                 {method:?}, {path}{options}){then};\n  }}\n",
                head.join(", ")
            )?;
        }
        self.text.push_str("}\n");
        Ok(())
    }
}
