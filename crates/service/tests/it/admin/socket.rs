//! The same requests of the operator, to a running service through its socket and to a stopped service.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use inferstore_service::{AdminClient, Config};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::support::{Bench, Caller, TestResult, start};

#[tokio::test]
async fn a_leaked_key_is_revoked_while_the_service_runs() -> TestResult {
    let mut bench = Bench::start().await?;
    bench.admin.call("POST", &["accounts"], Some(json!({"account": "lena"}).to_string())).await?;
    let drawn = bench.admin.call("POST", &["accounts", "lena", "keys"], None).await?;
    let key = drawn["api_key"].as_str().unwrap_or_default();
    let caller = Caller::new(&bench.service, key)?;
    assert_eq!(caller.status("/api-key/balance").await?, 200);
    bench.admin.call("POST", &["keys", "revoke"], Some(json!({"key": key}).to_string())).await?;
    assert_eq!(caller.status("/api-key/balance").await?, 401);
    let again = bench.admin.call("POST", &["keys", "revoke"], Some(json!({"key": key}).to_string())).await;
    assert!(again.is_err_and(|error| error.is_refused()), "it is revoked already");
    Ok(())
}

#[tokio::test]
async fn credits_and_prices_change_while_the_service_runs() -> TestResult {
    let mut bench = Bench::start().await?;
    let before = bench.caller.get("/api-key/balance").await?;
    bench
        .admin
        .call("POST", &["accounts", "demo", "credits"], Some(json!({"paid": "2.5"}).to_string()))
        .await?;
    let after = bench.caller.get("/api-key/balance").await?;
    assert_eq!((before["balance"].as_str(), after["balance"].as_str()), (Some("100"), Some("102.5")));
    let change = json!({"price": "0.5", "is_verified": true});
    bench.admin.call("PATCH", &["models", "haze-removal"], Some(change.to_string())).await?;
    let cost = bench.caller.get("/api-key/model/haze-removal/task/cost").await?;
    assert_eq!(cost["cost"].to_string(), "0.5");
    let unknown =
        bench.admin.call("PATCH", &["models", "a/b"], Some(json!({"price": "1"}).to_string())).await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("\"a/b\"")), "segments are escaped");
    Ok(())
}

#[tokio::test]
async fn the_texts_of_a_model_change_while_the_service_runs() -> TestResult {
    let mut bench = Bench::start().await?;
    let before = bench.caller.get("/api-key/model/haze-removal").await?;
    let change = json!({"name": "clear_view", "metadata": {"pretty_name": "Clear view"}});
    bench.admin.call("PATCH", &["models", "haze-removal"], Some(change.to_string())).await?;
    let after = bench.caller.get("/api-key/model/haze-removal").await?;
    let mut expected = before.clone();
    expected["name"] = json!("clear_view");
    expected["model_metadata"]["pretty_name"] = json!("Clear view");
    expected["updated_at"] = after["updated_at"].clone();
    assert_eq!(after, expected, "the other fields of the metadata stay");
    for (refused, why) in [
        (json!({"name": " "}), "needs a name"),
        (json!({"description": "a".repeat(10_001)}), "at most 10000 bytes"),
        (json!({"metadata": {"model_id": "other"}}), "unknown field `model_id`"),
        (json!({"metadata": {"library": "pillow"}}), "a sequence"),
    ] {
        let refused = bench.admin.call("PATCH", &["models", "haze-removal"], Some(refused.to_string())).await;
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(why)), "{refused:?}");
    }
    let unknown = json!({"metadata": {"license": "MIT"}}).to_string();
    let unknown = bench.admin.call("PATCH", &["models", "absent"], Some(unknown)).await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("no such model")));
    let log = bench.admin.call("GET", &["log"], None).await?;
    let actions = log["actions"].as_array().ok_or("there are actions")?;
    let logged = actions.iter().map(|action| action["body"].as_str().unwrap_or_default());
    assert_eq!(logged.collect::<Vec<_>>(), [change.to_string()]);
    Ok(())
}

