//! The operations of the service, and what a second request of each can do.

/// What sending a request twice can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    Repeatable,
    Once,
    Billed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) id: &'static str,
    pub(crate) safety: Safety,
}

macro_rules! operations {
    ($($name:ident = $id:literal $safety:ident),+ $(,)?) => {
        $(pub(crate) const $name: Operation = Operation { id: $id, safety: Safety::$safety };)+
    };
}

operations! {
    GET_BALANCE = "getBalance" Repeatable,
    LIST_MODELS = "listModels" Repeatable,
    GET_MODEL = "getModel" Repeatable,
    GET_MODEL_COST = "getModelCost" Repeatable,
    GET_MODEL_SERVING = "getModelServing" Repeatable,
    GET_MODEL_VERSIONING = "getModelVersioning" Repeatable,
    CREATE_TASK = "createTask" Billed,
    LIST_TASKS = "listTasks" Repeatable,
    GET_TASK = "getTask" Repeatable,
    CANCEL_TASK = "cancelTask" Once,
    CREATE_PRESIGNED_UPLOAD = "createPresignedUpload" Repeatable,
    LIST_FILES = "listFiles" Repeatable,
    GET_STORAGE_STATISTICS = "getStorageStatistics" Repeatable,
    DELETE_FILE = "deleteFile" Once,
}
