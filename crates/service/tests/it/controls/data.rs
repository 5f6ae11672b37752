//! Reset and balances.

use inferstore_api::operations;
use inferstore_service::{Amounts, Config, Credit, Fault, ModelChange, Money, Scope, Script};
use reqwest::Method;

use super::support::{Bench, MODEL, TestResult};

fn price(amount: &str) -> TestResult<ModelChange> {
    Ok(ModelChange { price: Some(amount.parse()?), ..ModelChange::default() })
}

#[tokio::test]
async fn a_reset_restores_the_start_and_keeps_the_key_valid() -> TestResult {
    let bench = Bench::start().await?;
    let before = bench.balance().await?;
    bench.controls.let_model(MODEL, Script::succeed(serde_json::json!({"output": "#000000"}))).await?;
    let done = bench.create().await?;
    bench.until(&done, &["success"]).await?;
    bench.controls.let_model(MODEL, Script::stay_queued()).await?;
    bench.create().await?;
    let url = bench.store("note.txt", "text/plain", b"a note").await?;
    bench.service.add_account("somebody", Scope::Personal).await?;
    bench.service.change_model(MODEL, price("7")?).await?;
    bench.controls.advance_clock(std::time::Duration::from_hours(1)).await?;
    assert_ne!(bench.balance().await?, before);

    bench.controls.reset().await?;

    assert_eq!(bench.balance().await?, before);
    assert_eq!((bench.tasks().await?, bench.read(&url).await?.0), (0, 404));
    assert_eq!(bench.get("/api-key/storage/upload/statistics").await?["total_files"], 0);
    assert_eq!(bench.call(Method::GET, &format!("/api-key/task/{done}/detail"), None).await?.0, 404);
    assert!(bench.service.add_account("somebody", Scope::Personal).await.is_ok(), "the name is free again");
    let price = bench.get(&format!("/api-key/model/{MODEL}/task/cost")).await?["cost"].clone();
    assert_eq!(price.to_string(), "0.05");
    assert!(bench.controls.scripts().is_empty() && bench.controls.faults().is_empty());
    bench.audit().await
}

#[tokio::test]
async fn a_reset_restores_keys_and_models_in_use_at_once() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.add_account("somebody", Scope::Personal).await?;
    bench.service.change_model(MODEL, price("7")?).await?;
    let first_key = std::mem::replace(&mut bench.caller.key, bench.service.add_key("somebody").await?);
    let cost = format!("/api-key/model/{MODEL}/task/cost");
    assert_eq!(bench.get(&cost).await?["cost"].to_string(), "7");

    bench.controls.reset().await?;

    assert_eq!(bench.call(Method::GET, &cost, None).await?.0, 401, "the key came after the start");
    bench.caller.key = first_key;
    assert_eq!(bench.get(&cost).await?["cost"].to_string(), "0.05");
    Ok(())
}

#[tokio::test]
async fn a_service_goes_on_working_after_a_reset_in_the_middle_of_its_work() -> TestResult {
    let bench = Bench::start().await?;
    for _ in 0..5 {
        bench.controls.let_model(MODEL, Script::run().after(std::time::Duration::from_mins(1))).await?;
        let running = bench.create().await?;
        bench.until(&running, &["computing"]).await?;
        bench.controls.reset().await?;
        bench.controls.let_model(MODEL, Script::succeed(serde_json::json!({"output": "#fff"}))).await?;
        let next = bench.create().await?;
        bench.until(&next, &["success"]).await?;
        assert_eq!(bench.tasks().await?, 1);
        let url = bench.store("note.txt", "text/plain", b"a note").await?;
        assert_eq!(bench.read(&url).await?, (200, "a note".to_owned()));
        bench.audit().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reset_while_clients_write_leaves_books_that_add_up() -> TestResult {
    let bench = Bench::start().await?;
    for _ in 0..10 {
        let creates = (0..20).map(|_| bench.try_create());
        let (created, reset) = tokio::join!(futures_util::future::join_all(creates), bench.controls.reset());
        reset?;
        for response in created {
            assert_eq!(response?.0, 200);
        }
        bench.audit().await?;
    }
    Ok(())
}

#[tokio::test]
async fn balances_are_set_and_credited_and_the_books_add_up() -> TestResult {
    let bench = Bench::start().await?;
    let money = |text: &str| text.parse::<Money>().ok();
    let poor = Amounts { balance: money("0"), free_balance: money("0"), debt: money("3.5") };
    bench.controls.set_balance("demo", poor).await?;
    let balance = bench.balance().await?;
    let shown = ["balance", "free_balance", "debt"].map(|name| balance[name].as_str().map(str::to_owned));
    assert_eq!(shown.map(Option::unwrap_or_default), ["0", "0", "3.5"]);
    assert_eq!(bench.try_create().await?.0, 402);
    bench.controls.credit("demo", Credit::Free("1".parse()?)).await?;
    assert_eq!(bench.try_create().await?.0, 200);
    bench.controls.credit("demo", Credit::Paid("5".parse()?)).await?;
    assert_eq!(bench.balance().await?["debt"], "0", "a payment settles the debt first");
    let negative = Amounts { balance: money("-1"), ..Amounts::default() };
    assert!(bench.controls.set_balance("demo", negative).await.is_err());
    assert!(bench.controls.set_balance("stranger", poor).await.is_err());
    bench.audit().await
}

#[tokio::test]
async fn the_same_seed_gives_the_same_identifiers_again_after_a_reset() -> TestResult {
    let mut config = Config::ephemeral().with_controls();
    config.seed = Some(7);
    let bench = Bench::with(config).await?;
    bench.controls.add_fault(Fault::hang_up().on(operations::GET_TASK).with_probability(0.5))?;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let id = bench.create().await?;
        seen.push(id);
        bench.controls.reset().await?;
    }
    assert_eq!(seen[0], seen[1]);
    Ok(())
}

#[tokio::test]
async fn a_reset_goes_back_to_the_baseline() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.service.add_account("alice", Scope::Personal).await?;
    bench.service.credit("alice", Credit::Paid("12.5".parse()?)).await?;
    bench.service.change_model(MODEL, price("0.25")?).await?;
    bench.controls.set_baseline().await?;
    let key = bench.service.add_key("alice").await?;
    bench.caller.key.clone_from(&key);
    bench.create().await?;
    bench.service.change_model(MODEL, price("7")?).await?;

    bench.controls.reset().await?;
    assert_eq!(bench.call(Method::GET, "/api-key/balance", None).await?.0, 401, "the key is newer");
    bench.caller.key = bench.service.add_key("alice").await?;
    assert_eq!(bench.balance().await?["balance"], "12.5");
    assert_eq!(bench.get(&format!("/api-key/model/{MODEL}")).await?["price"], 0.25);
    assert_eq!(bench.tasks().await?, 0);
    bench.audit().await
}
