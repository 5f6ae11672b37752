//! The operations of the API and of the object store, by the names that the document gives them.

use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $method:literal $path:literal)*) => {
        /// What a request asks for. In JSON, its name begins with a small letter: `createTask`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$doc])* $name,)*
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its method and its path; paths of the API without `/api/v1`.
            const fn route(self) -> (&'static str, &'static str) {
                match self { $(Self::$name => ($method, $path)),* }
            }
        }
    };
}

operations! {
    /// Reads the balance.
    GetBalance "GET" "/api-key/balance"
    /// Searches the catalog.
    ListModels "POST" "/api-key/model/list"
    /// Reads one model.
    GetModel "GET" "/api-key/model/{id}"
    /// Quotes the cost of a run.
    GetModelCost "GET" "/api-key/model/{id}/task/cost"
    /// Tells whether a model is served.
    GetModelServing "GET" "/api-key/model/{id}/serving"
    /// Reads what a model declares.
    GetModelVersioning "GET" "/api-key/model/{id}/versioning"
    /// Creates a task.
    CreateTask "POST" "/api-key/model/{id}/task"
    /// Creates a task, by its other path.
    CreateTaskAlias "POST" "/model/{id}/task"
    /// Reads one task.
    GetTask "GET" "/api-key/task/{id}/detail"
    /// Reads the history of tasks.
    ListTasks "GET" "/api-key/task/histories"
    /// Cancels a task.
    CancelTask "DELETE" "/api-key/task/{id}/cancel"
    /// Asks for an upload target.
    CreatePresignedUpload "POST" "/api-key/storage/upload/create-presigned-url"
    /// Lists a folder.
    ListFiles "GET" "/api-key/storage/upload/{folder}"
    /// Counts the files.
    GetStorageStatistics "GET" "/api-key/storage/upload/statistics"
    /// Deletes a file.
    DeleteFile "DELETE" "/api-key/storage/store/url"
    /// Reads an object from the object store.
    GetObject "GET" "/{bucket}/{key}"
    /// Reads only what the headers say of an object.
    HeadObject "HEAD" "/{bucket}/{key}"
    /// Uploads a large file.
    PutObject "PUT" "/{bucket}/{key}"
    /// Uploads a small file, by form.
    PostObject "POST" "/{bucket}"
}

impl Operation {
    /// The operation at a path of the API, as the router has it (with its placeholders).
    pub(super) fn of_api(method: &str, pattern: &str) -> Option<Self> {
        let (wanted, is_api) = ((method, pattern), |one: &Self| !one.is_of_objects());
        Self::ALL.iter().copied().find(|one| is_api(one) && one.route() == wanted)
    }

    /// The operation on the object store.
    pub(super) fn of_objects(method: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.is_of_objects() && one.route().0 == method)
    }

    const fn is_of_objects(self) -> bool {
        matches!(self, Self::GetObject | Self::HeadObject | Self::PutObject | Self::PostObject)
    }
}
