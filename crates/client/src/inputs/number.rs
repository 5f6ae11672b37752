//! Numeric parameters: exact values, their range, and their form in JSON.

use inferstore_api::types::{Descriptor, NumConfig};
use inferstore_api::{Decimal, Sample};
use serde_json::{Number, Value};

use super::check::plain;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Text,
    Number,
}

impl JsonType {
    /// Derives the JSON type from the samples; `None` without samples that show one. Numeric parameters may have to
    /// be sent as strings; if all samples are strings, strings are sent. Among mixed samples, one bare number means
    /// bare numbers: the model accepts it, while its string samples may be words such as "auto".
    pub(super) fn of(samples: &[Sample]) -> Option<Self> {
        let is_bare_number =
            |sample: &Sample| !sample.is_string() && sample.as_str().parse::<Decimal>().is_ok();
        if samples.iter().any(is_bare_number) {
            Some(Self::Number)
        } else if !samples.is_empty() && samples.iter().all(Sample::is_string) {
            Some(Self::Text)
        } else {
            None
        }
    }
}

pub(super) struct Numeric<'a> {
    given: &'a Value,
    text: String,
    pub(super) value: Decimal,
}

impl<'a> Numeric<'a> {
    pub(super) fn of(given: &'a Value) -> Option<Self> {
        let text = match given {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            _ => return None,
        };
        let value = text.parse().ok()?;
        Some(Self { given, text, value })
    }

    /// Writes the value in the requested form, or else in the given one. An `integer` has neither point nor
    /// exponent: not all readers of integers accept `30.0`.
    pub(super) fn spelled(&self, form: Option<JsonType>, integer: bool) -> Value {
        let given = if self.given.is_string() { JsonType::Text } else { JsonType::Number };
        let plain = self.value.to_plain_string();
        if form.unwrap_or(given) == JsonType::Number {
            let as_given = exact(&self.text).filter(|_| !integer);
            // A value that no JSON number can hold stays; the service decides.
            let unchanged =
                || if given == JsonType::Text { Value::from(&*self.text) } else { self.given.clone() };
            return as_given.or_else(|| exact(&plain?)).unwrap_or_else(unchanged);
        }
        // Plain digits where possible: not every reader accepts an exponent, `+`, `.5` or `-0.0`.
        let is_plain = self.text.parse::<Number>().is_ok() && !self.text.contains(['e', 'E']);
        let keeps_digits = !integer && given == JsonType::Text && is_plain && !self.value.is_zero();
        Value::String(plain.filter(|_| !keeps_digits).unwrap_or_else(|| self.text.clone()))
    }
}

/// Parses the text as a JSON number, if that holds its exact value.
fn exact(text: &str) -> Option<Value> {
    let value: Decimal = text.parse().ok()?;
    let number: Number = text.parse().ok()?;
    (number.to_string().parse() == Ok(value)).then_some(Value::Number(number))
}

pub(super) struct Range(NumConfig);

impl Range {
    /// Ignores an empty range, which is a mistake in the catalog and would block every run.
    pub(super) fn of(descriptor: &Descriptor) -> Self {
        let mut config = descriptor.num_config.clone().unwrap_or_default();
        if matches!((&config.min, &config.max), (Some(min), Some(max)) if min > max) {
            config = NumConfig::default();
        }
        Self(config)
    }

    /// Formats the bounds as the end of "a number …".
    pub(super) fn bounds(&self) -> String {
        match (&self.0.min, &self.0.max) {
            (Some(min), Some(max)) => format!(" from {} to {}", number_text(min), number_text(max)),
            (Some(min), None) => format!(" of {} or more", number_text(min)),
            (None, Some(max)) => format!(" of {} or less", number_text(max)),
            (None, None) => String::new(),
        }
    }

    pub(super) fn contains(&self, value: &Decimal) -> bool {
        let Self(NumConfig { min, max, .. }) = self;
        min.as_ref().is_none_or(|min| value >= min) && max.as_ref().is_none_or(|max| value <= max)
    }
}

fn number_text(number: &Decimal) -> String {
    plain(number.as_str())
}
