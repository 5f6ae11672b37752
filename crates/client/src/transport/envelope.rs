//! The envelope around every answer: opened in one place, for every operation alike.

use inferstore_api::types::{self, EnvelopeStatus};

/// An answer in its envelope.
pub(crate) trait Envelope: Send {
    /// What the envelope holds.
    type Data: Send;

    /// Whether it says that the call worked.
    fn is_success(&self) -> bool;

    /// The message and the payload.
    fn open(self) -> (Option<String>, Self::Data);
}

macro_rules! envelopes {
    ($($envelope:ident: $data:ty),+ $(,)?) => {
        $(impl Envelope for types::$envelope {
            type Data = $data;

            fn is_success(&self) -> bool {
                self.status == EnvelopeStatus::Success
            }

            fn open(self) -> (Option<String>, $data) {
                (self.message, self.data)
            }
        })+
    };
}

envelopes! {
    BalanceResponse: types::AccountBalance,
    FileListResponse: types::FileListing,
    ModelListResponse: types::ModelPage,
    ModelResponse: types::ModelDetail,
    ModelVersioningResponse: types::ModelVersioning,
    PresignedUploadResponse: types::PresignedUpload,
    ServingStatusResponse: types::ServingStatus,
    StorageStatisticsResponse: types::StorageStatistics,
    TaskCostResponse: types::TaskCost,
    TaskCreatedResponse: types::TaskCreated,
    TaskListResponse: types::TaskPage,
    TaskResponse: types::TaskDetail,
}

impl Envelope for types::Acknowledgement {
    type Data = ();

    fn is_success(&self) -> bool {
        self.status == EnvelopeStatus::Success
    }

    fn open(self) -> (Option<String>, ()) {
        (self.message, ())
    }
}
