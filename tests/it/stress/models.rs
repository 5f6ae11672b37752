//! The process of built-in models is killed during runs: no task is lost or billed wrongly, and the service
//! continues.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use inferstore::Inputs;

use super::{Intensity, tell};
use crate::client::Quickly;
use crate::client::on_the_service::audited;
use crate::nodes::built_in::{model_processes, picture, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_process_that_is_killed_costs_nothing_and_loses_nothing() {
    let intensity = Intensity::of_this_run();
    let kills = intensity.times(3, 50);
    // A path of its own, because other tests of this process run models that must not be killed.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("model-worker");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_model-worker"), &program).expect("the folder is ours");
    let (service, client) = start(|config| {
        config.workers = 2;
        config.model_process = Some(vec![program.clone().into()]);
    })
    .await;
    let is_over = Arc::new(AtomicBool::new(false));
    let killer = std::thread::spawn({
        let (is_over, program, random) = (Arc::clone(&is_over), program.clone(), intensity.random());
        move || {
            kill(&program, kills, random);
            is_over.store(true, Ordering::SeqCst);
        }
    });
    let mut random = intensity.random();
    let (mut succeeded, mut failed) = (0_u32, 0_u32);
    let mut running = FuturesUnordered::new();
    let begun = Instant::now();
    while !is_over.load(Ordering::SeqCst) || !running.is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(240),
            "{succeeded} tasks ended well and {failed} failed"
        );
        if !is_over.load(Ordering::SeqCst) && running.len() < 4 {
            let side = random.usize(100..250);
            let run = client.model("image-to-anime").run(Inputs::new().file("input", picture(side)));
            running.push(async { run.quickly().deadline(Duration::from_secs(120)).await });
            continue;
        }
        match running.next().await {
            Some(Ok(_)) => succeeded += 1,
            Some(Err(error)) => {
                let text = error.to_string();
                assert!(text.contains("the model crashed"), "{text}");
                failed += 1;
            }
            None => {}
        }
    }
    killer.join().expect("the killer does not panic");
    assert!(succeeded > failed, "{succeeded} tasks ended well and {failed} failed");

    let balance = client.balance().await.expect("the service answers");
    let price = client.model("image-to-anime").cost().await.expect("the service answers").cost;
    let price: f64 = price.expect("it has a price").to_string().parse().expect("a number");
    let sum = |text: Option<String>| text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    let free = sum(balance.free_balance.map(|free| free.to_string()));
    let left = sum(balance.balance.map(|balance| balance.to_string())) + free;
    let paid = 105.0 - left;
    assert!((paid - price * f64::from(succeeded)).abs() < 0.01, "{succeeded} at {price} make not {paid}");
    audited(&service).await;
    let outcome =
        client.model("color-extraction").run(Inputs::new().file("input", picture(64))).quickly().await;
    outcome.expect("the service goes on");
    service.shutdown().await;
    tell(&format!(
        "{kills} kills of a process in a run: {succeeded} tasks succeeded and were paid, {failed} failed"
    ));
}

fn kill(program: &Path, kills: usize, mut random: fastrand::Rng) {
    let mut killed = 0;
    while killed < kills {
        std::thread::sleep(Duration::from_millis(random.u64(20..250)));
        let busy = model_processes(program).into_iter().find(|process| is_busy(*process));
        if let Some(process) = busy.and_then(rustix::process::Pid::from_raw)
            && rustix::process::kill_process(process, rustix::process::Signal::KILL).is_ok()
        {
            killed += 1;
        }
    }
}

fn is_busy(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && line.contains('R'))
}
