//! The envelope around every answer: opened in one place, for every operation alike.

use inferstore_api::types::{self, EnvelopeStatus};

/// An answer in its envelope.
pub(crate) trait Envelope: Send {
    /// What the envelope holds.
    type Data: Send;

    /// The status, the message and the payload.
    fn open(self) -> (EnvelopeStatus, Option<String>, Self::Data);
}

macro_rules! envelopes {
    ($($envelope:ident: $data:ty),+ $(,)?) => {
        $(impl Envelope for types::$envelope {
            type Data = $data;

            fn open(self) -> (EnvelopeStatus, Option<String>, $data) {
                (self.status, self.message, self.data)
            }
        })+
    };
}

envelopes! {
    BalanceResponse: types::Balance,
    FileListResponse: types::FileListing,
    ModelListResponse: types::ModelPage,
    ModelResponse: types::Model,
    ModelVersioningResponse: types::ModelVersioning,
    PresignedUploadResponse: types::PresignedUpload,
    ServingStatusResponse: types::ServingStatus,
    StorageStatisticsResponse: types::StorageStatistics,
    TaskCostResponse: types::TaskCost,
    TaskCreatedResponse: types::TaskCreated,
    TaskListResponse: types::TaskPage,
    TaskResponse: types::Task,
}

impl Envelope for types::Acknowledgement {
    type Data = ();

    fn open(self) -> (EnvelopeStatus, Option<String>, ()) {
        (self.status, self.message, ())
    }
}
