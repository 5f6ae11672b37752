//! Creates per second of one and of several processes, beside a bare loop of INSERTs on the same server: a program
//! to be run by hand. With `fsync`, as the server of an installation has it: `INFERSTORE_TEST_FSYNC=on`.

#![expect(clippy::print_stdout, reason = "what it finds out is for a person")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::super::PostgresDatabase;
use super::super::statements::run;
use super::server::Empty;
use crate::accounts::{AccountId, Accounts as _, NewAccount, Scope};
use crate::clock::Moment;
use crate::database::conformance::{Fixture, MODEL};
use crate::ledger::{Credit, Ledger as _, Money};
use crate::queue::{Created, InsufficientBalance, NewTask, Queue as _};
use crate::random::Randomness;

const TIME: Duration = Duration::from_secs(5);
/// How many creates each process has under way.
const AT_ONCE: usize = 16;

/// Runs work in as many loops as each process has, and returns how often it was done each second.
async fn per_second<F>(processes: &[PostgresDatabase], work: impl Fn(PostgresDatabase, usize) -> F) -> f64
where
    F: Future<Output = ()> + Send,
{
    let done = AtomicUsize::new(0);
    let began = Instant::now();
    let loops = (0..processes.len() * AT_ONCE).map(|number| {
        let (process, done, work) = (processes[number % processes.len()].clone(), &done, &work);
        async move {
            while began.elapsed() < TIME {
                work(process.clone(), done.fetch_add(1, Ordering::Relaxed)).await;
            }
        }
    });
    join_all(loops).await;
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn creates_per_second() {
    let fixture = Fixture::new(Empty::new()).await;
    let mut accounts: Vec<AccountId> = Vec::new();
    for number in 0..50 {
        let new = NewAccount::draw(&format!("account-{number}"), Scope::Personal, &fixture.random).unwrap();
        let account = fixture.database.add_account(&new, Moment(0)).await.unwrap().id;
        let funds = Credit::Paid(Money::from_smallest(1 << 50));
        fixture.database.credit(account, funds, Moment(0)).await.unwrap();
        accounts.push(account);
    }
    let processes = join_all((0..3).map(|_| fixture.engine.process())).await;
    fixture.engine.execute("CREATE TABLE bare (id BIGINT GENERATED ALWAYS AS IDENTITY, input TEXT)").await;
    for count in [1, 3] {
        let processes = &processes[..count];
        let bare = per_second(processes, |process, _| async move {
            let connection = process.connection().await.unwrap();
            run(&connection, "INSERT INTO bare (input) VALUES ($1)", &[&"{}"]).await.unwrap();
        });
        println!("{count} processes, bare INSERT: {:.0}/s", bare.await);
        for spread in [1, 50] {
            let accounts: Arc<[AccountId]> = accounts[..spread].into();
            let (version, publisher) = (fixture.version, fixture.operator);
            let creates = per_second(processes, |process, number| {
                let account = accounts[number % accounts.len()];
                async move {
                    let task = NewTask {
                        id: Randomness::new(None).uuid().unwrap(),
                        account,
                        model: MODEL.to_owned(),
                        version,
                        publisher,
                        price: Money::from_smallest(1),
                        input: "{}".to_owned(),
                    };
                    let created =
                        process.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0));
                    assert_eq!(created.await.unwrap(), Created::Queued);
                }
            });
            println!("{count} processes, {spread} accounts: {:.0} creates/s", creates.await);
        }
    }
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}
