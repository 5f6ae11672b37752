//! TLS to a server with a certificate. Trusted certificates come from the environment: one process per case.

use std::process::Command;

use super::super::PostgresDatabase;
use super::super::statements::one;
use super::server::server;
use crate::database::records::column;

const URL: &str = "INFERSTORE_TEST_TLS_URL";

fn open(url: &str, trusted: &str) -> Result<(), String> {
    let name = format!("{}::a_process_opens_the_database", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--ignored", "--nocapture", &name]).env(URL, url);
    let output = child.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(said.contains("running 1 test"), "{said}");
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[tokio::test]
#[ignore = "it is started by the test below, in a process of its own"]
async fn a_process_opens_the_database() {
    let database = PostgresDatabase::open(&std::env::var(URL).unwrap()).await.unwrap();
    let connection = database.connection().await.unwrap();
    let select = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(one::<bool>(&connection, select, &[], column).await.unwrap(), "the connection has no TLS");
}

#[test]
#[ignore = "it starts a PostgreSQL"]
fn a_server_is_known_by_its_certificate_and_its_name() {
    let server = server();
    let url = server.tls_url("localhost");
    open(&url, &server.certificate()).unwrap();
    let unknown = open(&url, "/dev/null").unwrap_err();
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let other_name = open(&server.tls_url("127.0.0.1"), &server.certificate()).unwrap_err();
    assert!(other_name.contains("not valid for name"), "{other_name}");
}
