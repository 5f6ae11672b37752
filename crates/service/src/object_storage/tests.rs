//! What cannot be seen with one personal key: organizations, the balance at upload time, the clock,
//! what the log holds, what the rest of the service does with objects.

use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::{MAX_FORM_FILE, Target};
use crate::accounts::{Account, NewAccount, NewKey, Scope};
use crate::ledger::{Credit, Money};
use crate::lifecycle::app::App;
use crate::random::Randomness;
use crate::{Config, Service};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LARGE: u64 = MAX_FORM_FILE + 1;

/// Adds an account that has something to spend, and a key of it.
async fn account(app: &App, name: &str, scope: Scope) -> Outcome<(Account, String)> {
    let (random, now) = (Randomness::new(None), app.clock.now());
    let account = app.database.add_account(&NewAccount::draw(name, scope, &random)?, now).await?;
    app.database.credit(account.id, Credit::Paid(Money::from_smallest(1_000)), now).await?;
    let key = NewKey::draw(&random)?;
    app.database.add_key(account.id, &key.kept, now).await?;
    Ok((account, key.text))
}

async fn call(service: &Service, key: &str, method: &str, path: &str, body: Value) -> Outcome<(u16, Value)> {
    let url = format!("{}/api-key/storage{path}", service.base_url());
    let request = client()?.request(method.parse()?, url).header("x-api-key", key);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let response = request.send().await?;
    Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
}

fn client() -> Outcome<reqwest::Client> {
    Ok(inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?)
}

async fn presign(service: &Service, key: &str, organization: Option<&str>) -> Outcome<(u16, Value)> {
    let mut body = json!({ "folder": "samples", "mime": "text/plain", "name": "shared.bin", "size": LARGE });
    if let Some(organization) = organization {
        body["org_username"] = json!(organization);
    }
    let (status, mut answer) = call(service, key, "POST", "/upload/create-presigned-url", body).await?;
    Ok((status, answer["data"].take()))
}

/// Puts the bytes and returns the status and S3's code.
async fn put(target: &Value) -> Outcome<(u16, String)> {
    let request = client()?.put(target["endpoint"].as_str().unwrap_or_default());
    let request = request.header("content-type", "text/plain").body(vec![5; LARGE as usize]);
    let response = request.send().await?;
    let (status, text) = (response.status().as_u16(), response.text().await?);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    Ok((status, code.map(|(code, _)| code.to_owned()).unwrap_or_default()))
}

async fn total(service: &Service, key: &str) -> Outcome<u64> {
    let (_, answer) = call(service, key, "GET", "/upload/samples", Value::Null).await?;
    answer["data"]["total"].as_u64().ok_or_else(|| format!("{answer}").into())
}

