//! Tests with organizations, balances at upload time, the clock, the log, and objects in the rest of the service.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use inferstore_models::Output;
use inferstore_wire::until;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::accounts::{Account, NewAccount, NewKey, Scope};
use crate::database::conformance::RULES;
use crate::files::{MAX_FORM_FILE, Replaces, Target};
use crate::ledger::{Credit, Money};
use crate::queue::{Claim, Ending, InsufficientBalance, Lease, LeaseRules, NewTask, Slot};
use crate::random::Randomness;
use crate::{Config, Service};

type TestResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LARGE: u64 = MAX_FORM_FILE + 1;

async fn account(service: &Service, name: &str, scope: Scope) -> TestResult<(Account, String)> {
    let (random, now) = (Randomness::new(None), service.clock.now());
    let account = service.database.add_account(&NewAccount::draw(name, scope, &random)?, now).await?;
    service.database.credit(account.id, Credit::Paid(Money::from_smallest(1_000)), now).await?;
    let key = NewKey::draw(&random)?;
    service.database.add_key(account.id, &key.kept, now).await?;
    Ok((account, key.text))
}

async fn call(
    service: &Service,
    key: &str,
    method: &str,
    path: &str,
    body: Value,
) -> TestResult<(u16, Value)> {
    let url = format!("{}/api-key/storage{path}", service.base_url());
    let request = client()?.request(method.parse()?, url).header("x-api-key", key);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let response = request.send().await?;
    Ok((response.status().as_u16(), serde_json::from_str(&response.text().await?)?))
}

fn client() -> TestResult<reqwest::Client> {
    Ok(inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build()?)
}

async fn presign(service: &Service, key: &str, organization: Option<&str>) -> TestResult<(u16, Value)> {
    let mut body = json!({ "folder": "samples", "mime": "text/plain", "name": "shared.bin", "size": LARGE });
    if let Some(organization) = organization {
        body["org_username"] = json!(organization);
    }
    let (status, mut answer) = call(service, key, "POST", "/upload/create-presigned-url", body).await?;
    Ok((status, answer["data"].take()))
}

async fn put(target: &Value) -> TestResult<(u16, String)> {
    let (status, text) = put_for_text(target).await?;
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    Ok((status, code.map(|(code, _)| code.to_owned()).unwrap_or_default()))
}

