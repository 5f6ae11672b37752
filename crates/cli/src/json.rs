//! JSON as text with every digit of the service: on one line, indented in color, reduced to fields, or filtered by jq.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use inferstore::is_unprintable;
use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Exn, Vars, compile};
use jaq_json::write::{Pp, Styles, write};
use jaq_json::{Val, read};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::table::printable;

/// JSON without line breaks, which stand only between its values.
pub(crate) fn on_one_line(json: &str) -> String {
    json.lines().map(str::trim).collect()
}

/// JSON with a value on each line, colored if asked. What is no JSON, or too deep, stays as it is.
pub(crate) fn indented(json: &str, has_color: bool) -> String {
    let mut layout = Pp { indent: Some("  ".to_owned()), sep_space: true, ..Pp::default() };
    if has_color {
        // Null, false, true, numbers, texts, and, behind the brackets of lists and objects, names.
        layout.styles = Styles::default().parse("2:36:36:36:32:::1;34");
        "\x1b[0m".clone_into(&mut layout.styles.reset);
    }
    let mut text = Vec::new();
    let is_json = serde_json::from_str::<serde_json::Value>(json).is_ok();
    let value = read::parse_single(json.as_bytes()).ok().filter(|_| is_json);
    if value.is_none_or(|value| write(&mut text, &layout, 0, &value).is_err()) {
        return json.lines().map(printable).collect::<Vec<_>>().join("\n");
    }
    // A control character of a text is escaped already. Others could steer a terminal, such as C1 and marks of direction.
    let is_shown = |c: char| matches!(c, '\n' | '\x1b') || !is_unprintable(c);
    let shown = |c: char| if is_shown(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    String::from_utf8_lossy(&text).chars().map(shown).collect()
}

/// The objects with these fields alone, in this order. A field that another of the records has, or that is documented
/// for them, is null where it is left out; any other field is an error.
pub(crate) fn select(records: &[String], fields: &[String], documented: &[&str]) -> Result<Vec<String>> {
    let members = |record: &String| {
        serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(record).map_err(|_| {
            Failure::usage("this output has no fields").with_hint("leave the fields of --json out")
        })
    };
    let records: Vec<_> = records.iter().map(members).collect::<Result<_>>()?;
    let mut known: BTreeSet<&str> = documented.iter().copied().collect();
    known.extend(records.iter().flat_map(BTreeMap::keys).map(String::as_str));
    // A list without records shows nothing of its fields.
    if !records.is_empty() {
        check_fields(fields, &known)?;
    }
    let selected = records.iter().map(|record| {
        let members = fields.iter().map(|field| {
            let value = record.get(field).map_or("null", |value| value.get());
            format!("{}:{value}", serde_json::Value::from(field.as_str()))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    });
    Ok(selected.collect())
}

pub(crate) fn check_fields(fields: &[String], known: &BTreeSet<&str>) -> Result {
    let Some(field) = fields.iter().find(|field| !known.contains(field.as_str())) else { return Ok(()) };
    let known: Vec<&str> = known.iter().copied().collect();
    Err(Failure::usage(format!("there is no field {field:?}"))
        .with_hint(format!("the fields are: {}", known.join(", "))))
}

type Filter = jaq_core::Filter<JustLut<Val>>;

fn wrong(expression: &str, problem: &str) -> Failure {
    Failure::usage(format!("the jq expression {expression:?} cannot be used: {problem}")).with_hint(
        "such as --jq '.records[].task_id' for a list, '.[].task_id' with --json=task_id, '.status' for one",
    )
}

/// The program of a jq expression. It fails on input that does not fit, too.
pub(crate) fn compiled(expression: &str) -> Result<Filter> {
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let program = File { code: expression, path: () };
    let modules = Loader::new(definitions).load(&arena, program);
    let modules = modules.map_err(|errors| wrong(expression, &invalid(&errors)))?;
    let compiled = Compiler::default().with_funs(functions).compile(modules);
    compiled.map_err(|errors| wrong(expression, &undefined(&errors)))
}

fn invalid(errors: &load::Errors<&str, ()>) -> String {
    let first = match errors.first().map(|(_, error)| error) {
        Some(load::Error::Lex(errors)) => errors.first().map(|(expected, rest)| (expected.as_str(), *rest)),
        Some(load::Error::Parse(errors)) => errors.first().map(|(expected, rest)| (expected.as_str(), *rest)),
        _ => None,
    };
    let (expected, rest) = first.unwrap_or_default();
    let place = if rest.is_empty() { "the end".to_owned() } else { format!("{rest:?}") };
    format!("it is not valid: expected {expected} at {place}")
}

fn undefined(errors: &compile::Errors<&str, ()>) -> String {
    let first = errors.first().and_then(|(_, errors)| errors.first());
    first.map_or_else(String::new, |(name, kind)| format!("there is no {} {name:?}", kind.as_str()))
}

/// The type of a JSON value, with the first fields of an object.
fn type_of(json: &str) -> String {
    const MAX_FIELDS: usize = 12;
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(serde_json::Value::Object(fields)) => {
            let names: Vec<&str> = fields.keys().take(MAX_FIELDS).map(String::as_str).collect();
            format!("an object with {}", names.join(", "))
        }
        Ok(serde_json::Value::Array(values)) => format!("a list of {}", values.len()),
        Ok(serde_json::Value::String(_)) => "a text".to_owned(),
        _ => "a single value".to_owned(),
    }
}

/// The message of jq without values, which may be long or secret. The key after ` with ` and a raised text are shown.
fn reason(message: &str) -> String {
    const MAX_RAISED: usize = 200;
    if let Ok(raised) = serde_json::from_str::<String>(message) {
        return printable(&raised).chars().take(MAX_RAISED).collect();
    }
    let mut shown = String::new();
    let mut rest = message;
    while let Some(start) = rest.find(['{', '[', '"']) {
        let (words, value) = rest.split_at(start);
        shown.push_str(words);
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<IgnoredAny>();
        // What is not JSON is hidden with all that follows.
        let is_json = values.next().is_some_and(|value| value.is_ok());
        let length = if is_json { values.byte_offset() } else { value.len() };
        let (value, behind) = value.split_at(length);
        shown.push_str(if shown.ends_with(" with ") { value } else { "…" });
        rest = behind;
    }
    printable(&(shown + rest))
}

/// The most memory for what a filter makes of small JSON, in bytes: an expression such as `repeat(.)` has no end.
const MAX_FILTERED: usize = 64 << 20;

/// The values that a jq expression makes of the JSON; texts without quotes, as `jq -r` prints them.
pub(crate) fn filtered(json: &str, expression: &str) -> Result<Vec<String>> {
    let failed = |error: &dyn std::fmt::Display| {
        wrong(expression, &format!("{}; the JSON is {}", reason(&error.to_string()), type_of(json)))
    };
    let filter = compiled(expression)?;
    let input = read::parse_single(json.as_bytes()).map_err(|error| failed(&error))?;
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let (mut values, mut size) = (Vec::new(), 0);
    for value in filter.id.run((context, input)) {
        let value = match value.map_err(Exn::get_err) {
            Ok(value) => value.to_string(),
            Err(Ok(error)) => return Err(failed(&error)),
            Err(Err(halt)) => match halt.get_halt() {
                Ok(0) => break,
                _ => return Err(wrong(expression, "it halts; `error(\"why\")` fails with a message")),
            },
        };
        size += size_of::<String>() + value.len();
        if size > MAX_FILTERED.max(4 * json.len()) {
            return Err(wrong(expression, "its output has no end, or is far larger than the JSON"));
        }
        values.push(serde_json::from_str::<String>(&value).unwrap_or(value));
    }
    Ok(values)
}

/// The members of a JSON object. A name that is given twice is an error.
pub(crate) struct Members<T>(pub(crate) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            if self.0.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format_args!("{name:?} is given twice")));
            }
            self.0.push((name, value));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "{\n  \"a b\": 1.50,\n  \"c\": \"x \\\" y\\\\\", \"d\": [ ]\n}";

    #[test]
    fn a_filter_without_an_end_is_refused() {
        let text = format!("{:?}", "x".repeat(100_000));
        assert!(filtered(&text, "repeat(.)").is_err_and(|failure| failure.headline.contains("no end")));
    }

    #[test]
    fn a_filter_that_halts_ends_no_program() {
        assert_eq!(filtered("1", "., halt, 2").ok(), Some(vec!["1".to_owned()]));
        assert!(filtered("1", "halt_error").is_err_and(|failure| failure.headline.contains("it halts")));
    }

    #[test]
    fn a_record_goes_onto_one_line_and_keeps_its_texts() {
        assert_eq!(on_one_line(RECORD), r#"{"a b": 1.50,"c": "x \" y\\", "d": [ ]}"#);
    }

    #[test]
    fn indented_json_keeps_every_digit_and_steers_no_terminal() {
        let text = indented("{\"a\":[1.50000000000000000001,{}],\"b\":\"x\u{9b}2J\u{200f}\"}", false);
        assert_eq!(
            text,
            "{\n  \"a\": [\n    1.50000000000000000001,\n    {}\n  ],\n  \"b\": \"x\\u009b2J\\u200f\"\n}"
        );
        assert!(indented(RECORD, true).contains("\u{1b}[1;34m\"a b\"\u{1b}[0m: \u{1b}[36m1.50"));
    }

    #[test]
    fn fields_are_selected_in_the_order_that_was_asked_for() {
        let fields = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        let select = |records: &[&str], names: &[&str]| {
            let records: Vec<String> = records.iter().map(|record| (*record).to_owned()).collect();
            select(&records, &fields(names), &["documented"])
        };
        let selected =
            |records: &[&str], names: &[&str]| select(records, names).ok().map(|all| all.join("\n"));
        assert_eq!(selected(&[RECORD], &["d", "a b"]).as_deref(), Some(r#"{"d":[ ],"a b":1.50}"#));
        assert_eq!(selected(&[RECORD], &["documented"]).as_deref(), Some(r#"{"documented":null}"#));
        let of_one = selected(&[r#"{"a":1,"b":2}"#, r#"{"a":3}"#], &["b"]);
        assert_eq!(of_one.as_deref(), Some("{\"b\":2}\n{\"b\":null}"));
        assert_eq!(selected(&[], &["e"]).as_deref(), Some(""), "an empty list shows no fields");
        let unknown = select(&[RECORD], &["e"]).err().and_then(|failure| failure.hint);
        assert_eq!(unknown.as_deref(), Some("the fields are: a b, c, d, documented"));
    }

    #[test]
    fn a_jq_expression_prints_texts_without_quotes() {
        let values =
            filtered(r#"{"records":[{"id":"a","n":1.50},{"id":"b","n":2}]}"#, ".records[] | .id, .n");
        assert_eq!(values.ok(), Some(["a", "1.50", "b", "2"].map(str::to_owned).to_vec()));
        assert!(
            filtered("1", ".[").is_err() && filtered("1", "nothing").is_err() && filtered("1", ".a").is_err()
        );
    }

    #[test]
    fn a_jq_expression_that_fails_says_why_without_the_values() {
        for (json, expression, reason) in [
            (r#"[{"key":"SECRET ] }"}]"#, ".a", "cannot index … with \"a\"; the JSON is a list of 1"),
            (r#""SECRET""#, ".[0]", "cannot index … with 0; "),
            (r#"{"a":"SECRET\" ["}"#, ". + 1", "cannot calculate … + 1; the JSON is an object with a"),
            (r#"{"a":1}"#, "error(\"no\\ntasks\")", "no tasks; "),
            ("1", ".[", "closing bracket"),
            ("1", "nothing", "there is no filter \"nothing\""),
        ] {
            let failure = filtered(json, expression).err().map(|failure| failure.headline);
            let headline = failure.unwrap_or_default();
            assert!(headline.contains(reason) && !headline.contains("SECRET"), "{expression}: {headline}");
        }
    }

    mod properties {
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn no_text_is_lost_and_none_makes_it_fail(text in "\\PC{0,40}") {
                let json = serde_json::json!({ &text: [&text, 1, null] }).to_string();
                let again = super::indented(&json, false);
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&again).ok(), serde_json::from_str(&json).ok());
                super::indented(&text, true);
            }
        }
    }
}
