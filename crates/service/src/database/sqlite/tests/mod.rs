//! What the store promises, tried on a real file.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test may end when its set-up fails")]

mod group_commit;
mod listing;
mod queue;
mod state_table;
mod upgrade;

use serde_json::value::RawValue;

use super::{Durability, SqliteDatabase};
use crate::accounts::{AccountId, Accounts, NewAccount, Scope};
use crate::catalog::{Catalog, Existing, NewModel, NewVersion};
use crate::clock::Moment;
use crate::ledger::Money;
use crate::queue::NewTask;
use crate::random::Randomness;

/// The one model of these tests.
const MODEL: &str = "echo";

/// A store with an operator who publishes one model, and a customer.
struct Fixture {
    folder: tempfile::TempDir,
    database: SqliteDatabase,
    random: Randomness,
    operator: AccountId,
    customer: AccountId,
    version: i64,
}

impl Fixture {
    async fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = open(&folder).await;
        let random = Randomness::new(Some(seed));
        let mut accounts = Vec::new();
        for name in ["operator", "customer"] {
            let account = NewAccount::draw(name, Scope::Personal, &random).unwrap();
            accounts.push(database.add_account(&account, Moment(0)).await.unwrap().id);
        }
        let (operator, customer) = (accounts[0], accounts[1]);
        database.publish(&[model(operator)], Existing::Replace).await.unwrap();
        let version = database.active_version(MODEL).await.unwrap().unwrap().id;
        Self { folder, database, random, operator, customer, version }
    }

    /// Ends the store without order, as a crash does, and opens it again.
    async fn crash(&mut self) {
        self.database = open(&self.folder).await;
    }

    fn task(&self, price: Money) -> NewTask {
        NewTask {
            id: self.random.uuid().unwrap(),
            account: self.customer,
            model: MODEL.to_owned(),
            version: self.version,
            publisher: self.operator,
            price,
            input: "{}".to_owned(),
        }
    }
}

async fn open(folder: &tempfile::TempDir) -> SqliteDatabase {
    SqliteDatabase::open(&folder.path().join("test.db"), Durability::None).await.unwrap()
}

fn model(owner: AccountId) -> NewModel {
    NewModel {
        id: MODEL.to_owned(),
        name: MODEL.to_owned(),
        owner,
        description: "Gives back what it is given.".to_owned(),
        is_official: true,
        is_verified: true,
        is_public: true,
        is_playground: false,
        price: Money::ZERO,
        metadata: RawValue::from_string("{}".to_owned()).unwrap(),
        likes: 0,
        downloads: 0,
        created_at: Moment(0),
        updated_at: Moment(0),
        version: NewVersion {
            commit_hash: "one".to_owned(),
            input_format: "{}".to_owned(),
            output_format: "{}".to_owned(),
        },
    }
}
