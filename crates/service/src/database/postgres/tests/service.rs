//! Whole services over one database: concurrent starts, outages and promotions.

use std::time::Duration;

use super::server::{Empty, server};
use crate::clock::Moment;
use crate::config::Roles;
use crate::database::conformance::Fixture;
use crate::ledger::{Credit, Money, Purse};
use crate::operator::Refund;
use crate::{Config, ModelSpec, Service};

async fn config(empty: &Empty, folder: &std::path::Path) -> Config {
    let mut config = Config::folder(folder);
    config.database = Some(empty.url().await.parse().unwrap());
    config.workers = 1;
    config
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_service_over_postgresql_starts_again_and_keeps_its_books() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let service = Service::start(config(&empty, folder.path()).await).await.unwrap();
    assert!(service.api_key().is_some());
    let mut admin = crate::AdminClient::open(folder.path()).await.unwrap();
    let credit = r#"{"free": "2"}"#.to_owned();
    admin.call("POST", &["accounts", "demo", "credits"], Some(credit)).await.unwrap();
    admin.close().await;
    let accounts = service.accounts().await.unwrap();
    service.shutdown().await;
    let stopped = crate::AdminClient::open(folder.path()).await.unwrap_err();
    assert!(stopped.hint().unwrap().contains("PostgreSQL has to run"), "{stopped}");

    let service = Service::start(config(&empty, folder.path()).await).await.unwrap();
    assert!(service.api_key().is_none(), "the first start has shown it");
    assert_eq!(service.accounts().await.unwrap(), accounts);
    assert_eq!(service.audit().await.unwrap().faults, [""; 0]);
    assert!(!folder.path().join("inferstore.db").exists(), "nothing is kept in SQLite beside it");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_start_waits_for_a_returning_database_and_refuses_a_wrong_one() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let mut config = config(&empty, folder.path()).await;
    config.workers = 0;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    config.database = Some(empty.tcp_url(port).await.parse().unwrap());
    let comes_back = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        tokio::spawn(forward(port, server().port));
    };
    let (service, ()) = tokio::join!(Service::start(config.clone()), comes_back);
    service.unwrap().shutdown().await;

    config.database = Some(Empty::new().uncreated_url().parse().unwrap());
    let began = std::time::Instant::now();
    let refused = Service::start(config).await.err().unwrap();
    assert!(refused.to_string().contains("does not exist"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(30), "it waits for what will not come");
}

