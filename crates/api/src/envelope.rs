//! Envelope of every response.

use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde::ser::{Serialize, Serializer};

use crate::lenient;
use crate::types::EnvelopeStatus;

/// The envelope around the payload of a response.
///
/// ```
/// use inferstore_api::{Envelope, types};
///
/// let json = r#"{"status": "success", "message": "ok", "data": {"serving": true}}"#;
/// let envelope: Envelope<types::ServingStatus> = serde_json::from_str(json)?;
/// assert!(envelope.is_success());
/// assert_eq!(envelope.data.serving, Some(true));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Envelope<T> {
    /// Success or failure of the call.
    pub status: EnvelopeStatus,
    /// Short message.
    #[serde(default, deserialize_with = "lenient::optional", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Payload.
    #[serde(skip_serializing_if = "holds_nothing")]
    pub data: T,
}

impl<T> Envelope<T> {
    /// Returns true if the envelope reports success.
    pub fn is_success(&self) -> bool {
        self.status == EnvelopeStatus::Success
    }
}

/// Skips the field of a zero-sized type, which is absent in the response too.
fn holds_nothing<T>(_: &T) -> bool {
    size_of::<T>() == 0
}

/// Payload of a response without data: accepts any value, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoData;

impl<'de> Deserialize<'de> for NoData {
    /// serde deserializes an absent field only as an `Option`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<IgnoredAny>::deserialize(deserializer).map(|_| Self)
    }
}

impl Serialize for NoData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::{Envelope, NoData};
    use crate::types::{EnvelopeStatus, ServingStatus};

    fn read<T: serde::de::DeserializeOwned>(json: Value) -> serde_json::Result<Envelope<T>> {
        serde_json::from_value(json)
    }

    #[test]
    fn an_envelope_goes_out_as_it_came() {
        let json = json!({"status": "success", "message": "ok", "data": {"serving": true, "consumers": 3}});
        let envelope: Envelope<ServingStatus> = read(json.clone()).expect("it is an envelope");
        assert_eq!(serde_json::to_value(&envelope).expect("it can be written"), json);
    }

    #[test]
    fn the_message_may_be_a_number_null_or_absent() {
        for (message, expected) in [(json!(7), Some("7".to_owned())), (json!(null), None)] {
            let json = json!({"status": "success", "message": message, "data": {}});
            assert_eq!(read::<ServingStatus>(json).expect("it is an envelope").message, expected);
        }
        let envelope = read::<ServingStatus>(json!({"status": "success", "data": {}}));
        assert_eq!(envelope.expect("it is an envelope").message, None);
    }

    #[test]
    fn a_payload_must_be_there() {
        assert!(read::<ServingStatus>(json!({"status": "success"})).is_err());
        assert!(read::<ServingStatus>(json!({"status": "success", "data": null})).is_err());
    }

    #[test]
    fn a_response_without_a_payload_may_have_any_or_none() {
        let bare = json!({"status": "success"});
        for data in [json!(null), json!({"id": [1]}), json!([1]), json!("x"), json!(1.5)] {
            let mut json = bare.clone();
            json["data"] = data;
            let envelope: Envelope<NoData> = read(json).expect("it is an envelope");
            assert_eq!(serde_json::to_value(envelope).expect("it can be written"), bare);
        }
        assert!(read::<NoData>(bare).expect("it is an envelope").is_success());
    }

    #[test]
    fn a_failure_or_an_unknown_status_is_no_success() {
        let envelope: Envelope<NoData> = read(json!({"status": "fail"})).expect("it is an envelope");
        assert!(!envelope.is_success());
        let envelope: Envelope<NoData> = read(json!({"status": "odd"})).expect("it is an envelope");
        assert!(!envelope.is_success());
        assert_eq!(envelope.status, EnvelopeStatus::from("odd"));
    }
}
