//! Limits and leases by name, as an operator writes them into a file.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Config, Limits};
use crate::catalog::Entries;
use crate::{Error, Result};

#[derive(Serialize, Deserialize)]
struct NamedLimits {
    #[serde(with = "seconds")]
    lease: Duration,
    lease_attempts: i64,
    #[serde(with = "seconds")]
    lease_grace: Duration,
    #[serde(flatten)]
    limits: Limits,
}

impl Config {
    /// Sets limits and leases from a JSON object, such as `{"lease": 60, "account_unfinished": 500}`. Names are those
    /// of the fields of [`Limits`], `lease`, `lease_attempts` and `lease_grace`; times are seconds. Fails if the text
    /// is no object, names something else, or a value is no number above zero that fits.
    pub fn with_limits(mut self, text: &str) -> Result<Self> {
        let failed = |cause: String| Error::setting("reading the limits", cause);
        let Entries(given) = serde_json::from_str::<Entries<Box<RawValue>>>(text)
            .map_err(|cause| failed(format!("an object such as {{\"lease\": 60}} is expected: {cause}")))?;
        let Self { lease, lease_attempts, lease_grace, limits, .. } = self;
        let mut named = NamedLimits { lease, lease_attempts, lease_grace, limits };
        for (name, given) in given {
            let mut all = serde_json::to_value(&named).map_err(|cause| failed(cause.to_string()))?;
            let Some(limit) = all.get_mut(&name) else {
                let names: Vec<&str> =
                    all.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
                return Err(failed(format!("there is no {name:?}; the limits are {}", names.join(", "))));
            };
            let value: Value =
                serde_json::from_str(given.get()).map_err(|cause| failed(cause.to_string()))?;
            let number = value.as_f64().filter(|number| *number > 0.0);
            let number = number
                .ok_or_else(|| failed(format!("{name} is {given}; a number above zero is expected")))?;
            // A whole number may have an exponent or a point, as in 1e9.
            let whole = number.to_string().parse().ok().filter(|_: &u64| value.is_f64());
            *limit = whole.map_or(value, Value::from);
            named = serde_json::from_value(all).map_err(|cause| failed(format!("{name}: {cause}")))?;
        }
        NamedLimits {
            lease: self.lease,
            lease_attempts: self.lease_attempts,
            lease_grace: self.lease_grace,
            limits: self.limits,
        } = named;
        Ok(self)
    }
}

pub(super) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_by_their_names() -> Result<()> {
        let config = Config::ephemeral().with_limits(
            r#"{"lease": 6e1, "lease_attempts": 3.0, "account_unfinished": 5e2, "head_timeout": 2.5}"#,
        )?;
        assert_eq!((config.lease, config.lease_attempts), (Duration::from_mins(1), 3));
        assert_eq!(config.lease_grace, Config::ephemeral().lease_grace);
        let expected = Limits {
            account_unfinished: 500,
            head_timeout: Duration::from_millis(2_500),
            ..Config::ephemeral().limits
        };
        assert_eq!(config.limits, expected);
        Ok(())
    }

    #[test]
    fn a_mistake_in_the_limits_is_named() {
        for (text, part) in [
            (r#"{"leese": 60}"#, "there is no \"leese\"; the limits are account_running, account_targets"),
            (r#"{"body": "1 MiB"}"#, "body is \"1 MiB\"; a number above zero is expected"),
            (r#"{"max_requests": 0}"#, "max_requests is 0; a number above zero"),
            (r#"{"max_requests": -0}"#, "max_requests is -0; a number above zero"),
            (r#"{"lease": 60, "lease": 30}"#, "lease is given twice"),
            (r#"{"outputs": 1.5}"#, "outputs: invalid type: floating point"),
            ("[]", "an object such as {\"lease\": 60} is expected"),
        ] {
            let message = Config::ephemeral()
                .with_limits(text)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
