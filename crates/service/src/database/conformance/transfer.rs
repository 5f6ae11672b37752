//! Everything that a database keeps moves to another one, of another engine, and back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::create_keys::keyed;
use super::queue::slot;
use super::{Engine, File, Fixture, MODEL, RULES, model};
use crate::accounts::{AccountState, KeyRules, NewAccount, NewKey, Scope};
use crate::catalog::{Existing, ModelChange, ModelState};
use crate::clock::Moment;
use crate::database::tables::TableFile;
use crate::database::{self, Database, Durability};
use crate::ledger::{Adjusted, Adjustment, Credit, Money, Purse, StorageRate};
use crate::operator::Action;
use crate::queue::{Created, Ending, InsufficientBalance, NewTask, Spending};

const NOW: Moment = Moment(1_000_000);

fn later(seconds: u64) -> Moment {
    NOW.after(Duration::from_secs(seconds))
}

impl<E: Engine> Fixture<E> {
    async fn fill(&self) {
        let (database, customer) = (&self.database, self.customer);
        database.set_setting("a setting", "its value").await.unwrap();
        let studio = NewAccount::draw("studio", Scope::Organization, &self.random).unwrap();
        let studio = database.add_account(&studio, NOW).await.unwrap().id;
        database.add_member(studio, customer).await.unwrap();
        let closed = self.account("closed").await.id;
        database.set_state(closed, AccountState::Closed, NOW).await.unwrap();

        let mut key = NewKey::chosen("isk_ruled_secretsecret").unwrap().kept;
        let models = Some(vec![MODEL.to_owned()]);
        let daily_limit = Some(Money::from_smallest(50));
        key.rules = KeyRules {
            name: Some("\"night\"\n\\".to_owned()),
            expires_at: Some(later(9)),
            daily_limit,
            models,
        };
        database.add_key(customer, &key, NOW).await.unwrap();
        database.add_key(closed, &NewKey::chosen("isk_gone_secretsecret").unwrap().kept, NOW).await.unwrap();
        database.revoke_key("gone", later(1)).await.unwrap();

        let credit = Adjustment {
            purse: Purse::Balance,
            amount: Money::from_smallest(i64::MAX / 4),
            reference: Some("invoice 1".to_owned()),
            note: Some("paid".to_owned()),
        };
        assert_eq!(database.adjust(customer, &credit, NOW).await.unwrap(), Adjusted::Done);
        database.credit(customer, Credit::Free(Money::from_smallest(7)), NOW).await.unwrap();

        let file = |name: &str, size| File { name: name.to_owned(), ..File::of_size(size) };
        self.upload(customer, customer, &file("ä \u{1f600}", 5 << 30), NOW).await;
        self.upload(studio, customer, &file("of a member", 3), NOW).await;
        self.upload(customer, customer, &file("deleted", 4), NOW).await;
        self.delete(customer, &file("deleted", 4), NOW).await;
        self.add_target(customer, customer, &file("unused", 9), later(900)).await;
        database.set_quota(customer, Some(1 << 40)).await.unwrap();
        let rate = StorageRate { per_gib_day: Money::from_smallest(1_000_000) };
        database.charge_storage(rate, later(100_000), Duration::MAX).await.unwrap();
        database.credit(self.operator, Credit::Paid(Money::from_smallest(1)), NOW).await.unwrap();

        let mut second = model("second", customer);
        (second.is_public, second.description) = (false, "Ünicode ' \" \\ \u{1}".to_owned());
        database.publish(&[second], Existing::Keep).await.unwrap();
        let paused = ModelChange { state: Some(ModelState::Paused), ..ModelChange::default() };
        assert!(database.change_model("second", paused, NOW).await.unwrap());

        let node_key = NewKey::chosen("isk_nodes_secretsecret").unwrap().kept;
        database.add_node_key("studio", &node_key, Some(&[MODEL.to_owned()]), NOW).await.unwrap();
        database.register("outside", Some("studio"), &[MODEL.to_owned()], later(60)).await.unwrap();

        for _ in 0..2 {
            self.create_task(customer, 3, NOW).await;
            self.succeed(NOW).await;
        }
        database.delete_ended_tasks(later(1), later(1)).await.unwrap();
        self.create_task(customer, 4, later(2)).await;
        self.succeed(later(2)).await;
        let failed = self.create_task(customer, 5, later(3)).await;
        self.claim_one(later(3)).await.unwrap();
        assert!(database.fail_task(&failed, "stopped\0here", later(3)).await.is_ok());
        let canceled = self.create_task(customer, 6, later(4)).await;
        database.cancel(customer, &canceled, later(4)).await.unwrap();
        let spending = Spending { key: "ruled".to_owned(), daily_limit: Money::from_smallest(50) };
        let traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
        let computing =
            NewTask { spending: Some(spending), traceparent, ..self.task(Money::from_smallest(8)) };
        self.create_queued(&computing, later(5)).await;
        self.claim_one(later(5)).await.unwrap();
        self.create_queued(
            &NewTask { input: r#"{"a":"\u0000\\"}"#.to_owned(), ..keyed(self, "queued") },
            later(6),
        )
        .await;
        let action = Action {
            at: NOW,
            request: "POST /accounts".to_owned(),
            body: Some(r#"{"account":"studio"}"#.to_owned()),
            status: 200,
        };
        database.record_action(&action).await.unwrap();
        let former = "INSERT INTO former_urls SELECT blob FROM objects WHERE size = 3";
        self.engine.execute(former).await;
    }

    async fn create_queued(&self, task: &NewTask, now: Moment) {
        let created = self.database.create_task(task, InsufficientBalance::Refuse, 10, now).await.unwrap();
        assert_eq!(created, Created::Queued);
    }
}

async fn transfer(from: &dyn Database, to: &dyn Database) -> Vec<TableFile> {
    let folder = tempfile::tempdir().unwrap();
    let tables = from.export_tables(folder.path()).await.unwrap();
    assert!(to.is_empty().await.unwrap());
    let place = vec![("objects".to_owned(), "identifier".to_owned())];
    to.import_tables(folder.path(), &tables, place.clone()).await.unwrap();
    assert!(!to.is_empty().await.unwrap());
    let refused = to.import_tables(folder.path(), &tables, place).await.err().unwrap();
    assert!(refused.to_string().contains("not empty"), "{refused}");
    assert_eq!(to.setting("objects").await.unwrap().as_deref(), Some("identifier"));
    tables
}

async fn embedded(folder: &Path) -> Arc<dyn Database> {
    database::open(folder, Durability::None).await.unwrap()
}

pub(crate) async fn everything_moves_to_another_engine_and_back(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.fill().await;
    let folder = tempfile::tempdir().unwrap();
    let between = embedded(folder.path()).await;
    let tables = transfer(&*fixture.database, &*between).await;
    let empty: Vec<_> = tables.iter().filter(|table| table.rows == 0).map(|table| &table.name).collect();
    assert_eq!(empty, [""; 0], "the fixture leaves a row in every table");
    let next = fixture.engine.another();
    let moved = next.open().await;
    assert_eq!(transfer(&*between, &*moved).await, tables);

    let audit = fixture.database.audit().await.unwrap();
    assert_eq!(audit.faults, [""; 0]);
    for database in [&between, &moved] {
        assert_eq!(database.audit().await.unwrap(), audit);
        assert_eq!(database.accounts().await.unwrap(), fixture.database.accounts().await.unwrap());
        assert_eq!(database.totals().await.unwrap(), fixture.database.totals().await.unwrap());
        let usage = fixture.database.usage(fixture.customer).await.unwrap();
        assert_eq!(database.usage(fixture.customer).await.unwrap(), usage);
        let (_, account) = database.key("ruled").await.unwrap().unwrap();
        assert_eq!(account.username, "customer");
        assert!(database.key("gone").await.unwrap().is_none());
    }

    let Fixture { random, operator, customer, version, .. } = fixture;
    let fixture = Fixture { engine: next, database: moved, random, operator, customer, version };
    let database = &fixture.database;
    let queued = keyed(&fixture, "queued");
    let again = database.create_task(&queued, InsufficientBalance::Refuse, 10, later(10)).await.unwrap();
    assert!(matches!(again, Created::KeyUsed(_)));
    fixture.create_task(customer, 2, later(10)).await;
    for _ in 0..2 {
        fixture.succeed(later(10)).await;
    }
    let slots = [slot("new")];
    let lease = fixture.claim(RULES, &slots, later(60)).await.pop().unwrap().unwrap();
    let output = Ending::Output("{}".to_owned());
    assert!(database.finish("new", &lease.task, lease.attempt, &output, later(60)).await.unwrap());
    assert_eq!(database.oldest_queued().await.unwrap(), None);
    fixture.upload(customer, customer, &File::of_size(6), later(60)).await;
    fixture.account("new").await;
    database.publish(&[model("third", operator)], Existing::Keep).await.unwrap();
    let history = database.history(customer, 10, 0).await.unwrap();
    assert_eq!((history.0.len(), history.1), (6, 6));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn rows_that_were_changed_are_refused_and_nothing_stays(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    fixture.fill().await;
    let folder = tempfile::tempdir().unwrap();
    let tables = fixture.database.export_tables(folder.path()).await.unwrap();
    let target = fixture.engine.another();
    let database = target.open().await;
    let accounts = TableFile::path(folder.path(), "accounts");
    let text = std::fs::read_to_string(&accounts).unwrap();
    let richer = text.replacen("\"free\":0", "\"free\":9", 1);
    let half = text.split_at(text.len() / 2).0.to_owned();
    let without_last = text.lines().rev().skip(1).collect::<Vec<_>>().join("\n");
    for changed in [richer, half, without_last, String::new(), "[]\n".to_owned(), "{}\n".to_owned()] {
        assert_ne!(changed, text);
        std::fs::write(&accounts, &changed).unwrap();
        let refused = database.import_tables(folder.path(), &tables, Vec::new()).await;
        assert!(refused.is_err(), "{changed}");
        assert!(database.is_empty().await.unwrap(), "{changed}");
    }
    std::fs::write(&accounts, text).unwrap();
    database.import_tables(folder.path(), &tables, Vec::new()).await.unwrap();
    assert_eq!(database.audit().await.unwrap(), fixture.database.audit().await.unwrap());
}
