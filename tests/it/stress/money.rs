//! Balances never become negative, and every task is charged or refunded, for any number of concurrent
//! callers.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use inferstore::types::TaskStatus;
use inferstore::{Client, Error};
use inferstore_service::{Config, Credit, InsufficientBalance, Money, Scope};

use super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, audited, client_of, start, success};
use crate::client::{Quickly, built, inputs, quick};
use crate::support::deployment::Deployment;

const PRICE: i64 = 50_000_000;

const CROWD: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creates_of_two_keys_spend_the_balance_exactly() {
    let intensity = Intensity::of_this_run();
    let (rounds, mut random) = (intensity.times(2, 50), intensity.random());
    let mut covered = 0;
    for otherwise in [InsufficientBalance::Refuse, InsufficientBalance::FailTask] {
        let mut config = Config::ephemeral();
        (config.workers, config.insufficient_balance) = (0, otherwise);
        let service = Deployment::start(config).await;
        for round in 0..rounds {
            let paid = random.i64(1..CROWD as i64 * PRICE);
            let free = random.i64(1..8 * PRICE);
            let account = Account::with(&service, &format!("crowd-{round}"), paid, free).await;
            covered += account.spend_it_all(otherwise, (paid + free) / PRICE).await;
            account.get_it_back(paid, free).await;
            audited(&service).await;
        }
        service.shutdown().await;
    }
    tell(&format!("{} crowds of {CROWD} creates: {covered} covered, none overspent", 2 * rounds));
}

struct Account(Vec<Client>);

impl Account {
    async fn with(service: &Deployment, username: &str, paid: i64, free: i64) -> Self {
        service.add_account(username, Scope::Personal).await.expect("the account is new");
        let amount = Money::from_smallest;
        for credit in [Credit::Paid(amount(paid)), Credit::Free(amount(free))] {
            service.credit(username, credit).await.expect("credited");
        }
        let mut callers = Vec::new();
        for _ in 0..2 {
            let key = service.add_key(username).await.expect("a key");
            callers.push(built(quick(service.base_url(), key)));
        }
        Self(callers)
    }

    async fn spend_it_all(&self, otherwise: InsufficientBalance, affordable: i64) -> i64 {
        let creates = (0..CROWD).map(|number| {
            let model = self.0[number % self.0.len()].model(MODEL);
            tokio::spawn(
                model
                    .run(inputs().set("angle", "30"))
                    .quickly()
                    .options(|options| options.skip_validation = true)
                    .start(),
            )
        });
        let (mut created, mut refused) = (0, 0);
        for create in join_all(creates).await {
            match create.expect("no caller panicked") {
                Ok(_) => created += 1,
                Err(Error::Api(context)) if context.status == Some(402) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        let covered = affordable.min(CROWD as i64);
        let statuses = self.statuses().await;
        let count = |status| statuses.iter().filter(|(_, has)| *has == status).count() as i64;
        let (queued, failed) = (count(TaskStatus::InQueue), count(TaskStatus::Failed));
        let rest = CROWD as i64 - covered;
        match otherwise {
            InsufficientBalance::Refuse => {
                assert_eq!((created, refused, queued, failed), (covered, rest, covered, 0));
            }
            _ => assert_eq!((created, refused, queued, failed), (CROWD as i64, 0, covered, rest)),
        }
        covered
    }

    /// Cancels each task by both callers at once: one succeeds, and the price is refunded once, to its purse.
    async fn get_it_back(&self, paid: i64, free: i64) {
        let queued = self.statuses().await.into_iter().filter(|(_, status)| *status == TaskStatus::InQueue);
        let cancels = queued.map(|(id, _)| {
            let both: Vec<_> = self.0.iter().map(|caller| caller.task(&id)).collect();
            async move { join_all(both.iter().map(|task| task.cancel())).await }
        });
        for results in join_all(cancels).await {
            let canceled = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(canceled, 1, "exactly one caller canceled it: {results:?}");
        }
        let reported = self.0[0].balance().await.expect("it is reported");
        let amount = |billionths: i64| Money::from_smallest(billionths).to_string().parse().ok();
        assert_eq!((reported.balance, reported.free_balance), (amount(paid), amount(free)));
    }

    async fn statuses(&self) -> Vec<(inferstore::types::TaskId, TaskStatus)> {
        let records: Vec<_> = self.0[0].tasks().list().try_collect().await.expect("they are listed");
        let known = |status: Option<TaskStatus>| status.expect("a task has a status");
        records.into_iter().map(|record| (record.task_id, known(record.status))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cancel_and_a_start_exactly_one_wins_and_is_reported() {
    let rounds = Intensity::of_this_run().times(150, 5_000);
    let (service, controls, client) = start().await;
    controls.let_model(MODEL, success()).await.expect("it succeeds");
    let credit = Credit::Paid(Money::from_smallest(i64::from(rounds) * PRICE));
    controls.credit("demo", credit).await.expect("credited");
    let before = spendable(&client).await;
    // Callers continue from the last undecided race.
    let racers = (0..4).map(|number| {
        let client = client_of(&service);
        async move { race(&client, rounds / 4, Duration::from_micros(200 * number)).await }
    });
    let ended: Vec<_> = stream::iter(racers).buffer_unordered(4).collect().await;
    let canceled: i64 = ended.iter().map(|(canceled, _)| canceled).sum();
    let charged: i64 = ended.iter().map(|(_, charged)| charged).sum();
    assert!(canceled > 0 && charged > 0, "one side always won: {canceled} to {charged}");
    assert_eq!(before - spendable(&client).await, charged * PRICE, "what ran was charged, and nothing else");
    let counted = controls.tasks().await.expect("they can be counted");
    assert_eq!((counted["canceled"] as i64, counted["success"] as i64), (canceled, charged));
    audited(&service).await;
    tell(&format!(
        "{} races of cancel and start: {canceled} canceled, {charged} charged",
        canceled + charged
    ));
}

/// Creates tasks and cancels each a moment later: later after each success, sooner after each failure.
/// Returns the numbers of canceled and of charged tasks.
async fn race(client: &Client, rounds: u32, first: Duration) -> (i64, i64) {
    let (mut pause, mut canceled, mut charged) = (first, 0, 0);
    for _ in 0..rounds {
        let run = client
            .model(MODEL)
            .run(inputs().set("angle", "30"))
            .options(|options| options.skip_validation = true);
        let task = run.start().await.expect("it is created");
        tokio::time::sleep(pause).await;
        match task.cancel().await {
            Ok(()) => {
                let seen = task.get().await.expect("it can be read");
                assert_eq!((seen.status, seen.cost), (Some(TaskStatus::Canceled), "0".parse().ok()));
                canceled += 1;
                pause = pause.mul_f64(1.3) + Duration::from_micros(50);
            }
            Err(Error::Api(context)) if context.status == Some(409) => {
                let outcome = task.wait().quickly().await.expect("it runs to its end");
                assert_eq!(outcome.cost, "0.05".parse().ok());
                charged += 1;
                pause = pause.mul_f64(0.6);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    (canceled, charged)
}

async fn spendable(client: &Client) -> i64 {
    let reported = client.balance().await.expect("it is reported");
    let amounts = [reported.balance, reported.free_balance].into_iter().flatten();
    amounts.map(|amount| amount.to_string().parse::<Money>().expect("an amount").smallest()).sum()
}