#[tokio::test]
async fn members_upload_into_the_storage_of_their_organization_and_nobody_else_does() -> Outcome {
    let service = Service::start(Config::ephemeral()).await?;
    let app = &service.app;
    let (_, stranger) = account(app, "stranger", Scope::Personal).await?;
    let (member, member_key) = account(app, "member", Scope::Personal).await?;
    let (organization, organization_key) = account(app, "studio", Scope::Organization).await?;
    app.database.add_member(organization.id, member.id).await?;

    assert_eq!(presign(&service, &stranger, Some("studio")).await?.0, 403);
    assert_eq!(presign(&service, &member_key, Some("nobody")).await?.0, 403);
    assert_eq!(presign(&service, &stranger, Some("member")).await?.0, 403);
    let (status, target) = presign(&service, &member_key, Some("studio")).await?;
    assert_eq!((status, put(&target).await?.0), (200, 200));
    assert_eq!(total(&service, &organization_key).await?, 1);
    assert_eq!(total(&service, &member_key).await?, 0);
    // What is stored is metered where it is stored.
    assert_eq!(app.database.usage(organization.id).await?.bytes, LARGE);

    let url = json!({"url": target["download_url"]});
    for key in [&stranger, &member_key] {
        assert_eq!(call(&service, key, "DELETE", "/store/url", url.clone()).await?.0, 404);
    }
    assert_eq!(call(&service, &organization_key, "DELETE", "/store/url", url).await?.0, 200);

    // Whoever has left uploads no more, not even to a target from before.
    let (_, target) = presign(&service, &member_key, Some("studio")).await?;
    assert!(service.remove_member("studio", "member").await?);
    assert!(!service.remove_member("studio", "member").await?);
    assert_eq!(put(&target).await?, (403, "AccessDenied".to_owned()));
    assert_eq!(presign(&service, &member_key, Some("studio")).await?.0, 403);
    assert_eq!(total(&service, &organization_key).await?, 0);

    // With the organization's key the name changes nothing, whatever it is.
    let (status, target) = presign(&service, &organization_key, Some("nobody")).await?;
    assert_eq!((status, put(&target).await?.0), (200, 200));
    assert_eq!(total(&service, &organization_key).await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_upload_needs_a_positive_balance_too() -> Outcome {
    let service = Service::start(Config::ephemeral()).await?;
    let app = &service.app;
    let key = service.api_key().unwrap_or_default();
    let (_, target) = presign(&service, key, None).await?;
    // The same target, as if its payer had spent everything since.
    let random = Randomness::new(None);
    let poor = NewAccount::draw("poor", Scope::Personal, &random)?;
    let poor = app.database.add_account(&poor, app.clock.now()).await?;
    let id = target["endpoint"].as_str().and_then(|url| url.split("x-target=").nth(1));
    let id = id.and_then(|rest| rest.split('&').next()).unwrap_or_default();
    let stored = app.database.target(id).await?.ok_or("the target is not stored")?;
    let unpaid = Target { id: random.uuid()?, payer: poor.id, ..stored };
    app.database.add_target(&unpaid).await?;
    let unpaid = json!({"endpoint": app.objects.presign(&unpaid, Duration::from_secs(60))?.endpoint});

    assert_eq!(put(&unpaid).await?, (403, "AccessDenied".to_owned()));
    assert_eq!(total(&service, key).await?, 0);
    app.database.credit(poor.id, Credit::Free(Money::from_smallest(1)), app.clock.now()).await?;
    assert_eq!(put(&unpaid).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn targets_expire_by_the_clock_of_the_service_and_are_forgotten() -> Outcome {
    let service = Service::start(Config::ephemeral()).await?;
    let key = service.api_key().unwrap_or_default();
    let (_, target) = presign(&service, key, None).await?;
    service.app.clock.advance(Duration::from_secs(15 * 60 + 1));
    assert_eq!(put(&target).await?, (403, "AccessDenied".to_owned()));
    let (_, target) = presign(&service, key, None).await?;
    assert_eq!(put(&target).await?.0, 200);
    let app = &service.app;
    assert_eq!(app.database.forget_targets(app.clock.now()).await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_stored_is_billed_for_as_long_as_it_is_stored() -> Outcome {
    let service = Service::start(Config::ephemeral()).await?;
    let app = &service.app;
    let key = service.api_key().unwrap_or_default();
    let owner = app.database.account("demo").await?.ok_or("no account")?.id;
    let (_, target) = presign(&service, key, None).await?;
    put(&target).await?;
    // The same bytes again are not stored twice.
    put(&target).await?;
    let rate = crate::ledger::StorageRate { per_gib_day: Money::from_smallest(1 << 30) };
    let before = app.database.purses(owner).await?.spendable();
    app.clock.advance(Duration::from_secs(86_400));
    app.database.charge_storage(rate, app.clock.now()).await?;
    let after = app.database.purses(owner).await?.spendable();
    let charged = before.checked_sub(after).map(Money::smallest).unwrap_or_default();
    // One smallest unit for every byte and day, give or take the seconds that the test takes.
    assert!((LARGE as i64..LARGE as i64 + 10_000).contains(&charged), "{charged}");

    call(&service, key, "DELETE", "/store/url", json!({"url": target["download_url"]})).await?;
    app.database.charge_storage(rate, app.clock.now()).await?;
    let deleted = app.database.purses(owner).await?.spendable();
    app.clock.advance(Duration::from_secs(86_400));
    app.database.charge_storage(rate, app.clock.now()).await?;
    assert_eq!(app.database.purses(owner).await?.spendable(), deleted);
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn outputs_have_a_url_and_are_no_files_of_anybody() -> Outcome {
    let service = Service::start(Config::ephemeral()).await?;
    let app = &service.app;
    let account = app.database.account("demo").await?.ok_or("no account")?;
    let mut url = String::new();
    // A task that runs again stores its output again.
    for text in ["first", "second"] {
        let key = "outputs/1/output image.txt";
        url = app.objects.store_output(app, &account.bucket, key, "text/plain", text).await?;
    }
    assert_eq!(client()?.get(&url).send().await?.text().await?, "second");
    let (bucket, key) = app.objects.locate(&url).ok_or("not a URL of ours")?;
    let opened = app.objects.read(&bucket, &key).await?.ok_or("not stored")?;
    assert_eq!(opened.object.mime, "text/plain");
    assert_eq!(opened.bytes().await?, b"second");
    assert_eq!(app.objects.locate("http://example.com/b/k"), None);
    assert_eq!(app.database.usage(account.id).await?.files, 0);
    let owner_deletes =
        call(&service, service.api_key().unwrap_or_default(), "DELETE", "/store/url", json!({"url": url}));
    assert_eq!(owner_deletes.await?.0, 404);
    Ok(())
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_holds_no_signature_whatever_its_level() -> Outcome {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let service = Service::start(Config::ephemeral()).await?;
    let (_, target) = presign(&service, service.api_key().unwrap_or_default(), None).await?;
    let endpoint = target["endpoint"].as_str().unwrap_or_default();
    assert_eq!(put(&target).await?.0, 200);
    assert_eq!(put(&json!({"endpoint": endpoint.replace("Expires=9", "Expires=8")})).await?.0, 403);
    std::fs::remove_dir_all(service.data_folder().join("objects/blobs"))?;
    let url = target["download_url"].as_str().unwrap_or_default();
    assert_eq!(client()?.get(url).send().await?.status(), 500);

    let logged = String::from_utf8(log.0.lock().unwrap_or_else(PoisonError::into_inner).clone())?;
    assert!(logged.contains("its bytes are missing"), "the failure is not logged");
    // The client of this test logs what it does on the same thread; only lines of ours are looked at.
    let ours = logged.lines().filter(|line| !line.contains("reqwest") && !line.contains("hyper_util"));
    let secret = endpoint.split("X-Amz-Signature=").nth(1).unwrap_or("no signature");
    let told: Vec<_> = ours.filter(|line| line.contains(secret) || line.contains("X-Amz-")).collect();
    assert!(told.is_empty(), "{told:?}");
    Ok(())
}
