//! Retention: deletes tasks that ended long ago, if the settings say so.

use crate::Error;
use crate::lifecycle::app::App;

pub(super) async fn run(app: &App) -> Result<(), Error> {
    if let Some(age) = app.config.task_retention {
        let now = app.clock.now();
        let deleted = app.database.delete_ended_tasks(now.before(age), now).await?;
        tracing::debug!(deleted, "old tasks are deleted");
    }
    Ok(())
}
