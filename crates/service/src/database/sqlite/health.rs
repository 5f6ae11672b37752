//! Health checks of the database.

use async_trait::async_trait;

use super::SqliteDatabase;
use super::statements::Statements as _;
use crate::Error;
use crate::clock::Moment;
use crate::database::Health;

/// The setting that a check writes.
const CHECK: &str = "health check";

#[async_trait]
impl Health for SqliteDatabase {
    async fn check_writer(&self) -> Result<(), Error> {
        self.write(|db| {
            let write = "INSERT INTO settings (name, value) VALUES (?, '') \
                         ON CONFLICT DO UPDATE SET value = excluded.value";
            db.run(write, [CHECK])?;
            Ok(())
        })
        .await
    }

    async fn oldest_queued(&self) -> Result<Option<Moment>, Error> {
        // A step in the index for each model, however many tasks are queued.
        let select = "SELECT created_at FROM tasks WHERE sequence = ( \
                        SELECT min((SELECT min(sequence) FROM tasks \
                                    WHERE status = 'in_queue' AND model = models.id)) FROM models)";
        self.read(move |db| Ok(db.first(select, [], |row| row.get(0))?)).await
    }
}
