//! Group commit of creates: those that arrive while a statement runs share the next one's round trip and commit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deadpool_postgres::{GenericClient, Transaction};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rusqlite::types::FromSqlResult;
use tokio::sync::oneshot;

use super::super::PostgresDatabase;
use super::super::failure::{Failure, PostgresResult, is_key_used, is_of_a_value, statement, transaction};
use super::super::movements::lock;
use super::super::statements::{all, one, run};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::database::records::{Row, column, pair};
use crate::database::shared_sql::{ADD_KEY_TASK, FORGET_KEY, SPENT_BY_KEY};
use crate::ledger::{Money, Purses};
use crate::queue::{
    CreateKey, Created, KEY_RETENTION, KeyedCreate, NewTask, Queue as _, Spending, detail_of,
};
use crate::{Error, Result};

const MAX_BATCH: usize = 64;
/// Maximum number of concurrent statements of a process. A further statement starts only for a full batch, because
/// batches of half the size cost the server a quarter more for each task.
const MAX_STATEMENTS: usize = 4;

/// Creates a batch of tasks. One update of an account's purses pays for all of its tasks in the batch, or for none. The
/// update waits for the row lock and then sees the latest committed purses, even if the snapshot of the statement is
/// older; so its conditions and its `RETURNING` use no other row of the account.
///
/// Purses are locked in one order, so that statements do not deadlock. The job that deletes idle turns locks the purses
/// of their accounts first, so that an existing turn stays until this statement has committed.
///
/// A used idempotency key fails the whole statement; each create is then retried alone. Locked purses prevent races.
macro_rules! create {
    ($lock:literal) => {
        concat!(
            "WITH batch AS ( \
       SELECT *, (sum(price) OVER earlier - price)::bigint AS before, row_number() OVER earlier - 1 AS rank \
       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], \
         $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[]) WITH ORDINALITY \
         AS batch (id, account, model, version, publisher, price, input, max_unfinished, created_at, day, key, \
           request, traceparent, number) \
       WINDOW earlier AS (PARTITION BY account ORDER BY number)), \
     wanted AS ( \
       SELECT account, sum(price)::bigint AS price, count(*) AS tasks, min(max_unfinished) AS max_unfinished \
       FROM batch GROUP BY account), \
     locked AS (SELECT account FROM purses WHERE account = ANY ($2) ORDER BY account ",
            $lock,
            "), \
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
         held_balance, input, traceparent, created_at, updated_at) \
       SELECT id, account, place + rank, model, version, publisher, 'in_queue', price, free, price - free, input, \
         traceparent, created_at, created_at \
       FROM (SELECT batch.*, place, greatest(0, least(price, taken_free - before)) AS free \
             FROM batch JOIN paid USING (account)) AS priced \
       ORDER BY number RETURNING sequence, id, account, model, held_free, held_balance, created_at), \
     moved AS ( \
       INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
       SELECT created_at, part.amount, account, part.purse, account, 'held', 'reserve', sequence FROM created \
         CROSS JOIN LATERAL (VALUES ('free', held_free), ('balance', held_balance)) AS part (purse, amount) \
       WHERE part.amount > 0), \
     keyed AS ( \
       INSERT INTO create_keys (account, key, request, task, created_at) \
       SELECT created.account, key, request, id, created.created_at FROM created JOIN batch USING (id) \
       WHERE key IS NOT NULL), \
     queued AS ( \
       INSERT INTO turns (account, model, turn) \
       SELECT account, model, coalesce((SELECT min(turn) FROM turns WHERE turns.account = new.account), \
                                       nextval('turn_numbers')) \
       FROM (SELECT DISTINCT account, model FROM created ORDER BY account, model) AS new \
       ON CONFLICT (account, model) DO NOTHING), \
     used AS ( \
       INSERT INTO model_uses (model, day, tasks) \
       SELECT created.model, day, count(*) FROM created JOIN batch USING (id) GROUP BY created.model, day) \
     SELECT free, balance, unfinished, sequence, count(*) OVER (PARTITION BY batch.account), \
       locked.account IS NULL \
     FROM batch LEFT JOIN purses USING (account) LEFT JOIN locked USING (account) \
       LEFT JOIN (SELECT id, sequence FROM created) AS created USING (id) ORDER BY number"
        )
    };
}

const CREATE: &str = create!("FOR UPDATE");

const CREATE_OF_FREE: &str = create!("FOR UPDATE SKIP LOCKED");

pub(super) struct Create {
    pub(super) task: NewTask,
    pub(super) max_unfinished: u32,
    pub(super) now: Moment,
}

