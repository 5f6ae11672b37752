//! Group commit of creates: each create has the same result as in a statement of its own.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::server::Empty;
use crate::accounts::{AccountId, NewAccount, Scope};
use crate::clock::Moment;
use crate::database::conformance::{Fixture, MODEL};
use crate::ledger::{Credit, Money};
use crate::queue::{CreateKey, Created, InsufficientBalance, NewTask, Queue as _};

const NOW: Moment = Moment(1_000_000);
const PRICE: i64 = 3;

pub(super) async fn account(fixture: &Fixture<Empty>, name: &str, free: i64, paid: i64) -> AccountId {
    let new = NewAccount::draw(name, Scope::Personal, &fixture.random).unwrap();
    let account = fixture.database.add_account(&new, NOW).await.unwrap().id;
    for funds in [Credit::Free(Money::from_smallest(free)), Credit::Paid(Money::from_smallest(paid))] {
        fixture.database.credit(account, funds, NOW).await.unwrap();
    }
    account
}

pub(super) fn task(fixture: &Fixture<Empty>, account: AccountId, price: i64) -> NewTask {
    NewTask { account, ..fixture.task(Money::from_smallest(price)) }
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn creates_that_share_a_statement_are_decided_one_by_one() {
    let fixture = Fixture::new(Empty::new()).await;
    let poor = account(&fixture, "poor", 2 * PRICE + 1, 8 * PRICE - 1).await;
    let rich = account(&fixture, "rich", 0, 1 << 40).await;
    let limited = account(&fixture, "limited", 0, 1 << 40).await;
    let mut creates = Vec::new();
    for _ in 0..30 {
        creates.push((task(&fixture, poor, PRICE), u32::MAX));
        creates.push((task(&fixture, rich, PRICE), u32::MAX));
        creates.push((task(&fixture, limited, PRICE), 7));
    }
    creates.push((task(&fixture, rich, i64::MAX), u32::MAX));
    creates.push((task(&fixture, rich, i64::MAX), u32::MAX));
    creates.push((task(&fixture, AccountId(1 << 40), PRICE), u32::MAX));
    let create = |(task, max): &(NewTask, u32)| {
        let (database, task, max) = (fixture.database.clone(), task.clone(), *max);
        async move { database.create_task(&task, InsufficientBalance::Refuse, max, NOW).await }
    };
    let created = join_all(creates.iter().map(create)).await;

    let queued = |account: AccountId| {
        let all = creates.iter().zip(&created).filter(|((task, _), _)| task.account == account);
        all.filter(|(_, created)| matches!(created, Ok(Created::Queued))).count()
    };
    assert_eq!((queued(poor), queued(rich), queued(limited)), (10, 30, 7));
    for ((task, _), created) in creates.iter().zip(created) {
        match created {
            Ok(Created::Queued) => {}
            Ok(Created::Refused { .. }) => assert!(task.account == poor || task.price.smallest() == i64::MAX),
            Ok(Created::TooManyUnfinished) => assert_eq!(task.account, limited),
            other => assert_eq!(task.account, AccountId(1 << 40), "{other:?}"),
        }
    }
    let purses = fixture.database.purses(poor).await.unwrap();
    assert_eq!((purses.free, purses.balance), (Money::ZERO, Money::ZERO));
    assert_eq!(purses.held, Money::from_smallest(10 * PRICE));
    for (account, tasks) in [(poor, 10), (rich, 30), (limited, 7)] {
        let (page, total) = fixture.database.history(account, 100, 0).await.unwrap();
        assert_eq!((page.len(), total), (tasks, tasks as u64));
    }
    for (task, _) in creates.iter().filter(|(task, _)| task.account == poor) {
        fixture.database.cancel(poor, &task.id, NOW).await.unwrap();
    }
    let purses = fixture.database.purses(poor).await.unwrap();
    assert_eq!(purses.free, Money::from_smallest(2 * PRICE + 1));
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn creates_with_one_key_in_several_processes_make_one_task() {
    let fixture = Fixture::new(Empty::new()).await;
    fixture
        .database
        .credit(fixture.customer, Credit::Paid(Money::from_smallest(1 << 40)), NOW)
        .await
        .unwrap();
    let processes = join_all((0..3).map(|_| fixture.engine.process())).await;
    for round in 0..20 {
        let key = format!("key-{round}");
        // Mixed with creates without a key, whose statement a used key must not fail.
        let creates = (0..24).map(|number| {
            let database = processes[number % processes.len()].clone();
            let key = (number % 4 > 0).then(|| CreateKey::new(key.clone(), MODEL, &[]));
            let task = NewTask { key, ..task(&fixture, fixture.customer, PRICE) };
            tokio::spawn(async move {
                let created = database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, NOW).await;
                (task, created.unwrap())
            })
        });
        let mut tasks = BTreeSet::new();
        for created in join_all(creates).await {
            let (task, created) = created.unwrap();
            match (task.key, created) {
                (Some(_), Created::Queued) => drop(tasks.insert(task.id)),
                (Some(_), Created::KeyUsed(used)) => drop(tasks.insert(used.task)),
                (_, created) => assert_eq!(created, Created::Queued),
            }
        }
        assert_eq!(tasks.len(), 1);
    }
    assert_eq!(fixture.database.history(fixture.customer, 1, 0).await.unwrap().1, 20 * 7);
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn a_create_that_the_database_refuses_fails_alone_and_says_why() {
    let fixture = Fixture::new(Empty::new()).await;
    let rich = account(&fixture, "rich", 0, 1 << 40).await;
    let create = |input: &str| {
        let task = NewTask { input: input.to_owned(), ..task(&fixture, rich, PRICE) };
        let database = fixture.database.clone();
        async move { database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, NOW).await }
    };
    for (refusal, message) in [
        ("ALTER TABLE tasks ADD CONSTRAINT readable CHECK (input <> 'refused')", "readable"),
        (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
               $$ BEGIN RAISE EXCEPTION 'unreadable'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON tasks FOR EACH ROW WHEN (NEW.input = 'refused') \
               EXECUTE FUNCTION refuse()",
            "unreadable",
        ),
    ] {
        fixture.engine.execute(refusal).await;
        let refused = create("refused").await.err().unwrap();
        assert!(refused.to_string().contains(message), "{refused}");
        fixture.engine.execute("ALTER TABLE tasks DROP CONSTRAINT IF EXISTS readable").await;
    }
    fixture.engine.execute("DROP TRIGGER refuse ON tasks").await;
    fixture.engine.execute("ALTER TABLE tasks ADD CONSTRAINT readable CHECK (input <> 'refused')").await;
    let created = join_all(["1", "refused", "2", "3"].map(create)).await;
    let queued: Vec<_> = created.iter().map(|created| matches!(created, Ok(Created::Queued))).collect();
    assert_eq!(queued, [true, false, true, true], "{created:?}");
}
