//! Numbers: the range they must lie in, and whether they go out as numbers or as texts.

use inferstore_api::types::Descriptor;
use inferstore_api::{Decimal, Sample};
use serde_json::{Number, Value};

use super::super::violation::Problem;
use super::Shape;
use super::digits::{Digits, is_on_step};

/// Which numbers a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Fraction,
}

/// Checks a number or a text that may be one, and spells it as it is sent.
pub(super) fn fit(descriptor: &Descriptor, kind: Kind, given: &Value) -> Result<Value, Vec<Problem>> {
    let number = Numeric::of(given).ok_or_else(|| vec![Problem::NotANumber])?;
    let mut problems = Vec::new();
    if kind == Kind::Whole && !number.digits.is_whole() {
        problems.push(Problem::NotWhole);
    }
    let range = Range::of(descriptor);
    match range.problem_with(&number.value) {
        Some(problem) => problems.push(problem),
        None if problems.is_empty() => problems.extend(range.step_problem_with(&number.digits)),
        None => {}
    }
    if problems.is_empty() { Ok(number.spelled(kind, Shape::of(descriptor))) } else { Err(problems) }
}

/// Whether a sample shows that a bare number is sent.
pub(super) fn is_bare(sample: &Sample) -> bool {
    !sample.is_string() && sample.as_str().parse::<Decimal>().is_ok()
}

/// The text as a JSON number, if that holds its exact value.
pub(super) fn exact(text: &str) -> Option<Value> {
    let value: Decimal = text.parse().ok()?;
    let as_json: Number = text.parse().ok()?;
    (as_json.to_string().parse() == Ok(value)).then_some(Value::Number(as_json))
}

/// Whether every reader of numbers takes the text: digits, perhaps with a sign before and a fraction behind.
fn is_plain(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    }
}

/// A number as it was given.
pub(super) struct Numeric<'a> {
    given: &'a Value,
    text: String,
    value: Decimal,
    digits: Digits,
}

impl<'a> Numeric<'a> {
    /// `None` unless it is a number, or a text that is one but for surrounding space.
    pub(super) fn of(given: &'a Value) -> Option<Self> {
        let text = match given {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            _ => return None,
        };
        let value: Decimal = text.parse().ok()?;
        let digits = Digits::of(&value)?;
        Some(Self { given, text, value, digits })
    }

    pub(super) fn is(&self, value: &Decimal) -> bool {
        self.value == *value
    }

    /// The same value in the shape that is asked for, or else in its own. Where no JSON number can
    /// hold it, it stays a text, and the service says whether it takes that.
    pub(super) fn spelled(&self, kind: Kind, shape: Option<Shape>) -> Value {
        let own_shape = if self.given.is_string() { Shape::Text } else { Shape::Number };
        let shape = shape.unwrap_or(own_shape);
        // A whole number is spelled without point and exponent even where its shape is right:
        // readers of whole numbers take `30`, but not all of them `30.0`. Nor do all take `.5`.
        let plain = || self.digits.plain();
        let spelling = match (kind, shape) {
            (Kind::Fraction, Shape::Text) if own_shape == Shape::Text && is_plain(&self.text) => None,
            (Kind::Fraction, Shape::Number) if own_shape == Shape::Number => None,
            (_, Shape::Text) => plain().map(Value::String),
            (Kind::Whole, Shape::Number) => plain().and_then(|plain| exact(&plain)),
            // The digits as they are, unless they are no JSON, as `+.5`.
            (Kind::Fraction, Shape::Number) => exact(&self.text).or_else(|| exact(&plain()?)),
        };
        spelling.unwrap_or_else(|| match (shape, own_shape) {
            (Shape::Number, Shape::Number) => self.given.clone(),
            _ => Value::String(self.text.clone()),
        })
    }
}

/// The range of a parameter, as far as it makes sense.
#[derive(Default)]
pub(super) struct Range {
    pub(super) min: Option<Decimal>,
    pub(super) max: Option<Decimal>,
    step: Option<Decimal>,
}

impl Range {
    /// A range that nothing lies in is a mistake of the catalog, which must not stop every run.
    pub(super) fn of(descriptor: &Descriptor) -> Self {
        let Some(config) = descriptor.num_config.clone() else { return Self::default() };
        if matches!((&config.min, &config.max), (Some(min), Some(max)) if min > max) {
            return Self::default();
        }
        let step = config.step.filter(|step| !step.is_zero() && !step.is_negative());
        Self { min: config.min, max: config.max, step }
    }

    fn problem_with(&self, value: &Decimal) -> Option<Problem> {
        if let Some(min) = self.min.as_ref().filter(|min| value < min) {
            return Some(Problem::BelowMinimum { min: min.clone() });
        }
        let max = self.max.as_ref().filter(|max| value > max)?;
        Some(Problem::AboveMaximum { max: max.clone() })
    }

    fn step_problem_with(&self, value: &Digits) -> Option<Problem> {
        let step = self.step.clone()?;
        let base = match &self.min {
            Some(min) => Digits::of(min)?,
            None => Digits::default(),
        };
        if is_on_step(value, &base, &Digits::of(&step)?)? {
            return None;
        }
        Some(Problem::OffStep { min: self.min.clone(), step })
    }
}