enum Verdict {
    Created(Created),
    /// A statement for this task alone must decide.
    Alone,
    Locked,
}

struct WaitingCreate {
    create: Arc<Create>,
    reply: oneshot::Sender<Result<Verdict>>,
}

#[derive(Default)]
pub(in crate::database::postgres) struct Creates(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<WaitingCreate>,
    statements: usize,
    /// Pending creates of accounts with locked purses, each awaited by one statement beyond `MAX_STATEMENTS`.
    locked: BTreeMap<AccountId, Vec<WaitingCreate>>,
}

impl Creates {
    fn enqueue(&self, waiting: WaitingCreate) -> bool {
        let mut state = self.0.lock();
        if let Some(locked) = state.locked.get_mut(&waiting.create.task.account) {
            locked.push(waiting);
            return false;
        }
        state.waiting.push(waiting);
        let begins =
            state.statements == 0 || (state.waiting.len() >= MAX_BATCH && state.statements < MAX_STATEMENTS);
        state.statements += usize::from(begins);
        begins
    }

    fn enqueue_locked(&self, waiting: WaitingCreate) -> bool {
        match self.0.lock().locked.entry(waiting.create.task.account) {
            Entry::Occupied(mut locked) => {
                locked.get_mut().push(waiting);
                false
            }
            Entry::Vacant(free) => {
                free.insert(vec![waiting]);
                true
            }
        }
    }

    fn next_batch(&self) -> Option<Vec<WaitingCreate>> {
        let mut state = self.0.lock();
        if state.waiting.is_empty() {
            state.statements -= 1;
            return None;
        }
        let batch = state.waiting.len().min(MAX_BATCH);
        Some(state.waiting.drain(..batch).collect())
    }

    fn next_locked(&self, account: AccountId) -> Option<Vec<WaitingCreate>> {
        let mut state = self.0.lock();
        let locked = state.locked.get_mut(&account).filter(|locked| !locked.is_empty());
        let Some(locked) = locked else {
            state.locked.remove(&account);
            return None;
        };
        let batch = locked.len().min(MAX_BATCH);
        Some(locked.drain(..batch).collect())
    }
}

/// Writes a batch; None if the write panics. Its callers get an error; later batches are not affected.
async fn surviving<T>(write: impl Future<Output = T>) -> Option<T> {
    let written = AssertUnwindSafe(write).catch_unwind().await;
    written.inspect_err(|_| tracing::error!("creating tasks has panicked")).ok()
}

impl PostgresDatabase {
    pub(super) async fn create(&self, create: Create) -> Result<Created> {
        let create = Arc::new(create);
        if let Verdict::Created(created) = self.create_in_batch(Arc::clone(&create)).await? {
            return Ok(created);
        }
        let _turn = self.purse_queues.enter(create.task.account).await?;
        loop {
            if let Some(used) = self.key_used(&create.task, create.now).await? {
                return Ok(Created::KeyUsed(used));
            }
            // Another transaction may spend the money after the snapshot of one statement; the next statement sees it.
            let alone = [&*create];
            let decided = statement!(self, |db| write(db, CREATE, &alone))?;
            if let Some(Verdict::Created(created)) = decided.into_iter().next() {
                return Ok(created);
            }
        }
    }

    /// Creates a task within its API key's daily limit. Locked purses keep concurrent creates from exceeding the limit.
    pub(super) async fn create_within(&self, spending: &Spending, create: &Create) -> Result<Created> {
        let _turn = self.purse_queues.enter(create.task.account).await?;
        loop {
            let verdict = transaction!(self, |tx| create_within(tx, spending, create))?;
            if let Verdict::Created(created) = verdict {
                return Ok(created);
            }
            if let Some(used) = self.key_used(&create.task, create.now).await? {
                return Ok(Created::KeyUsed(used));
            }
        }
    }

    pub(super) async fn key_used(&self, task: &NewTask, now: Moment) -> Result<Option<KeyedCreate>> {
        let Some(CreateKey { key, .. }) = &task.key else { return Ok(None) };
        let used_after = now.before(KEY_RETENTION);
        statement!(self, |db| run(db, FORGET_KEY, &[&task.account, key, &used_after]))?;
        self.keyed_create(task.account, key, now).await
    }

    pub(super) async fn create_failed(
        &self,
        task: &NewTask,
        spendable: Money,
        now: Moment,
    ) -> Result<Created> {
        let _turn = self.purse_queues.enter(task.account).await?;
        loop {
            if statement!(self, |db| create_failed(db, task, spendable, now))? {
                return Ok(Created::Failed);
            }
            if let Some(used) = self.key_used(task, now).await? {
                return Ok(Created::KeyUsed(used));
            }
        }
    }

