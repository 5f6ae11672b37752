//! Benchmark: creates per second of one and of three processes, compared with a plain loop of INSERTs on the same
//! server, and by the number of existing tasks: `cargo xtask bench cluster`. Each process is a process of the system.
//! The server syncs as in an installation.

#![expect(clippy::print_stdout, reason = "what it finds out is for a person")]

mod process;

use std::fmt::Write as _;
use std::time::Duration;

use inferstore_measure::{Better, Row, figure, median};
use process::{By, Figures, Processes, Work};

use super::server::Empty;
use crate::accounts::{AccountId, NewAccount, Scope};
use crate::clock::Moment;
use crate::database::conformance::Fixture;
use crate::ledger::{Credit, Money};

const ROUNDS: usize = 7;
const DURING: Duration = Duration::from_millis(1_500);
const ACCOUNTS: usize = 50;

const ONE: By = By { processes: 1, callers: 48 };
const THREE: By = By { processes: 3, callers: 16 };
const A_THIRD: By = By { processes: 1, callers: 16 };

/// Latency of a commit that another site confirms, in microseconds.
const COMMIT_DELAY: u32 = 20_000;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

async fn filled() -> (Fixture<Empty>, Vec<AccountId>) {
    let fixture = Fixture::new(Empty::new()).await;
    let mut accounts = Vec::new();
    for number in 0..ACCOUNTS {
        let new = NewAccount::draw(&format!("account-{number}"), Scope::Personal, &fixture.random).unwrap();
        let account = fixture.database.add_account(&new, Moment(0)).await.unwrap().id;
        let funds = Credit::Paid(Money::from_smallest(1 << 50));
        fixture.database.credit(account, funds, Moment(0)).await.unwrap();
        accounts.push(account);
    }
    fixture.engine.execute("CREATE TABLE bare (id BIGINT GENERATED ALWAYS AS IDENTITY, input TEXT)").await;
    (fixture, accounts)
}

struct Series(Vec<Figures>);

impl Series {
    fn rates(&self) -> Vec<f64> {
        self.0.iter().map(|figures| figures.per_second).collect()
    }

    fn costs(&self) -> String {
        let of = |read: fn(&Figures) -> f64| median(&self.0.iter().map(read).collect::<Vec<_>>());
        let server = of(|figures| figures.server);
        let per_work = of(|figures| figures.server / figures.per_second * 1e6);
        let ours = of(|figures| figures.processes);
        format!("PostgreSQL {server:.2} cores ({per_work:.0} µs each), processes {ours:.2}")
    }
}

fn row(what: &str, ours: &Series, against: &str, theirs: &Series, minimum: f64) {
    let row = Row {
        group: "cluster".to_owned(),
        what: what.to_owned(),
        against: against.to_owned(),
        unit: "/s".to_owned(),
        better: Better::Higher,
        ours: ours.rates(),
        theirs: theirs.rates(),
        minimum: Some(minimum),
        note: Some(format!("ours: {}; theirs: {}", ours.costs(), theirs.costs())),
        command: "cargo xtask bench cluster".to_owned(),
    };
    row.print();
}

#[test]
#[ignore = "a measurement"]
fn creates_per_second() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (fixture, _) = runtime.block_on(filled());
    let mut processes = Processes::start(&runtime.block_on(fixture.engine.url()), 3);
    let one_account = Work::Creates { accounts: 1 };
    let creates = Work::Creates { accounts: ACCOUNTS };
    let kinds =
        [(Work::Bare, ONE), (Work::Bare, THREE), (creates, ONE), (creates, THREE), (one_account, THREE)];
    let [bare, bare_by_3, one, three, one_account] = processes.rounds(kinds);
    row("creates of 50 accounts, 1 process", &one, "a loop of bare INSERTs, 1 process", &bare, 0.5);
    row(
        "creates of 50 accounts, 3 processes",
        &three,
        "a loop of bare INSERTs, 3 processes",
        &bare_by_3,
        0.5,
    );
    row("bare INSERTs, 3 processes", &bare_by_3, "1 process", &bare, 1.0);
    row("creates of 50 accounts, 3 processes", &three, "1 process", &one, 1.0);
    row("creates of one account, 3 processes", &one_account, "50 accounts, 3 processes", &three, 0.1);

    runtime.block_on(commit_delay(&fixture, COMMIT_DELAY));
    let [one, three] = processes.rounds([(creates, A_THIRD), (creates, THREE)]);
    runtime.block_on(commit_delay(&fixture, 0));
    row("creates of 50 accounts, 3 processes, commits of 20 ms", &three, "1 of these", &one, 2.0);
    let faults = runtime.block_on(fixture.database.audit()).unwrap().faults;
    assert_eq!(faults, [""; 0]);
}

async fn commit_delay(fixture: &Fixture<Empty>, microseconds: u32) {
    fixture.engine.execute(&format!("ALTER SYSTEM SET commit_delay = {microseconds}")).await;
    fixture.engine.execute("ALTER SYSTEM SET commit_siblings = 0").await;
    fixture.engine.execute("SELECT pg_reload_conf()").await;
}

#[test]
#[ignore = "a measurement"]
fn growth_to_a_million_tasks() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (fixture, accounts) = runtime.block_on(filled());
    let mut processes = Processes::start(&runtime.block_on(fixture.engine.url()), 1);
    let mut sizes = Vec::new();
    let mut there = 0;
    for size in SIZES {
        runtime.block_on(fill(&fixture, &accounts, there, size));
        there = size;
        let [creates] = processes.rounds([(Work::Creates { accounts: ACCOUNTS }, ONE)]);
        println!("{} tasks: {}; {}", figure(size as f64), figure(median(&creates.rates())), creates.costs());
        sizes.push(creates);
    }
    // Logarithmic growth: a lookup among 1,000,000 rows takes log 1,000,000 / log 10,000 times as long as among 10,000.
    row("creates among 1,000,000 tasks", &sizes[2], "among 10,000", &sizes[0], 0.67);
    let faults = runtime.block_on(fixture.database.audit()).unwrap().faults;
    assert_eq!(faults, [""; 0]);
}

async fn fill(fixture: &Fixture<Empty>, accounts: &[AccountId], from: usize, to: usize) {
    let each = (to - from) / accounts.len();
    let mut sql = String::new();
    for AccountId(account) in accounts {
        let _ = write!(
            sql,
            "INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
               held_balance, input, created_at, updated_at) \
             SELECT gen_random_uuid(), {account}, tasks + number, 'echo', {version}, 1, 'canceled', 0, 0, 0, '{{}}', 0, 0 \
             FROM purses CROSS JOIN generate_series(0, {each} - 1) AS numbers (number) WHERE account = {account}; \
             UPDATE purses SET tasks = tasks + {each} WHERE account = {account}; ",
            version = fixture.version,
        );
    }
    fixture.engine.execute(&sql).await;
    fixture.engine.execute("VACUUM (ANALYZE) tasks").await;
}
