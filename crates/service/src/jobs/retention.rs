//! Retention: deletes tasks that ended long ago and adds old movements of money up, if the settings say so.

use crate::Error;
use crate::lifecycle::app::App;

pub(super) async fn run(app: &App) -> Result<(), Error> {
    let now = app.clock.now();
    if let Some(age) = app.config.task_retention {
        let deleted = app.database.delete_ended_tasks(now.before(age), now).await?;
        tracing::debug!(deleted, "old tasks are deleted");
    }
    if let Some(age) = app.config.movement_retention {
        let carried = app.database.carry_movements(now.before(age), now).await?;
        tracing::debug!(carried, "old movements of money are added up");
    }
    Ok(())
}
