//! Many concurrent creates with few idempotency keys: one task per key, paid once.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use inferstore_api::{ApiKey, Client, Error, types};
use inferstore_service::{Config, Credit, Money, Scope};
use serde_json::json;

use super::super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, audited};
use crate::support::deployment::Deployment;

/// Price of a run of `MODEL`, in billionths.
const PRICE: i64 = 50_000_000;

const KEYS: usize = 12;
const DUPLICATES: usize = 8;

/// Creates a task by one of both paths. `None`: the balance is insufficient.
async fn create(api: &Client, number: usize, by_alias: bool) -> Option<String> {
    let model = types::ModelId::new(MODEL);
    let key: types::IdempotencyKey = format!("key-{number}").parse().expect("it is visible ASCII");
    let image = format!("https://files.example/{number}.png");
    let inputs = json!({ "angle": "30", "input_image": image, "template": "v_shape" });
    let inputs = types::TaskInput(inputs.as_object().expect("it is an object").clone());
    let created = if by_alias {
        api.create_task_alias(&model, Some(&key), &inputs).await
    } else {
        api.create_task(&model, Some(&key), &inputs).await
    };
    match created {
        Ok(created) => Some(created.into_inner().data.data.to_string()),
        Err(Error::UnexpectedResponse(response)) if response.status() == 402 => None,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_duplicates_make_one_task_for_each_affordable_key() {
    let intensity = Intensity::of_this_run();
    let (rounds, mut random) = (intensity.times(2, 50), intensity.random());
    let mut config = Config::ephemeral();
    config.workers = 0;
    let service = Deployment::start(config).await;
    for round in 0..rounds {
        let username = format!("crowd-{round}");
        service.add_account(&username, Scope::Personal).await.expect("the account is new");
        let covered = random.i64(1..KEYS as i64);
        let credit = Credit::Paid(Money::from_smallest(covered * PRICE));
        service.credit(&username, credit).await.expect("credited");
        let key = service.add_key(&username).await.expect("a key");
        let api = Client::new(service.base_url(), ApiKey::new(key)).expect("a client can be made");

        let mut numbers: Vec<usize> = (0..KEYS * DUPLICATES).map(|number| number % KEYS).collect();
        random.shuffle(&mut numbers);
        let mut tasks: BTreeMap<usize, BTreeSet<Option<String>>> = BTreeMap::new();
        for _ in 0..2 {
            let creates = numbers.iter().map(|number| create(&api, *number, random.bool()));
            for (number, task) in numbers.iter().zip(join_all(creates).await) {
                tasks.entry(*number).or_default().insert(task);
            }
        }
        assert!(tasks.values().all(|of_key| of_key.len() == 1), "one result for each key: {tasks:?}");
        let created: BTreeSet<_> = tasks.values().flatten().flatten().collect();
        assert_eq!(created.len() as i64, covered, "{tasks:?}");
        let history = api.list_tasks(None, None).await.expect("it is listed").into_inner().data;
        assert_eq!(history.total, Some(covered));
        let balance = api.get_balance().await.expect("it is read").into_inner().data.balance;
        assert_eq!(balance.expect("there is one").to_string(), "0");
        audited(&service).await;
    }
    service.shutdown().await;
    tell(&format!(
        "{rounds} crowds of {KEYS} keys x {DUPLICATES} creates: one task for each key that was covered"
    ));
}