async fn forward(from: u16, to: u16) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", from)).await.unwrap();
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut server = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_health_check_reads_no_tasks() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let mut config = config(&empty, folder.path()).await;
    config.operations = Some(crate::config::FREE_PORT);
    config.workers = 0;
    config.limits.health_timeout = Duration::from_secs(1);
    let service = Service::start(config).await.unwrap();
    let health = format!("{}/health", service.operations_url().unwrap());
    let hold = empty.execute("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3); COMMIT");
    let check = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build().unwrap();
        client.get(&health).send().await.unwrap().status().as_u16()
    };
    let ((), status) = tokio::join!(hold, check);
    assert_eq!(status, 200);
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_second_folder_of_files_over_one_database_is_refused() {
    let (empty, one, other) = (Empty::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Service::start(config(&empty, one.path()).await).await.unwrap();
    let refused = Service::start(config(&empty, other.path()).await).await.err().unwrap();
    assert!(refused.hint().unwrap().contains("--objects"), "{refused}");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_process_serves_what_its_roles_are() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let mut jobs = config(&empty, folder.path()).await;
    jobs.roles = "jobs".parse().unwrap();
    let service = Service::start(jobs).await.unwrap();
    assert_eq!((service.base_url(), service.api_key()), ("", None), "it serves no API and adds no account");
    service.shutdown().await;

    let mut api = config(&empty, folder.path()).await;
    api.roles = Roles { nodes: false, jobs: false, ..Roles::default() };
    let service = Service::start(api).await.unwrap();
    assert!(service.base_url().ends_with("/api/v1") && service.api_key().is_some());
    assert!(service.nodes_url().is_none());
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_task_deleted_during_its_second_refund_is_not_refunded_again() {
    let fixture = Fixture::new(Empty::new()).await;
    let database = &fixture.database;
    let paid = Credit::Paid("10".parse().unwrap());
    database.credit(fixture.customer, paid, Moment(0)).await.unwrap();
    let task = fixture.create_task(fixture.customer, 8, Moment(1)).await;
    fixture.succeed(Moment(2)).await;
    let purses = [(Purse::Earnings, Money::from_smallest(100))];
    database.set_purses(fixture.operator, &purses, Moment(3)).await.unwrap();
    assert!(matches!(database.refund(&task, Moment(4)).await.unwrap(), Refund::Done { .. }));
    let retention = format!(
        "BEGIN; SELECT 1 FROM purses FOR UPDATE; SELECT pg_sleep(2); \
         UPDATE movements SET reason = 'carried', task = NULL WHERE task IS NOT NULL; \
         DELETE FROM tasks WHERE id = '{task}'; COMMIT"
    );
    let refund = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        database.refund(&task, Moment(5)).await.unwrap()
    };
    let ((), refund) = tokio::join!(fixture.engine.execute(&retention), refund);
    assert_eq!(refund, Refund::Unknown);
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn earnings_of_a_publisher_during_a_refund_are_not_taken_early() {
    let fixture = Fixture::new(Empty::new()).await;
    let database = &fixture.database;
    database.credit(fixture.customer, Credit::Paid(Money::from_smallest(8)), Moment(0)).await.unwrap();
    let task = fixture.create_task(fixture.customer, 8, Moment(1)).await;
    fixture.succeed(Moment(2)).await;
    let earnings = Money::from_smallest(7);
    database.set_purses(fixture.operator, &[(Purse::Earnings, earnings)], Moment(3)).await.unwrap();
    let earn = format!(
        "CREATE FUNCTION earn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO purse_changes (account, purse, amount) VALUES ({}, 'earnings', 1); RETURN NULL; END $$; \
         CREATE TRIGGER earn AFTER DELETE ON purse_changes FOR EACH STATEMENT EXECUTE FUNCTION earn()",
        fixture.operator.0
    );
    fixture.engine.execute(&earn).await;
    let refund = database.refund(&task, Moment(4)).await.unwrap();
    assert_eq!(refund, Refund::EarningsTooSmall { earnings });
    assert!(matches!(database.refund(&task, Moment(5)).await.unwrap(), Refund::Done { .. }));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn inputs_with_a_nul_are_read_as_they_were_sent() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let mut config = config(&empty, folder.path()).await;
    config.workers = 0;
    let service = Service::start(config).await.unwrap();
    let spec = r#"{
        "id": "say", "name": "say", "description": "Says a text.", "price": "0", "visibility": "public",
        "input_format": {"text": {"type": "string", "required": true, "position": 0}},
        "output_format": {"said": {"type": "string", "position": 0}}
    }"#;
    service.publish_model("demo", ModelSpec::from_json(spec).unwrap()).await.unwrap();
    let client = inferstore_fetch::over_ring(reqwest::Client::builder()).no_proxy().build().unwrap();
    let create = async |input: &'static str| {
        let url = format!("{}/api-key/model/say/task", service.base_url());
        let request = client.post(url).header("content-type", "application/json").body(input);
        let sent = request.header("x-api-key", service.api_key().unwrap()).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    let input = r#"{ "text": "a\u0000b \u001a \\u0000" }"#;
    let (status, created) = create(input).await;
    assert_eq!(status, 200, "{created}");
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    let owner = service.account("demo", "finding an account").await.unwrap().id;
    let id = created["data"]["data"].as_str().unwrap();
    let task = service.database.task(owner, id).await.unwrap().unwrap();
    assert_eq!(task.input, input);
    assert_eq!(create("{\"text\": \"a\0b\"}").await.0, 400, "JSON has no such text");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_credit_whose_commit_is_in_doubt_is_not_reported_as_refused() {
    let (empty, folder) = (Empty::new(), tempfile::tempdir().unwrap());
    let service = Service::start(config(&empty, folder.path()).await).await.unwrap();
    let lose_commits = "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON movements DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION lose()";
    empty.execute(lose_commits).await;
    let mut admin = crate::AdminClient::open(folder.path()).await.unwrap();
    let credit = r#"{"free": "2"}"#.to_owned();
    let failed = admin.call("POST", &["accounts", "demo", "credits"], Some(credit)).await.unwrap_err();
    assert!(failed.is_outcome_unknown(), "{failed}");
    admin.close().await;
    service.shutdown().await;
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn what_goes_by_is_reported_as_unavailable_and_not_as_a_failure() {
    let fixture = Fixture::new(Empty::new()).await;
    // A lock timeout, a statement timeout, a standby.
    for code in ["55P03", "57014", "25006"] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$; \
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON settings FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        fixture.engine.execute(&refuse).await;
        assert!(fixture.database.check_writer().await.is_err_and(|error| error.is_unavailable()), "{code}");
    }
}
