//! Running a model: uploads of inputs, the create, the wait, the outcome.

pub(crate) mod create;
pub(crate) mod event;
pub(crate) mod many;
pub(crate) mod outcome;
pub(crate) mod pace;
#[expect(clippy::module_inception, reason = "the run itself, among its parts")]
pub(crate) mod run;
pub(crate) mod same;
pub(crate) mod schema;
pub(crate) mod uploads;
pub(crate) mod wait;
