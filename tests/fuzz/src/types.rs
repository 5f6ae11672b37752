//! The generated type of each body that the document declares.

use inferstore_api::{Envelope, NoData, types};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a body as the generated type of this schema, and writes it again. A new body has to be added here.
///
/// # Errors
/// When the type does not read the body.
pub fn rewritten(schema: &str, body: &str) -> serde_json::Result<String> {
    macro_rules! by_name {
        ($($name:ident: $type:ty),+ $(,)?) => {
            match schema {
                $(stringify!($name) => through::<$type>(body),)+
                other => panic!("no generated type is named here for the schema {other:?}"),
            }
        };
    }
    by_name!(
        Acknowledgement: Envelope<NoData>,
        BalanceResponse: Envelope<types::AccountBalance>,
        FileUrl: types::FileUrl,
        Failure: types::Failure,
        FileListResponse: Envelope<types::FileListing>,
        ModelListRequest: types::ModelListRequest,
        ModelListResponse: Envelope<types::ModelPage>,
        ModelResponse: Envelope<types::ModelDetail>,
        ModelVersioningResponse: Envelope<types::ModelVersioning>,
        PresignRequest: types::PresignRequest,
        PresignedUploadResponse: Envelope<types::PresignedUpload>,
        ServingStatusResponse: Envelope<types::ServingStatus>,
        StorageStatisticsResponse: Envelope<types::StorageStatistics>,
        TaskCostResponse: Envelope<types::TaskCost>,
        TaskCreatedResponse: Envelope<types::TaskCreated>,
        TaskInput: types::TaskInput,
        TaskListResponse: Envelope<types::TaskPage>,
        TaskResponse: Envelope<types::TaskDetail>,
    )
}

fn through<T: DeserializeOwned + Serialize>(body: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(body)?)
}
