//! The envelope around every answer: opened in one place, for every operation alike.

use inferstore_api::Envelope as Opened;

/// An answer in its envelope.
pub(crate) trait Envelope: Send {
    /// What the envelope holds.
    type Data: Send;

    /// Whether it says that the call worked.
    fn is_success(&self) -> bool;

    /// The message and the payload.
    fn open(self) -> (Option<String>, Self::Data);
}

impl<T: Send> Envelope for Opened<T> {
    type Data = T;

    fn is_success(&self) -> bool {
        Self::is_success(self)
    }

    fn open(self) -> (Option<String>, T) {
        (self.message, self.data)
    }
}
