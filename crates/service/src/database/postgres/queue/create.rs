//! Creating tasks, with group commit: those that come while a statement is under way share the next one, and so the
//! cost of a round trip and of a commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::GenericClient;
use futures_util::StreamExt as _;
use futures_util::stream;
use rusqlite::types::FromSqlResult;
use tokio::sync::oneshot;

use super::super::PostgresDatabase;
use super::super::failure::{Failure, Outcome, is_locked, is_of_a_value, statement};
use super::super::statements::{all, run};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{Row, pair};
use crate::ledger::{Money, Purses};
use crate::queue::{Created, NewTask, detail_of};
use crate::{Error, Result};

/// How many tasks share a statement.
const MAX_BATCH: usize = 64;
/// How many statements of a process are under way at once. A further one begins when there is a whole batch for it:
/// batches of half the size cost the server a quarter more for each task.
const MAX_STATEMENTS: usize = 4;

/// The tasks of an account are paid by one update of its purses, all or none. That sees the purses as they are once
/// others have committed, also where the snapshot of the statement is older: so its conditions and what it returns read
/// no other row of them. Purses are locked in one order. The job that deletes turns locks the purses of their accounts
/// first, so that a turn that is there stays until this has committed.
const CREATE: &str = "WITH batch AS ( \
       SELECT *, (sum(price) OVER earlier - price)::bigint AS before, row_number() OVER earlier - 1 AS rank \
       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], \
         $8::bigint[], $9::bigint[], $10::bigint[]) WITH ORDINALITY \
         AS batch (id, account, model, version, publisher, price, input, max_unfinished, created_at, day, number) \
       WINDOW earlier AS (PARTITION BY account ORDER BY number)), \
     wanted AS ( \
       SELECT account, sum(price)::bigint AS price, count(*) AS tasks, min(max_unfinished) AS max_unfinished \
       FROM batch GROUP BY account), \
     locked AS (SELECT account FROM purses WHERE account = ANY ($2) ORDER BY account FOR UPDATE), \
     paid AS ( \
       UPDATE purses SET tasks = purses.tasks + wanted.tasks, unfinished = unfinished + wanted.tasks, \
         held = held + wanted.price, taken_free = least(free, wanted.price), \
         free = free - least(free, wanted.price), balance = balance - (wanted.price - least(free, wanted.price)) \
       FROM wanted JOIN locked USING (account) \
       WHERE purses.account = wanted.account AND unfinished + wanted.tasks <= wanted.max_unfinished \
         AND balance >= wanted.price - least(free, wanted.price) \
       RETURNING purses.account, purses.tasks - wanted.tasks AS place, taken_free), \
     created AS ( \
       INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, input, created_at, updated_at) \
       SELECT id, account, place + rank, model, version, publisher, 'in_queue', price, free, price - free, input, \
         created_at, created_at \
       FROM (SELECT batch.*, place, greatest(0, least(price, taken_free - before)) AS free \
             FROM batch JOIN paid USING (account)) AS priced \
       ORDER BY number RETURNING sequence, id, account, model, held_free, held_balance, created_at), \
     moved AS ( \
       INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
       SELECT created_at, part.amount, account, part.purse, account, 'held', 'reserve', sequence FROM created \
         CROSS JOIN LATERAL (VALUES ('free', held_free), ('balance', held_balance)) AS part (purse, amount) \
       WHERE part.amount > 0), \
     queued AS ( \
       INSERT INTO turns (account, model, turn) \
       SELECT account, model, coalesce((SELECT min(turn) FROM turns WHERE turns.account = new.account), \
                                       nextval('turn_numbers')) \
       FROM (SELECT DISTINCT account, model FROM created ORDER BY account, model) AS new \
       ON CONFLICT (account, model) DO NOTHING), \
     used AS ( \
       INSERT INTO model_uses (model, day, tasks) \
       SELECT created.model, day, count(*) FROM created JOIN batch USING (id) GROUP BY created.model, day) \
     SELECT free, balance, unfinished, sequence, count(*) OVER (PARTITION BY account) \
     FROM batch LEFT JOIN purses USING (account) \
       LEFT JOIN (SELECT id, sequence FROM created) AS created USING (id) ORDER BY number";