async fn put_for_text(target: &Value) -> TestResult<(u16, String)> {
    let request = client()?.put(target["endpoint"].as_str().unwrap_or_default());
    let request = request.header("content-type", "text/plain").body(vec![5; LARGE as usize]);
    let response = request.send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

async fn changed(service: &Service, target: &Value, change: impl FnOnce(&mut Target)) -> TestResult<Value> {
    let id = target["endpoint"].as_str().and_then(|url| url.split("x-target=").nth(1));
    let id = id.and_then(|rest| rest.split('&').next()).unwrap_or_default();
    let mut other = service.database.target(id).await?.ok_or("the target is not stored")?;
    other.id = Randomness::new(None).uuid()?;
    change(&mut other);
    service.database.add_target(&other, 9).await?;
    Ok(json!({"endpoint": service.objects.presign(&other)?.endpoint}))
}

async fn total(service: &Service, key: &str) -> TestResult<u64> {
    let (_, answer) = call(service, key, "GET", "/upload/samples", Value::Null).await?;
    answer["data"]["total"].as_u64().ok_or_else(|| format!("{answer}").into())
}

#[tokio::test]
async fn members_alone_upload_into_the_storage_of_their_organization() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let (_, stranger) = account(&service, "stranger", Scope::Personal).await?;
    let (member, member_key) = account(&service, "member", Scope::Personal).await?;
    let (organization, organization_key) = account(&service, "studio", Scope::Organization).await?;
    service.database.add_member(organization.id, member.id).await?;

    assert_eq!(presign(&service, &stranger, Some("studio")).await?.0, 403);
    assert_eq!(presign(&service, &member_key, Some("unknown")).await?.0, 403);
    assert_eq!(presign(&service, &stranger, Some("member")).await?.0, 403);
    let (status, target) = presign(&service, &member_key, Some("studio")).await?;
    assert_eq!((status, put(&target).await?.0), (200, 200));
    assert_eq!(total(&service, &organization_key).await?, 1);
    assert_eq!(total(&service, &member_key).await?, 0);
    assert_eq!(service.database.usage(organization.id).await?.bytes, LARGE);

    let url = json!({"url": target["download_url"]});
    for (key, status) in [(&stranger, 404), (&member_key, 200), (&organization_key, 404)] {
        assert_eq!(call(&service, key, "DELETE", "/store/url", url.clone()).await?.0, status);
    }
    let (_, target) = presign(&service, &member_key, Some("studio")).await?;
    assert_eq!(put(&target).await?.0, 200);
    let url = json!({"url": target["download_url"]});
    assert_eq!(call(&service, &organization_key, "DELETE", "/store/url", url).await?.0, 200);

    let (_, target) = presign(&service, &member_key, Some("studio")).await?;
    assert!(service.remove_member("studio", "member").await?);
    assert!(!service.remove_member("studio", "member").await?);
    assert_eq!(put(&target).await?, (403, "AccessDenied".to_owned()));
    assert_eq!(presign(&service, &member_key, Some("studio")).await?.0, 403);
    let late = changed(&service, &target, |target| target.is_void = false).await?;
    assert_eq!(put(&late).await?, (403, "AccessDenied".to_owned()));
    assert_eq!(total(&service, &organization_key).await?, 0);

    let (status, target) = presign(&service, &organization_key, Some("unknown")).await?;
    assert_eq!((status, put(&target).await?.0), (200, 200));
    assert_eq!(total(&service, &organization_key).await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_unused_target_of_a_membership_that_ended_is_refused_for_that_reason() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let (member, key) = account(&service, "lena", Scope::Personal).await?;
    let (organization, _) = account(&service, "studio", Scope::Organization).await?;
    service.database.add_member(organization.id, member.id).await?;
    let (_, target) = presign(&service, &key, Some("studio")).await?;
    assert!(service.remove_member("studio", "lena").await?);
    let (status, refusal) = put_for_text(&target).await?;
    assert!(status == 403 && refusal.contains("is not a member of the organization"), "{refusal}");

    service.database.add_member(organization.id, member.id).await?;
    let (status, refusal) = put_for_text(&target).await?;
    assert!(status == 403 && refusal.contains("or the membership has ended since"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn a_member_neither_replaces_nor_finds_files_of_other_members() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let (member, member_key) = account(&service, "member", Scope::Personal).await?;
    let (organization, organization_key) = account(&service, "studio", Scope::Organization).await?;
    service.database.add_member(organization.id, member.id).await?;

    let (_, early) = presign(&service, &member_key, Some("studio")).await?;
    let (_, target) = presign(&service, &organization_key, None).await?;
    assert_eq!(put(&target).await?.0, 200);
    assert_eq!(put(&early).await?, (403, "AccessDenied".to_owned()));
    let stored = service.database.object(&organization.bucket, "samples/shared.bin").await?;
    assert!(
        service.database.is_of_another_payer(&organization.bucket, "samples/shared.bin", member.id).await?
    );
    assert!(stored.is_some_and(|object| object.size == LARGE));
    let (status, refused) = presign(&service, &member_key, Some("studio")).await?;
    assert_eq!((status, refused), (409, Value::Null), "the URL of the file is not revealed");

    let url = json!({"url": target["download_url"]});
    assert_eq!(call(&service, &organization_key, "DELETE", "/store/url", url).await?.0, 200);
    for (key, name) in
        [(&member_key, Some("studio")), (&member_key, Some("studio")), (&organization_key, None)]
    {
        let (_, target) = presign(&service, key, name).await?;
        assert_eq!(put(&target).await?.0, 200);
    }
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn an_upload_needs_a_positive_balance_too() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let key = service.api_key().unwrap_or_default();
    let (_, target) = presign(&service, key, None).await?;
    let poor = NewAccount::draw("poor", Scope::Personal, &Randomness::new(None))?;
    let poor = service.database.add_account(&poor, service.clock.now()).await?;
    let unpaid =
        changed(&service, &target, |target| (target.owner, target.payer) = (poor.id, poor.id)).await?;

    assert_eq!(put(&unpaid).await?, (403, "AccessDenied".to_owned()));
    assert_eq!(total(&service, key).await?, 0);
    service.database.credit(poor.id, Credit::Free(Money::from_smallest(1)), service.clock.now()).await?;
    assert_eq!(put(&unpaid).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_deleted_file_loses_its_bytes_although_its_owner_disconnects() -> TestResult {
    let folder = tempfile::tempdir()?;
    let service = Service::start(Config::folder(folder.path())).await?;
    let (owner, key) = account(&service, "owner", Scope::Personal).await?;
    // Number of polls before the connection is closed. With too few, nothing is deleted.
    for waits in 1..10 {
        let (_, target) = presign(&service, &key, None).await?;
        assert_eq!(put(&target).await?.0, 200);
        let url = format!("{}/api-key/storage/store/url", service.base_url());
        let request = client()?.delete(url).header("x-api-key", &key);
        let request = request.header("content-type", "application/json");
        let body = json!({ "url": target["download_url"] }).to_string();
        let mut response = Box::pin(request.body(body).send());
        for _ in 0..waits {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if futures_util::poll!(&mut response).is_ready() {
                break;
            }
        }
        drop(response);
        until(&format!("no blob without a file, after {waits} waits"), || async {
            let blobs: Vec<_> = service.objects.blobs.blobs().try_concat().await.unwrap_or_default();
            service.database.usage(owner.id).await.is_ok_and(|usage| usage.files == blobs.len() as u64)
        })
        .await;
    }
    assert_eq!(service.database.usage(owner.id).await?.files, 0);
    Ok(())
}

#[tokio::test]
async fn targets_expire_by_the_clock_of_the_service_and_are_forgotten() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let key = service.api_key().unwrap_or_default();
    let (_, target) = presign(&service, key, None).await?;
    service.clock.advance(Duration::from_secs(15 * 60 + 1));
    assert_eq!(put(&target).await?, (403, "AccessDenied".to_owned()));
    let (_, target) = presign(&service, key, None).await?;
    assert_eq!(put(&target).await?.0, 200);
    assert_eq!(service.database.forget_targets(service.clock.now()).await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_stored_is_billed_for_as_long_as_it_is_stored() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let key = service.api_key().unwrap_or_default();
    let owner = service.database.account("demo").await?.ok_or("no account")?.id;
    let (_, target) = presign(&service, key, None).await?;
    put(&target).await?;
    put(&target).await?;
    let rate = crate::ledger::StorageRate { per_gib_day: Money::from_smallest(1 << 30) };
    let before = service.database.purses(owner).await?.spendable();
    service.clock.advance(Duration::from_secs(86_400));
    service.database.charge_storage(rate, service.clock.now(), Duration::MAX).await?;
    let after = service.database.purses(owner).await?.spendable();
    let charged = before.checked_sub(after).map(Money::smallest).unwrap_or_default();
    // One smallest unit for each byte and day, with a tolerance for the seconds of the test.
    assert!((LARGE as i64..LARGE as i64 + 10_000).contains(&charged), "{charged}");

    call(&service, key, "DELETE", "/store/url", json!({"url": target["download_url"]})).await?;
    service.database.charge_storage(rate, service.clock.now(), Duration::MAX).await?;
    let deleted = service.database.purses(owner).await?.spendable();
    service.clock.advance(Duration::from_secs(86_400));
    service.database.charge_storage(rate, service.clock.now(), Duration::MAX).await?;
    assert_eq!(service.database.purses(owner).await?.spendable(), deleted);
    assert_eq!(service.audit().await?.faults, [""; 0]);
    Ok(())
}

pub(crate) struct Painter;

impl inferstore_models::Model for Painter {
    fn kind(&self) -> &'static str {
        "low-light-enhancement"
    }

    fn run(
        &self,
        _: &inferstore_models::Inputs,
        _: &inferstore_models::Limits,
    ) -> Result<Vec<(&'static str, Output)>, inferstore_models::Error> {
        let picture = Output::File { bytes: b"picture".to_vec(), mime: "image/png", extension: "png" };
        Ok(vec![("output_image", picture)])
    }
}

async fn painted(config: Config) -> TestResult<(Service, String, String)> {
    let service = Service::start_with_models(config, vec![Arc::new(Painter)]).await?;
    let key = service.api_key().unwrap_or_default();
    let (_, target) = presign(&service, key, None).await?;
    put(&target).await?;
    let http = client()?;
    let path = format!("{}/api-key/model/low-light-enhancement/task", service.base_url());
    let body = json!({ "input_image": target["download_url"] });
    let create = http.post(path).header("x-api-key", key).header("content-type", "application/json");
    let created: Value = serde_json::from_str(&create.body(body.to_string()).send().await?.text().await?)?;
    let task = created["data"]["data"].as_str().ok_or_else(|| created.to_string())?.to_owned();
    let detail = format!("{}/api-key/task/{task}/detail", service.base_url());
    loop {
        let read = http.get(&detail).header("x-api-key", key).send().await?.text().await?;
        let read: Value = serde_json::from_str(&read)?;
        if let Some(url) = read["data"]["result"]["result"]["output_image"].as_str() {
            return Ok((service, task, url.to_owned()));
        }
        if read["data"]["status"] == "failed" {
            return Err(read.to_string().into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const REMOTE: &str = "color-extraction";

fn without_remote() -> Config {
    let mut config = Config::ephemeral();
    config.excluded_models.insert(REMOTE.to_owned());
    config
}

async fn leased(service: &Service) -> TestResult<Lease> {
    let now = service.clock.now();
    let published = service.database.published(REMOTE).await?.ok_or("no such model")?;
    let customer = service.database.account("demo").await?.ok_or("no account")?;
    let task = NewTask {
        id: service.random.uuid()?,
        account: customer.id,
        model: REMOTE.to_owned(),
        version: published.version.id,
        publisher: published.model.owner,
        price: Money::ZERO,
        input: "{}".to_owned(),
        key: None,
        traceparent: None,
        spending: None,
    };
    service.database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, now).await?;
    let models = [REMOTE.to_owned()];
    service.database.register("remote", None, &models, now).await?;
    let slot = Slot {
        node: "remote".to_owned(),
        models: models.into(),
        max_running: u32::MAX,
        passed_over: Vec::new(),
    };
    let rules = LeaseRules { length: Duration::from_hours(1), attempts: 3, ..RULES };
    match service.database.claim(&[slot], rules, now).await?.pop() {
        Some(Claim::Leased(lease)) => Ok(lease),
        _ => Err("there is no task".into()),
    }
}

async fn store(service: &Service, lease: &Lease, file: &str, text: &'static str) -> crate::Result<String> {
    let key = format!("{}/{}/{file}", lease.task, lease.attempt);
    service.objects.store_output("outputs", &key, "text/plain", text).await
}

async fn sweep(service: &Service) -> TestResult {
    Ok(service.objects.sweep(std::time::SystemTime::UNIX_EPOCH).await?)
}

#[tokio::test]
async fn an_output_is_deleted_by_its_account_and_is_no_file_of_its_storage() -> TestResult {
    let (service, _, url) = painted(Config::ephemeral()).await?;
    let owner = service.database.account("demo").await?.ok_or("no account")?;
    let usage = service.database.usage(owner.id).await?;
    assert_eq!((usage.files, usage.bytes), (1, LARGE), "the output is counted");
    let (_, stranger) = account(&service, "stranger", Scope::Personal).await?;
    assert_eq!(client()?.get(&url).send().await?.text().await?, "picture");
    let body = json!({ "url": url });
    assert_eq!(call(&service, &stranger, "DELETE", "/store/url", body.clone()).await?.0, 404);
    let key = service.api_key().unwrap_or_default();
    assert_eq!(call(&service, key, "DELETE", "/store/url", body.clone()).await?.0, 200);
    assert_eq!(client()?.get(&url).send().await?.status(), 404);
    assert_eq!(call(&service, key, "DELETE", "/store/url", body).await?.0, 404);
    Ok(())
}

#[tokio::test]
async fn outputs_expire_and_those_of_failed_attempts_go_at_once() -> TestResult {
    let (service, _, url) = painted(without_remote()).await?;
    let lease = leased(&service).await?;
    let failed = store(&service, &lease, "x.txt", "x").await?;
    let ending = Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() };
    service.database.finish("remote", &lease.task, lease.attempt, &ending, service.clock.now()).await?;
    let status =
        async |url: &str| Ok::<_, Box<dyn Error + Send + Sync>>(client()?.get(url).send().await?.status());
    assert_eq!(status(&failed).await?, 200);
    sweep(&service).await?;
    assert_eq!((status(&failed).await?.as_u16(), status(&url).await?.as_u16()), (404, 200));
    service.clock.advance(Duration::from_hours(30 * 24) - Duration::from_mins(1));
    sweep(&service).await?;
    assert_eq!(status(&url).await?, 200);
    service.clock.advance(Duration::from_mins(2));
    sweep(&service).await?;
    assert_eq!(status(&url).await?, 404);
    assert_eq!(total(&service, service.api_key().unwrap_or_default()).await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_orphan_that_cannot_be_swept_keeps_nothing_else_from_being_deleted() -> TestResult {
    let service = Service::start(without_remote()).await?;
    let lease = leased(&service).await?;
    let failed = store(&service, &lease, "x.txt", "x").await?;
    let ending = Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() };
    service.database.finish("remote", &lease.task, lease.attempt, &ending, service.clock.now()).await?;
    // A file instead of the orphans' folder makes the sweep fail.
    let orphans = service.data_folder().join("objects/orphans");
    std::fs::create_dir_all(&orphans)?;
    std::fs::remove_dir(&orphans)?;
    std::fs::write(&orphans, "")?;
    assert!(sweep(&service).await.is_err());
    assert_eq!(client()?.get(&failed).send().await?.status(), 404);
    Ok(())
}

#[tokio::test]
async fn a_blob_that_cannot_be_set_aside_stays_alone() -> TestResult {
    let service = Service::start(Config::ephemeral()).await?;
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(service.objects.blobs.begin()?.commit().await?.name);
    }
    let in_the_way = names.pop().unwrap_or_default();
    let today = service.clock.now().timestamp().to_zoned_datetime(jiff::tz::TimeZone::UTC).date();
    let orphans = service.data_folder().join(format!("objects/orphans/{today}"));
    std::fs::create_dir_all(orphans.join(in_the_way).join("folder"))?;
    service.objects.sweep(std::time::SystemTime::now() + Duration::from_hours(1)).await?;
    let set_aside: Vec<_> = service.objects.blobs.orphans().try_concat().await?;
    let mut set_aside: Vec<_> = set_aside.into_iter().map(|it| it.name).collect();
    names.sort();
    set_aside.sort();
    assert_eq!(set_aside, names);
    Ok(())
}

#[tokio::test]
async fn one_lease_stores_only_so_many_outputs_and_bytes() -> TestResult {
    let mut config = without_remote();
    (config.limits.outputs, config.limits.output_bytes) = (3, 17);
    let service = Service::start(config).await?;
    let lease = leased(&service).await?;
    let stores = async |file: &str, text: &'static str| store(&service, &lease, file, text).await.is_ok();
    assert!(
        stores("p.txt", "picture").await && stores("a.txt", "four").await && stores("b.txt", "four").await
    );
    assert!(!stores("c.txt", "c").await, "a fourth output");
    assert!(stores("b.txt", "sixsix").await, "another one in the place of the third");
    assert!(!stores("b.txt", "sevenxx").await, "more than 17 bytes");
    store(&service, &leased(&service).await?, "a.txt", "four").await?;
    let key = format!("{}/{}/b.txt", lease.task, lease.attempt);
    let kept = service.objects.read("outputs", &key).await?.ok_or("it is gone")?;
    assert_eq!(kept.bytes().await?, b"sixsix");
    Ok(())
}

#[tokio::test]
async fn an_output_that_arrives_after_the_end_of_its_task_replaces_nothing() -> TestResult {
    let service = Service::start(without_remote()).await?;
    let lease = leased(&service).await?;
    let url = store(&service, &lease, "a.txt", "the first").await?;
    let ending = Ending::Output(json!({ "output": url }).to_string());
    assert!(
        service.database.finish("remote", &lease.task, lease.attempt, &ending, service.clock.now()).await?
    );
    let late = store(&service, &lease, "a.txt", "a late one").await;
    assert!(late.is_err_and(|error| error.to_string().contains("lease is lost")));
    assert_eq!(client()?.get(&url).send().await?.text().await?, "the first");
    Ok(())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_holds_no_signature_whatever_its_level() -> TestResult {
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

    let logged = String::from_utf8(log.0.lock().clone())?;
    assert!(logged.contains("its bytes are missing"), "the failure is not logged");
    // The HTTP client of this test logs on the same thread; its lines are excluded.
    let ours = logged.lines().filter(|line| !line.contains("reqwest") && !line.contains("hyper_util"));
    let secret = endpoint.split("X-Amz-Signature=").nth(1).unwrap_or("no signature");
    let leaked: Vec<_> = ours.filter(|line| line.contains(secret) || line.contains("X-Amz-")).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    Ok(())
}

#[tokio::test]
async fn downloads_that_are_not_read_leave_most_connections_to_others() -> TestResult {
    let mut config = Config::ephemeral();
    config.limits.max_connections = 8;
    let service = Service::start(config).await?;
    let owner = service.account("demo", "finding an account").await?;
    // More than the socket buffers of both sides hold.
    let size = 64 << 20;
    let blobs = service.data_folder().join("objects/blobs/ab");
    std::fs::create_dir_all(&blobs)?;
    let mut urls = Vec::new();
    for name in ["one", "another", "third"] {
        let of = (owner.id, &*owner.bucket);
        let target = Target::of_owner(name.to_owned(), of, name, size, service.clock.now());
        service.database.add_target(&target, 3).await?;
        let object = target.object(format!("ab{name}"), String::new(), service.clock.now());
        service.database.store_upload(name, name, &object, Replaces::Any).await?;
        std::fs::File::create(blobs.join(format!("ab{name}")))?.set_len(size)?;
        urls.push(service.objects.locations.url(&owner.bucket, &target.key));
    }
    let [url, another, third] = &urls[..] else { return Err("three files".into()) };

    let client = client()?;
    let first = client.get(url).send().await?;
    assert_eq!(first.status(), 200);
    let refused = client.get(url).send().await?;
    assert_eq!(refused.status(), 503, "one file leaves permits to the others");
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(refused.text().await?.contains("<Code>SlowDown</Code>"));
    let second = client.get(another).send().await?;
    assert_eq!(second.status(), 200);
    assert_eq!(client.get(third).send().await?.status(), 503, "a quarter of the connections");
    let (status, _) = call(&service, "unknown", "GET", "/upload/statistics", Value::Null).await?;
    assert_eq!(status, 401, "the API responds");
    drop(first);
    let read = || client.get(url).send();
    until("the place is free", || async { read().await.is_ok_and(|read| read.status() == 200) }).await;
    drop(second);
    Ok(())
}