    async fn create_in_batch(&self, create: Arc<Create>) -> Result<Verdict> {
        let (reply, decided) = oneshot::channel();
        if self.creates.enqueue(WaitingCreate { create, reply }) {
            // Spawned, because the caller may drop this call while other callers wait for the same statement.
            tokio::spawn(self.clone().write_batches());
        }
        let lost = "the service ends, or its statement has panicked";
        decided.await.map_err(|_| Error::in_doubt("creating a task", lost))?
    }

    async fn write_batches(self) {
        while let Some(batch) = self.creates.next_batch() {
            let locked = surviving(self.write_batch(CREATE_OF_FREE, batch)).await;
            for locked in locked.unwrap_or_default() {
                let account = locked.create.task.account;
                if self.creates.enqueue_locked(locked) {
                    tokio::spawn(self.clone().write_locked(account));
                }
            }
        }
    }

    async fn write_locked(self, account: AccountId) {
        while let Some(batch) = self.creates.next_locked(account) {
            match self.purse_queues.enter(account).await {
                Ok(_turn) => drop(surviving(self.write_batch(CREATE, batch)).await),
                Err(cause) => refuse(batch, &Error::from(cause)),
            }
        }
    }

    async fn write_batch(&self, sql: &str, batch: Vec<WaitingCreate>) -> Vec<WaitingCreate> {
        let tasks: Vec<&Create> = batch.iter().map(|waiting| &*waiting.create).collect();
        let mut locked = Vec::new();
        match statement!(self, |db| write(db, sql, &tasks)) {
            Ok(verdicts) => {
                for (waiting, verdict) in batch.into_iter().zip(verdicts) {
                    match verdict {
                        Verdict::Locked => locked.push(waiting),
                        verdict => drop(waiting.reply.send(Ok(verdict))),
                    }
                }
            }
            Err(cause) => refuse(batch, &cause),
        }
        locked
    }
}

fn refuse(batch: Vec<WaitingCreate>, cause: &Error) {
    for waiting in batch {
        let _ = waiting.reply.send(Err(cause.again()));
    }
}

async fn create_within(
    tx: &Transaction<'_>,
    spending: &Spending,
    create: &Create,
) -> PostgresResult<Verdict> {
    let Create { task, now, .. } = create;
    lock(tx, &[task.account]).await?;
    let day = now.day();
    let spent = one(tx, SPENT_BY_KEY, &[&spending.key, &day], column).await?;
    if let Some(left) = spending.refuse(spent, task.price) {
        return Ok(Verdict::Created(Created::KeyLimit { left }));
    }
    let verdict = write(tx, CREATE, &[create]).await?.pop().unwrap_or(Verdict::Alone);
    if matches!(verdict, Verdict::Created(Created::Queued)) {
        run(tx, ADD_KEY_TASK, &[&spending.key, &day, &task.id, &task.price]).await?;
    }
    Ok(verdict)
}

async fn write(db: &impl GenericClient, sql: &str, creates: &[&Create]) -> PostgresResult<Vec<Verdict>> {
    fn column<'a, T>(creates: &[&'a Create], value: impl Fn(&'a Create) -> T) -> Vec<T> {
        creates.iter().map(|create| value(create)).collect()
    }
    let rows = all(
        db,
        sql,
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
            &column(creates, |create| create.task.key.as_ref().map(|key| &*key.key)),
            &column(creates, |create| create.task.key.as_ref().map(|key| &*key.request)),
            &column(creates, |create| create.task.traceparent.as_deref()),
        ],
        Written::read,
    )
    .await;
    match rows {
        // The server has refused the whole batch because of one create.
        Err(Failure::Postgres(cause))
            if is_key_used(&cause) || (creates.len() > 1 && is_of_a_value(&cause)) =>
        {
            Ok(creates.iter().map(|_| Verdict::Alone).collect())
        }
        rows => rows?
            .into_iter()
            .zip(creates)
            .map(|(written, create)| written.verdict(create, creates.len() == 1))
            .collect(),
    }
}

struct Written {
    /// Purses before the statement; None if there is no such account.
    purses: Option<Purses>,
    unfinished: Option<i64>,
    sequence: Option<i64>,
    of_account: i64,
    is_passed_over: bool,
}

