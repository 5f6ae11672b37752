//! Opening the envelope around every response.

use inferstore_api::Envelope;

/// A response in its envelope.
pub(crate) trait Enveloped: Send {
    /// The payload.
    type Data: Send;

    /// Whether the envelope states success.
    fn is_success(&self) -> bool;

    /// The message and the payload.
    fn open(self) -> (Option<String>, Self::Data);
}

impl<T: Send> Enveloped for Envelope<T> {
    type Data = T;

    fn is_success(&self) -> bool {
        self.is_success()
    }

    fn open(self) -> (Option<String>, T) {
        (self.message, self.data)
    }
}