/// A task to be created.
pub(super) struct Create {
    pub(super) task: NewTask,
    pub(super) max_unfinished: u32,
    pub(super) now: Moment,
}

/// What has become of it; None when that has to be found out by a statement for it alone.
type Decided = Option<Created>;

/// A task that waits for the next statement.
struct Waiting {
    create: Arc<Create>,
    reply: oneshot::Sender<Result<Decided>>,
}

/// The creates of a process.
#[derive(Default)]
pub(in crate::database::postgres) struct Creates(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// How many statements are under way.
    statements: usize,
}

impl Creates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task for the next statement; true when a further one has to begin.
    fn enqueue(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        state.waiting.push(waiting);
        let begins =
            state.statements == 0 || (state.waiting.len() >= MAX_BATCH && state.statements < MAX_STATEMENTS);
        state.statements += usize::from(begins);
        begins
    }

    /// The tasks of the next statement; when there are none, that statement is over.
    fn next_batch(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.statements -= 1;
            return None;
        }
        let batch = state.waiting.len().min(MAX_BATCH);
        Some(state.waiting.drain(..batch).collect())
    }
}

impl PostgresDatabase {
    pub(super) async fn create(&self, create: Create) -> Result<Created> {
        let create = Arc::new(create);
        let mut decided = self.create_in_batch(Arc::clone(&create)).await?;
        loop {
            if let Some(created) = decided {
                return Ok(created);
            }
            // Others may spend the money after the snapshot of one statement: the next one shows it.
            let alone = [&*create];
            decided =
                statement!(self, |db| write(db, &alone))?.and_then(|mut decided| decided.pop()).flatten();
        }
    }

    async fn create_in_batch(&self, create: Arc<Create>) -> Result<Decided> {
        let (reply, decided) = oneshot::channel();
        if self.creates.enqueue(Waiting { create, reply }) {
            // Not by this call, which its caller may drop while others wait for the statement.
            tokio::spawn(self.clone().write_batches());
        }
        decided.await.map_err(|_| Error::new("creating a task", "the service ends"))?
    }

    async fn write_batches(self) {
        let creates = Arc::clone(&self.creates);
        while let Some(batch) = creates.next_batch() {
            let Some(locked) = self.write_batch(batch).await else { continue };
            let mut accounts: BTreeMap<AccountId, Vec<Waiting>> = BTreeMap::new();
            for waiting in locked {
                accounts.entry(waiting.create.task.account).or_default().push(waiting);
            }
            let each = stream::iter(accounts.into_values()).map(|batch| self.write_batch(batch));
            each.buffer_unordered(MAX_STATEMENTS).for_each(async |_| ()).await;
        }
    }

    /// Writes a batch, and responds to those who wait for it; returns the batch when the account of one of several is
    /// locked.
    async fn write_batch(&self, batch: Vec<Waiting>) -> Option<Vec<Waiting>> {
        let tasks: Vec<&Create> = batch.iter().map(|waiting| &*waiting.create).collect();
        match statement!(self, |db| write(db, &tasks)) {
            Ok(None) => return Some(batch),
            Ok(Some(decided)) => {
                for (waiting, decided) in batch.into_iter().zip(decided) {
                    // Fails when the caller has gone.
                    let _ = waiting.reply.send(Ok(decided));
                }
            }
            Err(cause) => {
                for waiting in batch {
                    let _ = waiting.reply.send(Err(cause.again()));
                }
            }
        }
        None
    }
}