#[tokio::test]
async fn the_socket_is_for_the_user_of_the_service_alone_and_ends_with_it() -> TestResult {
    let bench = Bench::start().await?;
    let socket = bench.folder.path().join("admin.sock");
    assert_eq!(std::fs::metadata(&socket)?.permissions().mode() & 0o777, 0o600);
    bench.service.shutdown().await;
    assert!(!socket.exists());
    Ok(())
}

#[tokio::test]
async fn a_socket_left_by_a_killed_service_stops_nobody() -> TestResult {
    let folder = tempfile::tempdir()?;
    start(folder.path()).await?.shutdown().await;
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("admin.sock"))?);
    let mut stopped = AdminClient::open(folder.path()).await?;
    stopped.call("GET", &["accounts"], None).await?;
    stopped.close().await;
    let service = start(folder.path()).await?;
    let mut running = AdminClient::open(folder.path()).await?;
    assert!(format!("{running:?}").contains("Running"));
    running.call("GET", &["accounts"], None).await?;
    service.shutdown().await;
    Ok(())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_service_is_administered_although_the_path_of_its_data_is_long() -> TestResult {
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("long".repeat(50));
    let service = start(&folder).await?;
    let mut running = AdminClient::open(&folder).await?;
    assert!(format!("{running:?}").contains("Running"));
    running.call("GET", &["accounts"], None).await?;
    service.shutdown().await;
    assert!(!folder.join("admin.sock").exists());
    Ok(())
}

#[tokio::test]
async fn a_stopped_service_takes_the_same_requests_and_keeps_what_they_change() -> TestResult {
    let folder = tempfile::tempdir()?;
    let first = start(folder.path()).await?;
    let key = first.api_key().unwrap_or_default().to_owned();
    first.shutdown().await;
    let mut admin = AdminClient::open(folder.path()).await?;
    assert!(format!("{admin:?}").contains("Stopped"));
    let second = AdminClient::open(folder.path()).await;
    assert!(second.is_err_and(|error| error.is_folder_taken()), "a folder has one user at a time");
    admin.call("POST", &["accounts", "demo", "credits"], Some(json!({"free": "1"}).to_string())).await?;
    let audit = admin.call("GET", &["audit"], None).await?;
    assert_eq!(audit["faults"], json!([]));
    admin.close().await;
    let service = start(folder.path()).await?;
    let balance = Caller::new(&service, &key)?.get("/api-key/balance").await?;
    assert_eq!(balance["free_balance"], "6");
    Ok(())
}

#[tokio::test]
async fn a_refusal_names_what_is_wrong() -> TestResult {
    let mut bench = Bench::start().await?;
    for (method, path, body, wanted) in [
        ("POST", ["accounts", "stranger", "keys"], None, "there is no account \"stranger\""),
        ("POST", ["accounts", "demo", "credits"], Some(json!({"paid": "a lot"}).to_string()), "is no amount"),
        ("POST", ["accounts", "demo", "credits"], Some(json!({}).to_string()), "give paid or free"),
        (
            "POST",
            ["accounts", "demo", "credits"],
            Some(json!({"paid": "1", "free": "1"}).to_string()),
            "give paid or free",
        ),
        ("POST", ["accounts", "demo", "credits"], Some(json!({"paid": "-1"}).to_string()), "not above zero"),
        ("GET", ["accounts", "demo", "nothing"], None, "there is nothing at"),
    ] {
        let refused = bench.admin.call(method, &path, body).await.err().ok_or("it is refused")?;
        assert!(refused.to_string().contains(wanted), "{path:?}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn half_a_request_does_not_keep_the_service_from_ending() -> TestResult {
    let mut config = Config::ephemeral();
    config.shutdown_timeout = Duration::from_millis(100);
    let bench = Bench::with(config).await?;
    let mut stream = UnixStream::connect(bench.folder.path().join("admin.sock")).await?;
    stream.write_all(b"GET /accounts HTTP/1.1\r\nhost: ").await?;
    // Connections are accepted in order: after this call, the half request is in progress.
    AdminClient::open(bench.folder.path()).await?.call("GET", &["accounts"], None).await?;
    tokio::time::timeout(Duration::from_secs(5), bench.service.shutdown()).await?;
    Ok(())
}
