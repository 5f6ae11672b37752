//! Which operation a request asks for.

use super::http::Head;
use super::uri;

/// The operations of the API by their names, and the two of object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    GetBalance,
    ListModels,
    GetModel,
    GetModelCost,
    GetModelServing,
    GetModelVersioning,
    /// Both spellings of its path.
    CreateTask,
    GetTask,
    ListTasks,
    CancelTask,
    CreatePresignedUpload,
    ListFiles,
    GetStorageStatistics,
    DeleteFile,
    /// Step 2 of an upload: a `PUT` or `POST` to object storage.
    StorageUpload,
    /// A `GET` from object storage.
    Download,
    /// What the service does not offer.
    Unknown,
    /// Every operation of the API, but not those of object storage.
    Any,
}

impl Route {
    /// Whether what is said about this route goes for a request.
    pub(super) fn covers(self, requested: Self) -> bool {
        self == requested || (self == Self::Any && !matches!(requested, Self::StorageUpload | Self::Download))
    }
}

/// The two listeners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Api,
    Storage,
}

impl Side {
    /// The operation, and the one thing that its path names: a model, a task, a folder, an object.
    pub(super) fn recognize(self, head: &Head) -> (Route, String) {
        let path = head.path().trim_start_matches('/');
        let segments: Vec<String> = path.split('/').map(uri::decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (route, subject) = match self {
            Self::Api => recognize_operation(&head.method, &segments),
            Self::Storage => recognize_object(&head.method, &segments),
        };
        (route, subject)
    }
}

fn recognize_operation(method: &str, segments: &[&str]) -> (Route, String) {
    let ["api", "v1", operation @ ..] = segments else { return (Route::Unknown, String::new()) };
    let (route, subject) = match (method, operation) {
        ("POST", ["model", id, "task"]) => (Route::CreateTask, *id),
        (_, ["api-key", tail @ ..]) => match (method, tail) {
            ("GET", ["balance"]) => (Route::GetBalance, ""),
            ("POST", ["model", "list"]) => (Route::ListModels, ""),
            ("GET", ["model", id]) => (Route::GetModel, *id),
            ("GET", ["model", id, "task", "cost"]) => (Route::GetModelCost, *id),
            ("GET", ["model", id, "serving"]) => (Route::GetModelServing, *id),
            ("GET", ["model", id, "versioning"]) => (Route::GetModelVersioning, *id),
            ("POST", ["model", id, "task"]) => (Route::CreateTask, *id),
            ("GET", ["task", "histories"]) => (Route::ListTasks, ""),
            ("GET", ["task", id, "detail"]) => (Route::GetTask, *id),
            ("DELETE", ["task", id, "cancel"]) => (Route::CancelTask, *id),
            ("POST", ["storage", "upload", "create-presigned-url"]) => (Route::CreatePresignedUpload, ""),
            ("GET", ["storage", "upload", "statistics"]) => (Route::GetStorageStatistics, ""),
            ("GET", ["storage", "upload", folder]) => (Route::ListFiles, *folder),
            ("DELETE", ["storage", "store", "url"]) => (Route::DeleteFile, ""),
            _ => (Route::Unknown, ""),
        },
        _ => (Route::Unknown, ""),
    };
    (route, subject.to_owned())
}

fn recognize_object(method: &str, segments: &[&str]) -> (Route, String) {
    let route = match method {
        "PUT" | "POST" => Route::StorageUpload,
        "GET" => Route::Download,
        _ => Route::Unknown,
    };
    let key = segments.get(1..).unwrap_or_default().join("/");
    (route, key)
}