impl Written {
    fn read(row: &dyn Row) -> FromSqlResult<Self> {
        let (free, balance): (Option<Money>, Option<Money>) = pair(row)?;
        let purses = free.zip(balance).map(|(free, balance)| Purses { free, balance, ..Purses::default() });
        Ok(Self {
            purses,
            unfinished: row.get(2)?,
            sequence: row.get(3)?,
            of_account: row.get(4)?,
            is_passed_over: row.get(5)?,
        })
    }

    fn verdict(self, create: &Create, is_alone: bool) -> PostgresResult<Verdict> {
        if self.sequence.is_some() {
            return Ok(Verdict::Created(Created::Queued));
        }
        let (Some(purses), Some(unfinished)) = (self.purses, self.unfinished) else {
            let unknown = || Error::new("creating a task", "its account is not there").into();
            return if is_alone { Err(unknown()) } else { Ok(Verdict::Alone) };
        };
        if self.is_passed_over {
            return Ok(Verdict::Locked);
        }
        if self.of_account > 1 {
            return Ok(Verdict::Alone);
        }
        let spendable = purses.spendable();
        Ok(if unfinished >= i64::from(create.max_unfinished) {
            Verdict::Created(Created::TooManyUnfinished)
        } else if spendable < create.task.price {
            Verdict::Created(Created::Refused { spendable })
        } else {
            Verdict::Alone
        })
    }
}

async fn create_failed(
    db: &impl GenericClient,
    task: &NewTask,
    spendable: Money,
    now: Moment,
) -> PostgresResult<bool> {
    let message = task.insufficient(spendable);
    let detail = detail_of(&message);
    let NewTask { id, account, model, version, publisher, price, input, key, .. } = task;
    let request = key.as_ref().map(|key| &*key.request);
    let key = key.as_ref().map(|key| &*key.key);
    let written = run(
        db,
        "WITH placed AS (UPDATE purses SET tasks = tasks + 1 WHERE account = $2 RETURNING tasks - 1 AS place), \
         keyed AS (INSERT INTO create_keys (account, key, request, task, created_at) \
           SELECT $2, $11::text, $12::text, $1, $10::bigint WHERE $11::text IS NOT NULL) \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
           held_balance, message, input, error, created_at, updated_at) \
         SELECT $1, $2, place, $3, $4, $5, 'failed', $6, 0, 0, $7, $8, $9, $10, $10 FROM placed",
        &[id, account, model, version, publisher, price, &message, input, &detail, &now, &key, &request],
    )
    .await;
    match written {
        Err(Failure::Postgres(cause)) if is_key_used(&cause) => Ok(false),
        written => written.map(|_| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> WaitingCreate {
        waiting_for(AccountId(1)).0
    }

    fn waiting_for(account: AccountId) -> (WaitingCreate, oneshot::Receiver<Result<Verdict>>) {
        let task = NewTask {
            id: String::new(),
            account,
            model: String::new(),
            version: 1,
            publisher: AccountId(1),
            price: Money::ZERO,
            input: String::new(),
            key: None,
            traceparent: None,
            spending: None,
        };
        let create = Create { task, max_unfinished: 1, now: Moment(0) };
        let (reply, decided) = oneshot::channel();
        (WaitingCreate { create: Arc::new(create), reply }, decided)
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

    #[test]
    fn creates_of_a_locked_account_collect_for_a_statement_of_their_own() {
        let creates = Creates::default();
        assert!(creates.enqueue(waiting()));
        let batch = creates.next_batch().unwrap_or_default();
        let begins: Vec<bool> = batch.into_iter().map(|waiting| creates.enqueue_locked(waiting)).collect();
        assert_eq!(begins, [true]);
        assert!(creates.next_batch().is_none(), "the statement is over");
        assert!(!creates.enqueue(waiting()) && !creates.enqueue_locked(waiting()), "they join the first one");
        assert!(creates.enqueue(waiting_for(AccountId(2)).0), "others do not");
        assert_eq!(creates.next_locked(AccountId(1)).map(|batch| batch.len()), Some(3));
        assert!(creates.next_locked(AccountId(1)).is_none());
        assert!(creates.enqueue_locked(waiting()), "it was free in between");
    }

    #[tokio::test]
    async fn a_batch_that_panics_fails_its_creates_and_no_later_ones() {
        let creates = Creates::default();
        let (lost, decided) = waiting_for(AccountId(1));
        assert!(creates.enqueue(lost));
        while let Some(batch) = creates.next_batch() {
            let write = async { assert!(batch.is_empty(), "this panics") };
            assert!(surviving(write).await.is_none());
        }
        assert!(decided.await.is_err(), "nobody will decide");
        assert!(creates.enqueue(waiting()), "the statement that panicked is over");
    }
}
