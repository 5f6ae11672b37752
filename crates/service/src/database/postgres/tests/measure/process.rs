//! Worker processes of the benchmark: each repeats the work of an input line for a while, and reports the count.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::super::server::server;
use super::{DURING, ROUNDS, Series};
use crate::accounts::AccountId;
use crate::catalog::Catalog as _;
use crate::clock::Moment;
use crate::database::conformance::MODEL;
use crate::database::postgres::PostgresDatabase;
use crate::database::postgres::statements::{all, run};
use crate::database::records::column;
use crate::ledger::Money;
use crate::queue::{Created, InsufficientBalance, NewTask, Queue as _};
use crate::random::Randomness;

const URL: &str = "INFERSTORE_MEASURE_URL";
const DONE: &str = "done ";

#[derive(Clone, Copy)]
pub(super) enum Work {
    Bare,
    Creates { accounts: usize },
}

impl Work {
    const fn accounts(self) -> usize {
        match self {
            Self::Bare => 0,
            Self::Creates { accounts } => accounts,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct By {
    pub(super) processes: usize,
    pub(super) callers: usize,
}

pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) server: f64,
    pub(super) processes: f64,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str) -> Self {
        let name = format!("{}::a_process_that_is_measured", module_path!().split_once("::").unwrap().1);
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture", &name]).env(URL, url);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn begin(&mut self, work: Work, callers: usize) {
        writeln!(self.input, "{} {callers}", work.accounts()).unwrap();
    }

    fn end(&mut self) -> usize {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "a process has ended");
            if let Some((_, count)) = line.split_once(DONE) {
                return count.trim().parse().unwrap();
            }
        }
    }
}

pub(super) struct Processes(Vec<Process>);

impl Processes {
    pub(super) fn start(url: &str, count: usize) -> Self {
        Self((0..count).map(|_| Process::start(url)).collect())
    }

    /// Measures the works in turns, so that a busy moment affects all of them.
    pub(super) fn rounds<const WORKS: usize>(&mut self, works: [(Work, By); WORKS]) -> [Series; WORKS] {
        // The first measurement prepares the statements.
        for (work, by) in works {
            self.measure(work, by);
        }
        let mut series = works.map(|_| Series(Vec::new()));
        for _ in 0..ROUNDS {
            for (series, (work, by)) in series.iter_mut().zip(works) {
                series.0.push(self.measure(work, by));
            }
        }
        series
    }

    fn measure(&mut self, work: Work, by: By) -> Figures {
        let processes = &mut self.0[..by.processes];
        let cpu =
            |processes: &[Process]| processes.iter().map(|process| cpu_of(process.child.id())).sum::<f64>();
        let before = (cpu(processes), cpu_of_server());
        let began = Instant::now();
        for process in &mut *processes {
            process.begin(work, by.callers);
        }
        let done: usize = processes.iter_mut().map(Process::end).sum();
        let time = began.elapsed().as_secs_f64();
        Figures {
            per_second: done as f64 / time,
            processes: (cpu(processes) - before.0) / time,
            server: (cpu_of_server() - before.1) / time,
        }
    }
}

fn numbers(process: u32) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    Some(after_name.split(' ').map(|word| word.trim().parse().unwrap_or(0)).collect())
}

const TICKS: f64 = 100.0;

fn cpu_of(process: u32) -> f64 {
    inferstore_measure::processor_time(process).unwrap_or(0.0)
}

fn cpu_of_server() -> f64 {
    let main = server().process();
    let ended = numbers(main).map_or(0, |numbers| numbers[13] + numbers[14]);
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_server = all.filter(|process| numbers(*process).is_some_and(|it| it[1] == u64::from(main)));
    of_server.map(cpu_of).sum::<f64>() + cpu_of(main) + ended as f64 / TICKS
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is started by a measurement"]
async fn a_process_that_is_measured() {
    let Ok(url) = env::var(URL) else { return };
    let database = PostgresDatabase::open(&url).await.unwrap();
    let connection = database.connection().await.unwrap();
    let select = "SELECT id FROM accounts WHERE username LIKE 'account-%' ORDER BY id";
    let accounts: Vec<AccountId> = all(&connection, select, &[], column).await.unwrap();
    drop(connection);
    for line in stdin().lines() {
        let line = line.unwrap();
        let (count, callers) = line.split_once(' ').unwrap();
        let accounts = Arc::from(&accounts[..count.parse().unwrap()]);
        let done = repeat(&database, &accounts, callers.parse().unwrap()).await;
        println!("{DONE}{done}");
    }
}

async fn repeat(database: &PostgresDatabase, accounts: &Arc<[AccountId]>, callers: usize) -> usize {
    let done = Arc::<AtomicUsize>::default();
    let began = Instant::now();
    let model = database.published(MODEL).await.unwrap().unwrap();
    let (version, publisher) = (model.version.id, AccountId(1));
    let loops = (0..callers).map(|_| {
        let (database, done, accounts) = (database.clone(), Arc::clone(&done), Arc::clone(accounts));
        tokio::spawn(async move {
            while began.elapsed() < DURING {
                let number = done.fetch_add(1, Ordering::Relaxed);
                match accounts.get(number % accounts.len().max(1)) {
                    None => insert(&database).await,
                    Some(account) => create(&database, *account, version, publisher).await,
                }
            }
        })
    });
    for ended in loops.collect::<Vec<_>>() {
        ended.await.unwrap();
    }
    done.load(Ordering::Relaxed)
}

async fn insert(database: &PostgresDatabase) {
    let connection = database.connection().await.unwrap();
    run(&connection, "INSERT INTO bare (input) VALUES ($1)", &[&"{}"]).await.unwrap();
}

async fn create(database: &PostgresDatabase, account: AccountId, version: i64, publisher: AccountId) {
    let task = NewTask {
        id: Randomness::new(None).uuid().unwrap(),
        account,
        model: MODEL.to_owned(),
        version,
        publisher,
        price: Money::from_smallest(1),
        input: "{}".to_owned(),
        key: None,
        traceparent: None,
        spending: None,
    };
    let created = database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0)).await;
    assert_eq!(created.unwrap(), Created::Queued);
}
