//! One word from a fixed list: the samples of the parameter.

use inferstore_api::Sample;
use serde_json::Value;

use super::super::names;
use super::super::violation::Problem;
use super::number::{self, Numeric};

/// The option that a text, a number or a truth value stands for. Nothing is mended: the service
/// compares exactly, and a word that is nearly right may be nearly right for two of them. Only a
/// number finds the option that has its value, since that is a matter of spelling.
pub(super) fn fit(options: &[Sample], given: &Value) -> Result<Value, Problem> {
    if options.is_empty() {
        return Ok(given.clone());
    }
    let literal = given.to_string();
    let (text, is_string) = match given {
        Value::String(text) => (text.as_str(), true),
        _ => (literal.as_str(), false),
    };
    let same_text = || options.iter().filter(|option| option.as_str() == text);
    let option = same_text()
        .find(|option| option.is_string() == is_string)
        .or_else(|| same_text().next())
        .or_else(|| if given.is_number() { of_same_value(options, given) } else { None });
    match option {
        Some(option) => Ok(on_the_wire(option).unwrap_or_else(|| given.clone())),
        None => Err(Problem::NotAnOption {
            options: options.iter().map(ToString::to_string).collect(),
            did_you_mean: names::nearest(text, options.iter().map(Sample::as_str)).map(str::to_owned),
        }),
    }
}

fn of_same_value<'a>(options: &'a [Sample], given: &Value) -> Option<&'a Sample> {
    let given = Numeric::of(given)?;
    options.iter().find(|option| option.as_str().parse().is_ok_and(|option| given.is(&option)))
}

/// The option as JSON, unless that would change it.
fn on_the_wire(option: &Sample) -> Option<Value> {
    if option.is_string() {
        return Some(Value::String(option.as_str().to_owned()));
    }
    match option.as_str() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => number::exact(number),
    }
}
