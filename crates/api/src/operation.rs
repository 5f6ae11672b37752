//! Operations of the document: method, path and safety of a retry.

/// An operation of the document. [`operations`](crate::operations) has a constant for each.
///
/// ```
/// use inferstore_api::{Safety, operations};
///
/// assert_eq!(operations::GET_TASK.path, "/api-key/task/{id}/detail");
/// let billed = operations::ALL.iter().filter(|operation| operation.safety == Safety::Billed);
/// assert!(billed.map(|operation| operation.id).eq(["createTask", "createTaskAlias"]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Operation {
    /// The `operationId` of the document, such as `getTask`.
    pub id: &'static str,
    /// The HTTP method in capital letters.
    pub method: &'static str,
    /// The path below the base URL, with its parameters in braces.
    pub path: &'static str,
    /// Effect of a retry.
    pub safety: Safety,
}

/// Effect of a retry after a lost response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Safety {
    /// A retry has no harmful effect.
    Repeatable,
    /// A retry after a success is rejected, so its failure does not mean that the first request failed.
    Once,
    /// A retry may run and bill a second time.
    Billed,
}