/// Creates tasks by one statement. None when they are of several accounts, and one of those is locked.
async fn write(db: &impl GenericClient, creates: &[&Create]) -> Outcome<Option<Vec<Decided>>> {
    fn column<'a, T>(creates: &[&'a Create], value: impl Fn(&'a Create) -> T) -> Vec<T> {
        creates.iter().map(|create| value(create)).collect()
    }
    let rows = all(
        db,
        CREATE,
        &[
            &column(creates, |create| &*create.task.id),
            &column(creates, |create| create.task.account),
            &column(creates, |create| &*create.task.model),
            &column(creates, |create| create.task.version),
            &column(creates, |create| create.task.publisher),
            &column(creates, |create| create.task.price),
            &column(creates, |create| &*create.task.input),
            &column(creates, |create| i64::from(create.max_unfinished)),
            &column(creates, |create| create.now),
            &column(creates, |create| create.now.day()),
        ],
        Written::read,
    )
    .await;
    match rows {
        // The server has refused all for one of them.
        Err(Failure::Postgres(cause)) if creates.len() > 1 && is_of_a_value(&cause) => {
            Ok(Some(creates.iter().map(|_| None).collect()))
        }
        Err(Failure::Postgres(cause))
            if is_locked(&cause)
                && creates.iter().any(|create| create.task.account != creates[0].task.account) =>
        {
            Ok(None)
        }
        rows => rows?
            .into_iter()
            .zip(creates)
            .map(|(written, create)| written.decided(create, creates.len() == 1))
            .collect::<Outcome<_>>()
            .map(Some),
    }
}

/// What a statement says of one task.
struct Written {
    /// The purses before the statement; None when there is no such account.
    purses: Option<Purses>,
    unfinished: Option<i64>,
    sequence: Option<i64>,
    /// How many tasks of its account the statement had.
    of_account: i64,
}

impl Written {
    fn read(row: &dyn Row) -> FromSqlResult<Self> {
        let (free, balance): (Option<Money>, Option<Money>) = pair(row)?;
        let purses = free.zip(balance).map(|(free, balance)| Purses { free, balance, ..Purses::default() });
        Ok(Self { purses, unfinished: row.get(2)?, sequence: row.get(3)?, of_account: row.get(4)? })
    }

    fn decided(self, create: &Create, is_alone: bool) -> Outcome<Decided> {
        if self.sequence.is_some() {
            return Ok(Some(Created::Queued));
        }
        let (Some(purses), Some(unfinished), 1) = (self.purses, self.unfinished, self.of_account) else {
            let unknown = || Error::new("creating a task", "its account is not there").into();
            return if is_alone { Err(unknown()) } else { Ok(None) };
        };
        let spendable = purses.spendable();
        Ok(if unfinished >= i64::from(create.max_unfinished) {
            Some(Created::TooManyUnfinished)
        } else if spendable < create.task.price {
            Some(Created::Refused { spendable })
        } else {
            None
        })
    }
}

/// Creates a task that has failed because the balance did not suffice.
pub(super) async fn create_failed(
    db: &impl GenericClient,
    task: &NewTask,
    spendable: Money,
    now: Moment,
) -> Outcome {
    let message = task.insufficient(spendable);
    let detail = detail_of(&message);
    let NewTask { id, account, model, version, publisher, price, input } = task;
    run(
        db,
        "WITH placed AS (UPDATE purses SET tasks = tasks + 1 WHERE account = $2 RETURNING tasks - 1 AS place) \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
           held_balance, message, input, error, created_at, updated_at) \
         SELECT $1, $2, place, $3, $4, $5, 'failed', $6, 0, 0, $7, $8, $9, $10, $10 FROM placed",
        &[id, account, model, version, publisher, price, &message, input, &detail, &now],
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiting {
        let task = NewTask {
            id: String::new(),
            account: AccountId(1),
            model: String::new(),
            version: 1,
            publisher: AccountId(1),
            price: Money::ZERO,
            input: String::new(),
        };
        let create = Create { task, max_unfinished: 1, now: Moment(0) };
        Waiting { create: Arc::new(create), reply: oneshot::channel().0 }
    }

    #[test]
    fn creates_share_a_statement_and_a_further_one_begins_for_a_whole_batch() {
        let creates = Creates::default();
        assert!(creates.enqueue(waiting()));
        assert_eq!(creates.next_batch().map(|batch| batch.len()), Some(1));
        for statements in 1..=MAX_STATEMENTS {
            for _ in 1..MAX_BATCH {
                assert!(!creates.enqueue(waiting()), "it waits for one that is under way");
            }
            let begins = creates.enqueue(waiting());
            assert_eq!(begins, statements < MAX_STATEMENTS);
            assert_eq!(creates.next_batch().map(|batch| batch.len()), Some(MAX_BATCH));
        }
        for _ in 0..MAX_STATEMENTS {
            assert!(creates.next_batch().is_none());
        }
        assert!(creates.enqueue(waiting()), "all are over");
    }
}
